//! Lines that fit.

/// Breaks a text at spaces into lines of at most `width` characters; a longer word stays whole.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

/// Narrower columns are harder to read than a line that is too long.
const NARROWEST: usize = 30;

/// How wide a text may be that is set behind `indent`.
pub fn beside(indent: usize, width: usize) -> usize {
    width.saturating_sub(indent).max(NARROWEST)
}

/// A text that begins behind `indent` characters, its later lines set under the first.
pub fn hang(text: &str, indent: usize, width: usize) -> String {
    wrap(text, beside(indent, width)).join(&format!("\n{:indent$}", ""))
}

/// Paragraphs set anew for a width. An indented line, and one that begins with words and a colon, stays a line of its own.
pub fn reflow(text: &str, width: usize) -> String {
    let mut blocks: Vec<String> = Vec::new();
    let mut joins = false;
    for line in text.lines() {
        let own = line.starts_with(' ')
            || line.starts_with("See it yourself")
            || line.starts_with("Fix:")
            || line.starts_with("With --fix")
            || line.is_empty();
        match blocks.last_mut() {
            Some(block) if joins && !own => {
                block.push(' ');
                block.push_str(line);
            }
            _ => blocks.push(line.to_owned()),
        }
        joins = !line.is_empty() && !line.starts_with(' ');
    }
    let lines =
        blocks.iter().flat_map(|block| if block.starts_with(' ') { vec![block.clone()] } else { wrap(block, width) });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("averylongword b", 5), ["averylongword", "b"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("one  two", 4), ["one", "two"]);
    }

    #[test]
    fn later_lines_stand_under_the_first() {
        assert_eq!(hang("a text of a length that needs two", 4, 30), "a text of a length that needs\n    two");
        assert_eq!(hang("short", 4, 30), "short");
        assert_eq!((beside(6, 80), beside(6, 20)), (74, NARROWEST));
    }

    #[test]
    fn sets_paragraphs_anew() {
        let text = "A title.\n\nOne line\nand its second.\n\nSee it yourself: x\nFix: y\n  kept as  it is\nand more";
        assert_eq!(
            reflow(text, 16),
            "A title.\n\nOne line and its\nsecond.\n\nSee it yourself:\nx\nFix: y\n  kept as  it is\nand more"
        );
    }
}
