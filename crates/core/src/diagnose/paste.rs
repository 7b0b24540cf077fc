//! A text as people paste it, made into what the programs wrote: quotes, entities and code marks off, lines that a terminal or
//! a mail program broke put together again.
//!
//! Every line keeps its number: what was put together stands where it began, and empty lines follow it.

use std::borrow::Cow;

use super::line;
use super::segment;

/// What is put right: more than anybody pastes. What is larger came out of a file as a program wrote it.
pub(super) const LARGEST: usize = 1 << 20;
/// No terminal and no mail program breaks lines shorter than this.
const NARROWEST: usize = 60;
/// A single line that was broken says nothing of where others would be: narrower than this a mail program did it.
const TERMINAL: usize = 80;
/// Mail programs break at 72 to 80; forums and chats at up to this.
const WIDEST_MAIL: usize = 132;
/// A line of more than this was not broken by anybody.
const LONGEST: usize = 16 << 10;

/// The text as it was; what needs nothing is given back as it is.
pub(super) fn restored(text: &str) -> Cow<'_, str> {
    let mut lines: Vec<Cow<'_, str>> = text.split('\n').map(unmarked).collect();
    unfence(&mut lines);
    let joined = joined(&lines);
    if joined.is_empty() && lines.iter().all(|line| matches!(line, Cow::Borrowed(_))) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut joined = joined.into_iter().peekable();
    let mut number = 0;
    while let Some(line) = lines.get(number) {
        if number > 0 {
            out.push('\n');
        }
        match joined.next_if(|join| join.first == number) {
            Some(Joined { whole, more, .. }) => {
                out.push_str(&whole);
                out.extend(std::iter::repeat_n('\n', more));
                number += more;
            }
            None => out.push_str(line),
        }
        number += 1;
    }
    Cow::Owned(out)
}

/// A line without what a chat, a mail or a web page put around it.
fn unmarked(line: &str) -> Cow<'_, str> {
    let bare = line.strip_suffix('\r').unwrap_or(line);
    let inner = uncoded(unquoted(bare));
    let same = inner.len() == bare.len();
    let needs = |c: char| matches!(c, '\u{a0}' | '\u{200b}' | '\u{feff}' | '“' | '”' | '„' | '‘' | '’');
    if !inner.contains('&') && !inner.contains(needs) {
        // Borrowed says: as it was.
        return if same { Cow::Borrowed(line) } else { Cow::Owned(inner.to_owned()) };
    }
    let text = entities(inner);
    let straight = text.chars().filter(|c| !matches!(c, '\u{200b}' | '\u{feff}')).map(|c| match c {
        '\u{a0}' => ' ',
        '“' | '”' | '„' => '"',
        '‘' | '’' => '\'',
        c => c,
    });
    let text: String = straight.collect();
    if text == bare { Cow::Borrowed(line) } else { Cow::Owned(text) }
}

/// `> ` before it, as often as it was quoted.
fn unquoted(line: &str) -> &str {
    let mut rest = line;
    while let Some(inner) =
        rest.trim_start().strip_prefix('>').filter(|inner| inner.is_empty() || inner.starts_with([' ', '>']))
    {
        rest = inner.strip_prefix(' ').unwrap_or(inner);
    }
    rest
}

/// `` `line` ``: a line of code within a sentence's marks.
fn uncoded(line: &str) -> &str {
    let inner = line.trim().strip_prefix('`').and_then(|inner| inner.strip_suffix('`'));
    inner.filter(|inner| !inner.is_empty() && !inner.contains('`')).unwrap_or(line)
}

/// Marks around a block of code say nothing of it, unless there is a document around them in which it may be an example.
fn unfence(lines: &mut [Cow<'_, str>]) {
    let is_markdown = |line: &str| {
        line.starts_with("# ") || line.starts_with("## ") || line.starts_with("### ") || line.contains("**")
    };
    let is_fence = |line: &str| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
    if lines.iter().any(|line| is_fence(line)) && !lines.iter().any(|line| is_markdown(line)) {
        for line in lines.iter_mut().filter(|line| is_fence(line)) {
            *line = Cow::Owned(String::new());
        }
    }
}

/// What HTML writes for characters that mean something to it.
const ENTITIES: [(&str, &str); 11] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#34;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&#x2F;", "/"),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&#10;", " "),
    // The last: what it gives is no entity again.
    ("&amp;", "&"),
];

fn entities(line: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(line);
    for (entity, letter) in ENTITIES {
        if text.contains(entity) {
            text = Cow::Owned(text.replace(entity, letter));
        }
    }
    text
}

/// Lines that were one.
struct Joined {
    first: usize,
    /// How many follow the first.
    more: usize,
    whole: String,
}

/// The lines that somebody broke, block by block: a paste may hold things of several widths, with empty lines between.
fn joined(lines: &[Cow<'_, str>]) -> Vec<Joined> {
    let mut all = Vec::new();
    let mut start = 0;
    for block in lines.split(|line| line.trim().is_empty()) {
        if block.len() > 1 {
            all.extend(of_block(block).into_iter().map(|join| Joined { first: join.first + start, ..join }));
        }
        start += block.len() + 1;
    }
    all
}

fn of_block(block: &[Cow<'_, str>]) -> Vec<Joined> {
    let width = Width::of(block);
    let mut all = Vec::new();
    let mut first = 0;
    while first < block.len() {
        let mut whole = block[first].trim_end_matches('\r').to_owned();
        let mut more = 0;
        if is_message(&whole) {
            while let Some(next) = block.get(first + more + 1).map(|next| next.trim_end_matches('\r')) {
                let last = block[first + more].trim_end_matches('\r');
                let Some(between) = width.between(&whole, last, next) else { break };
                whole.push_str(between);
                whole.push_str(if between.is_empty() { next } else { next.trim_start() });
                more += 1;
            }
        }
        if more > 0 {
            all.push(Joined { first, more, whole });
        }
        first += more + 1;
    }
    all
}

/// How wide the lines of a block are.
struct Width {
    /// The longest.
    widest: usize,
    /// Several are exactly as long: where a terminal breaks.
    by_terminal: bool,
}

impl Width {
    fn of(block: &[Cow<'_, str>]) -> Self {
        let lengths = || block.iter().map(|line| length(line));
        let widest = lengths().max().unwrap_or(0);
        Width { widest, by_terminal: widest >= NARROWEST && lengths().filter(|length| *length == widest).count() > 1 }
    }

    /// What stood between two lines where the second goes on with the first; `None` where it does not.
    fn between(&self, whole: &str, last: &str, next: &str) -> Option<&'static str> {
        if whole.len() > LONGEST || last.ends_with(['>', '…']) || begins(next) {
            return None;
        }
        let (length, open) = (length(last), is_open(whole));
        if length == self.widest && (self.by_terminal || (open && length >= TERMINAL)) {
            return Some("");
        }
        // A space at the end of a line is lost as easily.
        if length + 1 == self.widest && self.by_terminal {
            return Some(" ");
        }
        // Who breaks at spaces fits in what fits.
        let word = next.split_whitespace().next().unwrap_or_default();
        let full = length >= NARROWEST / 2 && length + 1 + word.chars().count() > self.widest;
        let by_mail = (NARROWEST..=WIDEST_MAIL).contains(&self.widest) && full && !next.starts_with([' ', '\t']);
        (by_mail || open && length >= NARROWEST / 2).then_some(" ")
    }
}

fn length(line: &str) -> usize {
    line.trim_end_matches('\r').chars().count()
}

/// A quoted value has begun and not ended: Go writes none with a line end in it.
fn is_open(text: &str) -> bool {
    let mut open = false;
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => open = !open,
            _ => {}
        }
    }
    open
}

/// A message of a program: one that may be longer than a line.
fn is_message(text: &str) -> bool {
    const STARTS: [&str; 8] = [
        "Warning  ",
        "Normal  ",
        "error: ",
        "Error: ",
        "error execution phase ",
        "[ERROR ",
        "failed to ",
        "Failed to ",
    ];
    let words = text.trim_start();
    STARTS.iter().any(|start| words.starts_with(start)) || line::has_head(text)
}

/// Something of its own begins here.
fn begins(text: &str) -> bool {
    is_message(text) || segment::begins(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_put_around_lines_is_taken_off() {
        for (pasted, expected) in [
            ("> error: a\n> > b\n>\n>c", "error: a\nb\n\n>c"),
            ("`error: a`", "error: a"),
            ("a &lt;b&gt; &amp;lt; &quot;c&quot;", "a <b> &lt; \"c\""),
            ("couldn’t do “it”", "couldn't do \"it\""),
            ("a\u{a0}b\u{200b}c", "a bc"),
            ("a && b &c;", "a && b &c;"),
            ("plain\r\nlines\r\n", "plain\r\nlines\r\n"),
        ] {
            assert_eq!(restored(pasted), expected, "{pasted:?}");
        }
        assert!(matches!(restored("a\nb > c\r\n`x` `y`\n"), Cow::Borrowed(_)));
    }

    const KUBELET: &str = "Nov 18 10:00:00 w9 kubelet[1234]: E1118 10:00:00.000001    1234 run.go:74] \"command failed\" err=\"failed \
                           to run Kubelet: running with swap on is not supported, please disable swap\"";
    const NEXT: &str = "Nov 18 10:00:01 w9 systemd[1]: kubelet.service: Deactivated.";

    fn broken(text: &str, width: usize) -> String {
        let letters: Vec<char> = text.chars().collect();
        let pieces: Vec<String> = letters.chunks(width).map(|piece| piece.iter().collect()).collect();
        pieces.join("\n")
    }

    fn wrapped(text: &str, width: usize) -> String {
        let mut out = String::new();
        let mut length = 0;
        for word in text.split(' ') {
            if length > 0 && length + 1 + word.len() > width {
                out.push('\n');
                length = 0;
            } else if length > 0 {
                out.push(' ');
                length += 1;
            }
            out.push_str(word);
            length += word.len();
        }
        out
    }

    #[test]
    fn a_line_that_a_terminal_or_a_mail_broke_is_one() {
        for width in [74, 80, 100] {
            for pasted in [broken(KUBELET, width), wrapped(KUBELET, width)] {
                let text = format!("{pasted}\n{NEXT}\n");
                let restored = restored(&text);
                let lines: Vec<&str> = restored.split('\n').collect();
                assert_eq!(lines.first().map(|it| it.replace("  ", " ")), Some(KUBELET.replace("  ", " ")), "{width}");
                assert_eq!(lines.len(), text.split('\n').count(), "{width}: the lines keep their numbers");
                assert_eq!(lines.get(lines.len() - 2), Some(&NEXT), "{width}");
            }
        }
    }

    #[test]
    fn what_begins_by_itself_is_not_added() {
        for text in [
            format!("{KUBELET}\n{NEXT}\n"),
            format!("{KUBELET}\nroot@w9:~# df -h\n"),
            format!(
                "{NEXT}\nFilesystem      Size  Used Avail Use% Mounted on\n/dev/vda1        10G   10G     0 100% /\n"
            ),
            "NAME   STATUS   ROLES    AGE   VERSION\nw9     Ready    <none>   5m    v1.34.4\n".to_owned(),
        ] {
            assert_eq!(restored(&text), text);
        }
    }

    proptest! {
        #[test]
        fn every_line_keeps_its_number(text in "([>`\"&;\\\\ \n]|err=|E1118 10:00:00.0 1 x.go:1\\] |[a-z]{1,80})*") {
            let restored = restored(&text);
            prop_assert_eq!(restored.split('\n').count(), text.split('\n').count());
        }
    }
}
