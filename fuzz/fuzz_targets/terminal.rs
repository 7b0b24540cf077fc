//! Any text, styled by us or not: what goes to a terminal is text, as long as it was, with our own styles in it and no others.
#![no_main]

use carrick_core::shown::{self, Styles};
use libfuzzer_sys::fuzz_target;

fn is_obeyed(c: char) -> bool {
    shown::is_unseen(c) && !matches!(c, '\n' | '\t')
}

fuzz_target!(|input: (u64, &str, &str)| {
    let (key, text, more) = input;
    let styles = Styles::new(key);
    let opening = format!("\x1b[{key};");
    let whole = format!("{}{more}", styles.styled("1;31", text));
    assert!(!shown::in_line(text).contains(shown::is_unseen));
    assert!(!shown::json(text).contains(|c| c != '\n' && shown::is_unseen(c)));
    if text.contains(&opening) || more.contains(&opening) || whole.matches(&opening).count() != 2 {
        // Whoever knows the key is us.
        return;
    }
    let plain = styles.written(&whole, false);
    assert!(!plain.contains(is_obeyed));
    assert_eq!(plain.chars().count(), text.chars().count() + more.chars().count());
    let coloured = styles.written(&whole, true);
    assert!(coloured.starts_with("\x1b[1;31m") && coloured.matches('\x1b').count() == 2);
    assert_eq!(coloured.replacen("\x1b[1;31m", "", 1).replacen("\x1b[0m", "", 1), plain);
});
