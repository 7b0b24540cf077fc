//! The person at the terminal: how wide it is, whether it takes colour, what goes on while nothing is printed.
//!
//! This is the only module that writes to stdout, stderr or the terminal itself (`clippy.toml` holds the others to it), and all that
//! it writes passes [`carrick_core::shown`] on the way out. So no caller can forget: whatever stands in a name, a file or another
//! program's words comes out as text. Styles are the exception, and only [`styled`] can make one. JSON is known by what it is, not by
//! who prints it: on a terminal its strings are escaped, anywhere else it goes out byte for byte.
#![expect(clippy::disallowed_methods, reason = "this is the writer")]

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::sync::LazyLock;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use carrick_core::shown::{self, Styles};
use serde::de::IgnoredAny;
use tokio::time::{Instant, Interval, interval_at};

use crate::machine::QUIET;

/// Where there is no terminal to ask, a page is this wide.
const PAGE: usize = 80;
/// Wider lines are harder to read than a second line.
const WIDEST: usize = 120;

pub fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|&columns| columns >= 40).unwrap_or(PAGE).min(WIDEST)
}

/// A line on stderr: errors and progress, never the report.
pub fn say(line: &str) {
    let coloured = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    // Nobody is left to be told when stderr is closed.
    let _ = writeln!(std::io::stderr(), "{}", STYLES.written(line, coloured));
}

/// Prints the report. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> std::io::Result<()> {
    let stdout = std::io::stdout();
    let coloured = AutoStream::choice(&stdout) != ColorChoice::Never;
    let text = fit(text, stdout.is_terminal(), coloured);
    let mut out = stdout.lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A report as it goes out.
fn fit(text: &str, to_terminal: bool, coloured: bool) -> String {
    match (is_json(text), to_terminal) {
        (true, true) => shown::json(text),
        (true, false) => text.to_owned(),
        (false, _) => STYLES.written(text, coloured),
    }
}

/// One object, or several, and nothing else: no sentence for people is that.
fn is_json(text: &str) -> bool {
    text.starts_with('{')
        && serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>().all(|value| value.is_ok())
}

/// Asks the person at the terminal, whatever stdin and stdout are; `None` where there is no terminal.
pub fn ask(question: &str) -> Option<std::io::Result<String>> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
    Some(answer(terminal, question))
}

fn answer(mut terminal: File, question: &str) -> std::io::Result<String> {
    write!(terminal, "{} ", STYLES.written(question, false))?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer)?;
    Ok(answer)
}

/// How a text stands out: the numbers of `ESC [ … m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(&'static str);

pub const FAIL: Style = Style("1;31");
pub const WARN: Style = Style("1;33");
pub const UNKNOWN: Style = Style("1;35");
pub const OK: Style = Style("1;32");
pub const BOLD: Style = Style("1");
pub const DIM: Style = Style("2");

/// The key is the standard library's, from the kernel: what was read before cannot hold it, and what is read later was not told.
static STYLES: LazyLock<Styles> = LazyLock::new(|| Styles::new(RandomState::new().hash_one("styles")));

pub fn styled(style: Style, text: &str) -> String {
    STYLES.styled(style.0, text)
}

/// Whether a line can be written over.
pub fn is_live() -> bool {
    std::io::stderr().is_terminal()
}

/// One line on a terminal's stderr that is written over until it is gone.
pub struct LiveLine {
    shown: bool,
}

impl LiveLine {
    pub fn new() -> Self {
        LiveLine { shown: false }
    }

    pub fn show(&mut self, text: &str) {
        let mut stderr = std::io::stderr();
        if stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K{}", live(text, width()));
            let _ = stderr.flush();
            self.shown = true;
        }
    }
}

impl LiveLine {
    /// As a line that is written over; without a terminal as a line of its own.
    pub fn show_or_say(&mut self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.show(text);
        } else {
            say(text);
        }
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// What has room on one line: one that went on in the next could not be written over.
fn live(text: &str, width: usize) -> String {
    shown::in_line(text).chars().take(width.saturating_sub(1)).collect()
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// How often a line that is written over changes: a second that passes is seen to pass.
const LIVELY: Duration = Duration::from_millis(200);
/// Without a terminal a line stays, and one every so often shows that somebody still works.
const PLAINLY: Duration = Duration::from_secs(8);

/// A wait, with its reason and how long it has lasted: a live line, or without a terminal a plain one within every ten seconds.
pub struct WaitLine {
    line: LiveLine,
    begun: Instant,
    tick: Interval,
}

impl WaitLine {
    pub fn begin() -> Self {
        let begun = Instant::now();
        let tick = if is_live() { interval_at(begun + QUIET, LIVELY) } else { interval_at(begun + PLAINLY, PLAINLY) };
        WaitLine { line: LiveLine::new(), begun, tick }
    }

    /// Comes back when something is to be shown.
    pub async fn tick(&mut self) {
        self.tick.tick().await;
    }

    pub fn show(&mut self, text: &str) {
        self.line.show_or_say(&format!("  ..  {text}  {} s", self.begun.elapsed().as_secs()));
    }
}

/// Does what mostly takes no time, and says what it is where it does.
pub async fn patiently<T>(says: &str, work: impl Future<Output = T>) -> T {
    let (mut waiting, mut work) = (WaitLine::begin(), std::pin::pin!(work));
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = waiting.tick() => waiting.show(says),
        }
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::join::event_line::{EventKind, EventLine};
    use carrick_core::join::state::Stage;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_report_is_text_with_our_styles_alone() {
        let text = format!("{} · Debian \x1b[2J\u{202e}\n", styled(BOLD, "w1\x1b]0;x\x07"));
        let plain = "w1\u{fffd}]0;x\u{fffd} · Debian \u{fffd}[2J\u{fffd}\n";
        assert_eq!(fit(&text, true, false), plain);
        // A pipe may end at a terminal as well.
        assert_eq!(fit(&text, false, false), plain);
        let coloured = fit(&text, true, true);
        assert!(coloured.starts_with("\x1b[1mw1\u{fffd}]0;x\u{fffd}\x1b[0m · "), "{coloured:?}");
        // Another's eyes: a parser of escape sequences finds nothing to take out.
        assert_eq!(anstream::adapter::strip_str(plain).to_string(), plain);
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }

    #[test]
    fn json_is_escaped_for_a_terminal_and_stays_byte_for_byte_elsewhere() {
        let value = serde_json::json!({"host": "\u{202e}\u{9b}31m\u{7f}"});
        for json in [format!("{value}\n"), format!("{value:#}\n"), format!("{value}\n{value}\n")] {
            assert_eq!(fit(&json, false, true), json);
            let shown = fit(&json, true, true);
            assert!(shown.contains("\\u202e\\u009b31m\\u007f"), "{shown}");
            let read = |text: &str| -> Vec<serde_json::Value> {
                serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
            };
            assert_eq!(read(&shown), read(&json));
        }
        for no_json in ["{\u{202e}", "{} \u{202e}", "[\"\u{202e}\"]", "\"\u{202e}\""] {
            assert!(!fit(no_json, false, false).contains('\u{202e}'), "{no_json:?}");
        }
    }

    #[test]
    fn what_kubeadm_says_is_an_event_like_any_other() {
        let says = "[preflight]\x1b[8m \u{9b}2J\u{202e}ready";
        let event = EventLine::new(EventKind::Says, Stage::Joining, Duration::ZERO, Duration::ZERO, says, 1);
        let line = format!("{}\n", serde_json::json!(event));
        assert_eq!(fit(&line, false, false), line);
        let shown = fit(&line, true, true);
        assert!(!shown.trim_end().contains(shown::is_unseen), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["evidence"], says);
        let row = "[preflight]\u{fffd}[8m \u{fffd}2J\u{fffd}ready";
        assert_eq!((live(says, 80).as_str(), fit(says, true, true).as_str()), (row, row));
        assert_eq!(live("節点 節点", 4), "節点 ");
    }

    /// What `print`, `say`, `ask` and the live line write, and the same with what another's parser of escape sequences takes out.
    fn all_forms(text: &str) -> [(String, String); 3] {
        let styled = format!("a {} b {text}", styled(FAIL, text));
        let ours = ["\x1b[1;31m", "\x1b[0m"];
        let coloured = ours.iter().fold(fit(&styled, true, true), |out, sequence| out.replace(sequence, ""));
        [coloured, fit(&styled, false, false), live(text, 80)].map(|out| {
            let stripped = anstream::adapter::strip_str(&out).to_string();
            (out, stripped)
        })
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_goes_out(
            pieces in prop::collection::vec(prop_oneof![any::<String>(), "\\x1b[\\[\\]P^_X][0-9;?]{0,5}[a-zA-Z\\x07]", "[\u{80}-\u{9f}]{1,3}[0-9]m"], 0..6),
        ) {
            for (out, stripped) in all_forms(&pieces.concat()) {
                prop_assert!(!out.contains(|c: char| shown::is_unseen(c) && !matches!(c, '\n' | '\t')), "{out:?}");
                prop_assert_eq!(out, stripped);
            }
        }
    }
}
