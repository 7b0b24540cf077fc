//! Text as it may be shown: what a terminal obeys and what an eye cannot see comes out as U+FFFD, one for one, so that no width
//! that was counted before is wrong after.
//!
//! Names of machines, files and pods, and the words of ssh, kubeadm and systemd come from where nobody has vouched for them. Who
//! writes to a terminal hands all of it to [`Styles::written`] as the last thing it does: no caller has to remember, and none can
//! forget. Pages and XML have escapes of their own and ask [`is_unseen`].
//!
//! Our own colours have to come through, and nobody else's. By what it looks like, `ESC [ 31 m` of ours is the same as one in the
//! name of a host. So a mark of ours carries a key that is drawn anew in every process: text that was read cannot hold it.

/// What stands for a character that is not shown. Its bytes mean nothing to a terminal that does not read UTF-8, either.
pub const INSTEAD: char = '\u{fffd}';

/// Whether a terminal might act on a character, or a reader not see it: control characters of both sets, line and paragraph
/// separators, changes of direction, what has no width, and code points that are no characters.
///
/// Unicode calls most of these `Default_Ignorable`. Not among them here are the variation selectors behind an emoji: scripts
/// print them, and they change how that one sign looks.
pub fn is_unseen(c: char) -> bool {
    let no_character = (c as u32) & 0xfffe == 0xfffe;
    c.is_control()
        || no_character
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fdd0}'..='\u{fdef}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// As a part of one line: what would end the line is not shown, either.
pub fn in_line(text: &str) -> String {
    text.chars().map(|c| if c == '\t' { ' ' } else { seen(c) }).collect()
}

/// JSON as it may be shown: the same value, with what is not to be seen written as `\u…`. In JSON that can only stand within a
/// string, and never behind a backslash.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_unseen(c) {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Lines stay lines, and tabs tabs.
fn lines(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { seen(c) })
}

fn seen(c: char) -> char {
    if is_unseen(c) { INSTEAD } else { c }
}

/// The marks of our own styles.
pub struct Styles {
    /// What each mark begins with: an escape sequence, so that whoever takes those out of a text takes out marks as well.
    opening: String,
}

impl Styles {
    /// `key`: a number that nobody can know who wrote a text before this process began.
    pub fn new(key: u64) -> Self {
        Styles { opening: format!("\x1b[{key};") }
    }

    /// Text in a style, for [`Self::written`]: `1;31` is bold and red.
    pub fn styled(&self, style: &str, text: &str) -> String {
        let Styles { opening } = self;
        format!("{opening}{style}m{text}{opening}0m")
    }

    /// What goes to the terminal: marks of ours as what they stand for, or as nothing, and everything else as text.
    pub fn written(&self, text: &str, coloured: bool) -> String {
        let mut out = String::with_capacity(text.len());
        for (n, piece) in text.split(&self.opening).enumerate() {
            match piece.split_once('m').filter(|(style, _)| n > 0 && is_style(style)) {
                Some((style, after)) => {
                    if coloured {
                        out.extend(["\x1b[", style, "m"]);
                    }
                    out.extend(lines(after));
                }
                // A mark that was cut in two is text.
                None if n > 0 => out.extend(lines(&self.opening).chain(lines(piece))),
                None => out.extend(lines(piece)),
            }
        }
        out
    }
}

fn is_style(style: &str) -> bool {
    (1..=8).contains(&style.len()) && style.bytes().all(|byte| byte.is_ascii_digit() || byte == b';')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STYLES: [&str; 3] = ["1", "2", "1;31"];

    fn styles() -> Styles {
        Styles::new(7_410_982_334_017_255)
    }

    #[test]
    fn what_a_terminal_obeys_or_hides_is_seen() {
        let rows = [
            ("naïve 節点 → ⚠\u{fe0f}", "naïve 節点 → ⚠\u{fe0f}"),
            ("\x1b[31mred\x1b[0m", "\u{fffd}[31mred\u{fffd}[0m"),
            ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\", "\u{fffd}]0;title\u{fffd}\u{fffd}]8;;http://x\u{fffd}\\"),
            ("\u{9b}2J\u{9d}52;c;\u{9c}", "\u{fffd}2J\u{fffd}52;c;\u{fffd}"),
            ("a\rb\x08c\x7fd\0", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}"),
            ("\u{202e}gpj\u{202c}\u{2066}x\u{2069}", "\u{fffd}gpj\u{fffd}\u{fffd}x\u{fffd}"),
            ("a\u{200b}b\u{200d}c\u{feff}d\u{ad}e", "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e"),
            ("a\u{85}b\u{2028}c\u{2029}d", "a\u{fffd}b\u{fffd}c\u{fffd}d"),
            ("a\u{e0041}b\u{fffe}c\u{10ffff}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
        ];
        for (text, expected) in rows {
            assert_eq!(styles().written(text, true), expected, "{text:?}");
            assert_eq!(in_line(text), expected, "{text:?}");
        }
        assert_eq!(styles().written("a\tb\nc", true), "a\tb\nc");
        assert_eq!(in_line("a\tb\nc"), "a b\u{fffd}c");
    }

    #[test]
    fn our_styles_come_through_and_nobody_elses() {
        let (ours, theirs) = (styles(), Styles::new(1));
        let text = format!("{} · {}", ours.styled("1;31", "w\x1b[1m1"), theirs.styled("1;31", "x"));
        assert_eq!(ours.written(&text, true), "\x1b[1;31mw\u{fffd}[1m1\x1b[0m · \u{fffd}[1;1;31mx\u{fffd}[1;0m");
        assert_eq!(ours.written(&text, false), "w\u{fffd}[1m1 · \u{fffd}[1;1;31mx\u{fffd}[1;0m");
        let mark = ours.styled("1", "");
        let cut = &mark[..mark.find('m').unwrap()];
        assert!(!ours.written(cut, true).contains('\x1b'));
        for odd in ["", "1;31;1;31;1", "38:5:1", "?25l\x1b[1"] {
            assert!(!ours.written(&ours.styled(odd, "x"), true).contains(&format!("\x1b[{odd}m")), "{odd:?}");
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}31m", "\u{e0041}\u{200b}", "\x1b\n\"\\"]});
        let shown = json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(shown.contains("\\u202e") && shown.contains("\\u009b") && shown.contains("\\udb40\\udc41\\u200b"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    proptest! {
        #[test]
        fn any_text_comes_out_as_text_and_as_long_as_it_was(
            pieces in prop::collection::vec(prop_oneof![any::<String>(), "\\x1b[\\[\\]][0-9;?]{0,6}[a-zA-Z]", "[\u{80}-\u{9f}\u{2000}-\u{2070}]{1,4}"], 0..9),
        ) {
            let text = pieces.concat();
            for coloured in [true, false] {
                let out = styles().written(&text, coloured);
                prop_assert!(!out.chars().any(|c| is_unseen(c) && !matches!(c, '\n' | '\t')), "{out:?}");
                prop_assert_eq!(out.chars().count(), text.chars().count());
            }
            prop_assert!(!in_line(&text).chars().any(is_unseen));
            prop_assert!(!json(&text).chars().any(|c| is_unseen(c) && c != '\n'));
        }

        #[test]
        fn between_styles_of_ours_all_is_text(pieces in prop::collection::vec((0..4_usize, any::<String>()), 0..6)) {
            let styles = styles();
            let piece = |(style, text): &(usize, String)| match STYLES.get(*style) {
                Some(style) => styles.styled(style, text),
                None => text.clone(),
            };
            let out = styles.written(&pieces.iter().map(piece).collect::<String>(), true);
            let sequences = ["\x1b[1m", "\x1b[2m", "\x1b[1;31m", "\x1b[0m"];
            let plain = sequences.iter().fold(out, |out, sequence| out.replace(sequence, ""));
            prop_assert!(!plain.chars().any(|c| is_unseen(c) && !matches!(c, '\n' | '\t')), "{plain:?}");
            let length: usize = pieces.iter().map(|(_, text)| text.chars().count()).sum();
            prop_assert_eq!(plain.chars().count(), length);
        }

        #[test]
        fn any_json_keeps_its_value(text in any::<String>()) {
            let shown = json(&serde_json::to_string(&text).unwrap());
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
