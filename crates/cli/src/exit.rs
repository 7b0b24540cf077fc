//! How Carrick ends: the exit codes are an API.

use std::process::ExitCode;

use carrick_core::StopSignal;
use carrick_core::report::Overall;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Internal,
    Usage,
    Failed,
    /// Warnings or unknowns, and nothing worse.
    Warnings,
    TimedOut,
    Unreachable,
    /// Nobody said yes.
    Consent,
    /// A signal asked for it.
    Signal(StopSignal),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Ok => 0,
            Exit::Internal => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
            Exit::Warnings => 4,
            Exit::TimedOut => 6,
            Exit::Unreachable => 7,
            Exit::Consent => 8,
            Exit::Signal(signal) => signal.exit(),
        })
    }
}

impl From<Overall> for Exit {
    fn from(verdict: Overall) -> Self {
        match verdict {
            Overall::Pass => Exit::Ok,
            Overall::Warn | Overall::Unknown => Exit::Warnings,
            Overall::Fail => Exit::Failed,
        }
    }
}

/// An end without a report: one line that names the thing, the value and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Usage, message: message.into() }
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Internal, message: message.into() }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Failed, message: message.into() }
    }

    /// It could not be told.
    pub fn unknown(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Warnings, message: message.into() }
    }

    pub fn consent(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Consent, message: message.into() }
    }

    /// A signal ended it; the line says how things stand.
    pub fn signal(signal: StopSignal, message: impl Into<String>) -> Self {
        Failure { exit: Exit::Signal(signal), message: message.into() }
    }

    pub fn unreachable(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Unreachable, message: message.into() }
    }

    pub fn report(&self) -> ExitCode {
        crate::terminal::say(&self.line());
        self.exit.into()
    }

    /// What another program or a cluster said may have lines of its own: none of them begins where one of ours does.
    fn line(&self) -> String {
        format!("carrick: {}", self.message.trim_end().replace('\n', "\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_said_begins_no_line_of_ours() {
        for (message, expected) in [
            ("the Node w1 could not be drained: busy", "carrick: the Node w1 could not be drained: busy"),
            ("denied: no\nw1 joined: verified\n", "carrick: denied: no\n  w1 joined: verified"),
        ] {
            assert_eq!(Failure::failed(message).line(), expected);
        }
    }
}
