//! Text in a picture: SVG does not break lines, so this does, for a font that is not known here.

/// Breaks a text into at most `most` lines that fit `width` at a font size; what has no room ends in `…`.
pub fn lines(text: &str, size: f64, width: f64, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in text.split_whitespace().flat_map(|word| pieces(word, size, width)) {
        let apart = if line.is_empty() || piece.continues { "" } else { " " };
        if !line.is_empty() && (piece.continues || wide(&line, size) + wide(" ", size) + wide(piece.text, size) > width)
        {
            lines.push(std::mem::take(&mut line));
            if lines.len() == most {
                return cut(lines, size, width);
            }
            line.push_str(piece.text);
        } else {
            line.push_str(apart);
            line.push_str(piece.text);
        }
    }
    lines.push(line);
    lines
}

/// How wide a text may become, in the same unit as its size.
pub fn wide(text: &str, size: f64) -> f64 {
    text.chars().map(width_of).sum::<f64>() * size
}

struct Piece<'a> {
    text: &'a str,
    /// It is the rest of a word that was too long for one line.
    continues: bool,
}

/// A word, cut where it is too long for a line.
fn pieces(word: &str, size: f64, width: f64) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = word;
    let mut continues = false;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // The first is always taken: a line holds at least one, however narrow it is.
        let mut used = rest.chars().next().map_or(0.0, |c| width_of(c) * size);
        let too_far = |(_, c): &(usize, char)| {
            used += width_of(*c) * size;
            used > width
        };
        let end = rest.char_indices().skip(1).find(too_far).map(|(at, _)| at);
        let (text, after) = end.map_or((rest, ""), |end| rest.split_at(joint(rest, end)));
        rest = after;
        Some(Piece { text, continues: std::mem::replace(&mut continues, true) })
    })
}

/// Where a word that is too long is best cut: behind a mark, as paths and flags have them, unless that is far from the end.
fn joint(word: &str, end: usize) -> usize {
    let (fits, _) = word.split_at(end);
    let behind = |marks: &[char]| fits.rfind(marks).map(|at| at + 1).filter(|at| at * 2 > end);
    behind(&['/']).or_else(|| behind(&['.', '-', '_', ':', '=', ','])).unwrap_or(end)
}

fn cut(mut lines: Vec<String>, size: f64, width: f64) -> Vec<String> {
    if let Some(last) = lines.last_mut() {
        while !last.is_empty() && wide(last, size) + wide("…", size) > width {
            last.pop();
        }
        last.push('…');
    }
    lines
}

/// A character's width at size 1. Generous: these are DejaVu Sans's, the widest of the usual system fonts, in bold.
fn width_of(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.4,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.5,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 1.1,
        c if c.is_ascii_uppercase() || matches!(c, '=' | '+' | '<' | '>' | '~' | '#' | '&') => 0.85,
        c if c.is_ascii() => 0.72,
        // Latin with accents, Greek, Cyrillic; beyond these are signs as wide as they are high.
        c if (c as u32) < 0x530 => 0.85,
        _ => 1.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_at_spaces_and_cuts_what_has_none() {
        assert_eq!(lines("one two three", 10.0, 60.0, 9), ["one two", "three"]);
        assert_eq!(lines("", 10.0, 60.0, 9), [""]);
        assert_eq!(lines("abababababab", 10.0, 40.0, 9).concat(), "abababababab");
        assert_eq!(lines("/etc/kubernetes/kubelet.conf", 10.0, 120.0, 9), ["/etc/kubernetes/", "kubelet.conf"]);
        assert_eq!(lines("one two three four", 10.0, 60.0, 1), ["one two…"]);
    }

    #[test]
    fn every_line_fits_whatever_the_text() {
        for text in ["W".repeat(10_000), "word ".repeat(2_000), "節".repeat(500), " \t\n ".to_owned(), "a".to_owned()]
        {
            for width in [1.0, 30.0, 300.0] {
                let lines = lines(&text, 12.0, width, 4);
                assert!((1..=4).contains(&lines.len()));
                let narrowest = wide("W…", 12.0);
                assert!(lines.iter().all(|line| wide(line, 12.0) <= f64::max(width, narrowest)), "{width}: {lines:?}");
            }
        }
    }
}
