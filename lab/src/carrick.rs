//! Carrick on a machine of the lab: typed as a person would, and held to what it says and how it ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::case::Bench;
use crate::demand;
use crate::error::Result;
use crate::machine::Machine;
use crate::run::Done;

pub const PLACE: &str = "/usr/local/bin/carrick";

/// The longest of these waits for two minutes, on a machine that is busy with other cases.
pub const DEADLINE: Duration = Duration::from_mins(4);

pub struct Carrick {
    pub machine: Arc<Machine>,
}

impl Carrick {
    /// Puts the program on a machine.
    pub fn on(machine: &Arc<Machine>, program: &Path) -> Result<Self> {
        machine.replace(PLACE, program)?;
        Ok(Self { machine: Arc::clone(machine) })
    }

    pub fn run(&self, line: &str) -> Result<Done> {
        let words = std::iter::once(PLACE).chain(line.split_whitespace());
        self.machine.run(words).deadline(DEADLINE).done()
    }

    /// It ends so, and says all of this.
    pub fn ends(&self, bench: &mut Bench, line: &str, exit: i32, says: &[&str]) -> Result<Done> {
        let done = self.run(line)?;
        holds(bench, line, &done, exit, says)?;
        Ok(done)
    }
}

/// How a `carrick LINE` ended, and what it said.
pub fn holds(bench: &mut Bench, line: &str, done: &Done, exit: i32, says: &[&str]) -> Result<()> {
    bench.say(format_args!("carrick {line} ended with {}\n{}", done.code(), done.text()));
    demand!(done.code() == exit, "carrick {line} ended with {}, not {exit}:\n{}", done.code(), done.text());
    // Sentences are broken at the terminal's width.
    let said = done.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for text in says {
        demand!(said.contains(text), "carrick {line} does not say {text:?} but:\n{}", done.text());
    }
    Ok(())
}
