//! A file that was being written in place when its writer was killed.
//!
//! Nothing else in it: not one byte that somebody else put there.

/// Whether a file is what is there when `new` is written over `old` from the beginning, and that ends anywhere: so many bytes
/// of the new one, then the old one's.
pub fn is_cut_short(old: &[u8], new: &[u8], found: &[u8]) -> bool {
    let written = found.iter().zip(new).take_while(|(found, new)| found == new).count();
    if found.len() > old.len() {
        return written == found.len();
    }
    // The old one's end is cut only when all of the new one stands.
    let stays = found.iter().rev().zip(old.iter().rev()).take_while(|(found, old)| found == old).count();
    found.len() == old.len() && written + stays >= found.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_the_write_itself_leaves_is_cut_short() {
        for (old, new, found, expected) in [
            ("", "new", "", true),
            ("", "new", "ne", true),
            ("", "new", "new", true),
            ("", "new", "nex", false),
            ("", "new", "newer", false),
            ("older", "new", "older", true),
            ("older", "new", "neder", true),
            ("older", "new", "newer", true),
            ("older", "new", "newe", false),
            ("older", "new", "nexer", false),
            ("older", "new", "olde", false),
            ("old", "newer", "newe", true),
            ("old", "newer", "ned", true),
            ("old", "newer", "old!", false),
            ("old", "newer", "nwd", false),
        ] {
            assert_eq!(is_cut_short(old.as_bytes(), new.as_bytes(), found.as_bytes()), expected, "{old} {new} {found}");
        }
    }

    proptest! {
        #[test]
        fn wherever_it_ends_it_is_told(old in "[ab]{0,9}", new in "[ab]{0,9}", at in 0usize..10) {
            let at = at.min(new.len());
            let rest = old.get(at..).unwrap_or_default();
            let found = format!("{}{rest}", &new[..at]);
            prop_assert!(is_cut_short(old.as_bytes(), new.as_bytes(), found.as_bytes()));
        }

        #[test]
        fn a_byte_of_somebody_elses_is_never_taken_for_ours(old in "[ab]{0,9}", new in "[ab]{0,9}", at in 0usize..10) {
            let found = [&old[..at.min(old.len())], "X"].concat();
            prop_assert!(!is_cut_short(old.as_bytes(), new.as_bytes(), found.as_bytes()));
        }
    }
}
