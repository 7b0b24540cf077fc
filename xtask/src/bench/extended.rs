//! A signature's expression as grep -E understands it: another spelling of the same, so that both programs look for the
//! same lines.
//!
//! Names of groups go, and what only tells a match's length from another (`+?`): a line has a match or it has none. In
//! brackets `\` is a letter for grep: `[\w.-]` is `[[:alnum:]_.-]` there.

use std::iter::Peekable;
use std::str::Chars;

/// Nothing where there is no such expression.
pub(super) fn extended(pattern: &str) -> Option<String> {
    let mut letters = pattern.chars().peekable();
    let mut out = String::with_capacity(pattern.len());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.push_str(&escaped(letters.next()?)?),
            '[' => out.push_str(&bracket(&mut letters)?),
            '(' if letters.next_if_eq(&'?').is_some() => {
                group(&mut letters)?;
                out.push('(');
            }
            '*' | '+' | '?' | '}' => {
                out.push(letter);
                letters.next_if_eq(&'?');
            }
            _ => out.push(letter),
        }
    }
    Some(out)
}

/// What `\` stands before, outside of brackets.
fn escaped(letter: char) -> Option<String> {
    match letter {
        'd' => Some("[0-9]".to_owned()),
        'D' => Some("[^0-9]".to_owned()),
        'A' => Some("^".to_owned()),
        'z' => Some("$".to_owned()),
        's' | 'S' | 'w' | 'W' | 'b' | 'B' => Some(format!("\\{letter}")),
        letter if letter.is_ascii_alphanumeric() => None,
        letter if r".[]{}()*+?|^$\".contains(letter) => Some(format!("\\{letter}")),
        letter => Some(letter.to_string()),
    }
}

/// `?:` and `?P<name>`, of which the first letter is read; flags have no spelling.
fn group(letters: &mut Peekable<Chars>) -> Option<()> {
    letters.next_if_eq(&'P');
    match letters.next()? {
        ':' => Some(()),
        '<' => letters.find(|&letter| letter == '>').map(drop),
        _ => None,
    }
}

/// From after `[` to its `]`.
fn bracket(letters: &mut Peekable<Chars>) -> Option<String> {
    let not = if letters.next_if_eq(&'^').is_some() { "^" } else { "" };
    // Without an escape, `]` can only be the first, `-` only the last, `^` anything but the first.
    let (mut closing, mut middle, mut caret, mut dash) = ("", String::new(), "", "");
    loop {
        let letter = letters.next()?;
        match (letter == '\\').then(|| letters.next()).flatten().unwrap_or(letter) {
            ']' if letter == ']' => break,
            '[' if letter == '[' => return None,
            ']' => closing = "]",
            '^' => caret = "^",
            '-' if letter == '\\' || middle.is_empty() || letters.peek() == Some(&']') => dash = "-",
            'd' if letter == '\\' => middle.push_str("0-9"),
            'w' if letter == '\\' => middle.push_str("[:alnum:]_"),
            's' if letter == '\\' => middle.push_str("[:space:]"),
            // No line has one.
            'n' if letter == '\\' => {}
            other if letter == '\\' && other.is_ascii_alphanumeric() => return None,
            other => middle.push(other),
        }
    }
    match [closing, &middle, caret, dash].concat() {
        all if all.is_empty() && not == "^" => Some(".".to_owned()),
        all if all.is_empty() => None,
        all => Some(format!("[{not}{all}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_spelling_of_the_same() {
        for (pattern, same) in [
            (r"a+b*c?d{2,3}|^e$", r"a+b*c?d{2,3}|^e$"),
            (r"(?:a|b)(?P<name>c)(?<other>d)", "(a|b)(c)(d)"),
            (r"a+?b*?c??d{2}?", "a+b*c?d{2}"),
            (r"\d+\.\d\s\w\b\S", r"[0-9]+\.[0-9]\s\w\b\S"),
            (r#"\A\[x\]\\"\/ \-\z"#, r#"^\[x\]\\"/ -$"#),
            (r"[\w.-]+[^\s:]", "[[:alnum:]_.-]+[^[:space:]:]"),
            (r#"[^\n]*[^"\n][^\]]"#, r#".*[^"][^]]"#),
            (r#"[^"\\][\]\-^a-f\d]"#, r#"[^"\][]a-f0-9^-]"#),
            (r"[-+][a\-z][^a^]", "[+-][az-][^a^]"),
            ("[‘’']", "[‘’']"),
        ] {
            assert_eq!(extended(pattern).as_deref(), Some(same), "{pattern}");
        }
    }

    #[test]
    fn what_grep_cannot_say_is_left_out() {
        for pattern in [r"(?i)a", r"(?i:a)", r"\pL", r"[\S]", r"[[:alpha:]]", r"a\nb", r"[a", r"(?P<a", "\\", r"[\n]"] {
            assert_eq!(extended(pattern), None, "{pattern}");
        }
    }
}
