//! journald's entries with all their fields: `-o json`, `-o json-pretty`, `-o export`, `-o verbose`.
//!
//! Of an entry only the message is evidence. What other fields hold, a command line that looks for the very text, is told.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::around::Around;
use super::json;
use super::when::Stamp;
use super::{Piece, plain};

/// The fields of an entry that are looked at.
#[derive(Default)]
struct Entry {
    message: Option<String>,
    bytes: Vec<u8>,
    stamp: Option<Stamp>,
    host: Option<String>,
    identifier: Option<String>,
    command: Option<String>,
    unit: Option<String>,
}

impl Entry {
    fn field(&mut self, name: &str, value: &str) {
        let filled = || Some(value.trim_matches('"').to_owned()).filter(|value| !value.is_empty());
        match name {
            "__REALTIME_TIMESTAMP" => self.stamp = Stamp::microseconds(value).or(self.stamp),
            // What `-o verbose` has instead of it.
            "_SOURCE_REALTIME_TIMESTAMP" => self.stamp = self.stamp.or_else(|| Stamp::microseconds(value)),
            "_HOSTNAME" => self.host = filled(),
            "SYSLOG_IDENTIFIER" => self.identifier = filled(),
            "_COMM" => self.command = filled(),
            "_SYSTEMD_UNIT" | "UNIT" => self.unit = filled().map(|unit| unit.trim_end_matches(".service").to_owned()),
            _ => {}
        }
    }

    /// A field as JSON has it: a message that is no UTF-8 is an array of bytes.
    fn json(&mut self, value: &json::Value) {
        match value.key {
            Some("MESSAGE") if value.quoted => {
                let message = self.message.get_or_insert_default();
                if !message.is_empty() {
                    message.push('\n');
                }
                message.push_str(&value.text);
            }
            Some("MESSAGE") => self.bytes.extend(value.text.parse::<u8>()),
            Some(name) => self.field(name, &value.text),
            None => {}
        }
    }

    fn into_piece(self, text: Cow<'_, str>) -> Piece<'_> {
        let program = self.identifier.or(self.command).or(self.unit);
        Piece { stamp: self.stamp, host: self.host, program, ..Piece::of(text) }
    }
}

/// One entry on one line.
pub(super) fn whole(line: &str) -> Option<Piece<'static>> {
    if !line.trim_start().starts_with('{')
        || !(line.contains("\"__REALTIME_TIMESTAMP\"") || line.contains("\"__CURSOR\""))
    {
        return None;
    }
    let mut entry = Entry::default();
    json::walk(line, &mut |_, value| {
        entry.json(&value);
        ControlFlow::Continue(())
    });
    let bytes = std::mem::take(&mut entry.bytes);
    let said = entry.message.take().unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned());
    Some(entry.into_piece(Cow::Owned(said)))
}

/// One field of an entry whose fields stand on lines of their own.
pub(super) fn field<'a>(line: &str, around: &Around<'a>) -> Option<Piece<'a>> {
    pretty(line, around).or_else(|| export(line, around))
}

/// `\t"MESSAGE" : "…",` between `{` and `}`.
fn pretty(line: &str, around: &Around) -> Option<Piece<'static>> {
    let words = line.trim_start();
    let (name, rest) = field_of_pretty(words)?;
    let mut entry = Entry::default();
    let above = around.above().take_while(|line| !line.trim_ascii().starts_with(b"{"));
    let below = around.below().take_while(|line| !line.trim_ascii().starts_with(b"}"));
    for line in above.chain(below) {
        if let Some((name, rest)) = field_of_pretty(plain::text(line).trim_start()) {
            entry.field(name, &json::unescape(json::string(rest).0));
        }
    }
    // A pretty object of somebody else's has none of these.
    entry.stamp?;
    let said = json::unescape(json::string(rest).0).into_owned();
    let told = name != "MESSAGE";
    let text = if told { words.to_owned() } else { said };
    Some(Piece { told, ..entry.into_piece(Cow::Owned(text)) })
}

/// The name and the value of a field that only journald writes so: capitals, and a space before the colon.
fn field_of_pretty(words: &str) -> Option<(&str, &str)> {
    let (name, rest) = json::string(words.strip_prefix('"').map(|_| words)?);
    let rest = rest.strip_prefix(" :")?.trim_start();
    is_name(name).then_some((name, rest))
}

/// `MESSAGE=…` between empty lines, or, where it has several lines, after a line that is `MESSAGE` alone and a length.
fn export<'a>(line: &str, around: &Around<'a>) -> Option<Piece<'a>> {
    let (name, value) = match line.trim_start().split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, value)) => (name, value.to_owned()),
        None => (binary_field(around)?, String::from_utf8_lossy(around.line.get(8..)?).into_owned()),
    };
    let mut entry = Entry::default();
    // An entry begins with its cursor, which holds no field before it.
    let mut seen = false;
    for line in around.above().take_while(|line| !line.trim_ascii().is_empty()) {
        take_field(&mut entry, line);
        if line.starts_with(b"__CURSOR=") || line.starts_with(b"__REALTIME_TIMESTAMP=") {
            seen = true;
        }
    }
    for line in around.below().take_while(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"__CURSOR=")) {
        take_field(&mut entry, line);
    }
    // `systemctl show` has NAME=VALUE, too.
    if !seen && entry.stamp.is_none() {
        return None;
    }
    let told = name != "MESSAGE";
    let text = if told { format!("{name}={value}") } else { value };
    Some(Piece { told, ..entry.into_piece(Cow::Owned(text)) })
}

fn take_field(entry: &mut Entry, line: &[u8]) {
    let text = plain::text(line);
    if let Some((name, value)) = text.trim_start().split_once('=').filter(|(name, _)| is_name(name)) {
        entry.field(name, value);
    }
}

/// The name on the line above, where this line begins with the eight bytes of a length.
fn binary_field<'a>(around: &Around<'a>) -> Option<&'a str> {
    // No value is so long that the upper half of its length is not zero.
    (around.line.get(4..8)? == [0; 4]).then_some(())?;
    std::str::from_utf8(around.above().next()?).ok().filter(|name| is_name(name))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
