//! The person at the terminal: how wide it is, whether it takes colour, what goes on while nothing is printed.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Color, Style};
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
    // Nobody is left to be told when stderr is closed.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Prints the report. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

pub const FAIL: Style = coloured(AnsiColor::Red);
pub const WARN: Style = coloured(AnsiColor::Yellow);
pub const UNKNOWN: Style = coloured(AnsiColor::Magenta);
pub const OK: Style = coloured(AnsiColor::Green);
pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();

const fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour))).bold()
}

pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
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
            let text: String = text.chars().take(width().saturating_sub(1)).collect();
            let _ = write!(stderr, "\r\x1b[K{text}");
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

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// How often a line that is written over changes: a second that passes is seen to pass.
const LIVELY: Duration = Duration::from_millis(200);
/// Without a terminal a line stays, and one every so often shows that somebody still works.
const PLAINLY: Duration = Duration::from_secs(10);

/// A wait, with its reason and how long it has lasted: a live line, or without a terminal a plain one every ten seconds.
pub struct Waiting {
    line: LiveLine,
    begun: Instant,
    tick: Interval,
}

impl Waiting {
    pub fn begin() -> Self {
        let begun = Instant::now();
        let tick = if is_live() { interval_at(begun + QUIET, LIVELY) } else { interval_at(begun + PLAINLY, PLAINLY) };
        Waiting { line: LiveLine::new(), begun, tick }
    }

    /// Comes back when something is to be shown.
    pub async fn tick(&mut self) {
        self.tick.tick().await;
    }

    pub fn show(&mut self, text: &str) {
        self.line.show_or_say(&format!("  ..  {text}  {} s", self.begun.elapsed().as_secs()));
    }
}
