//! How Carrick ends: the exit codes are an API.

use std::process::ExitCode;

use carrick_core::report::Overall;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Internal = 1,
    Usage = 2,
    Failed = 3,
    /// Warnings or unknowns, and nothing worse.
    Warnings = 4,
    TimedOut = 6,
    Unreachable = 7,
    /// Nobody said yes.
    Consent = 8,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
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

    pub fn unreachable(message: impl Into<String>) -> Self {
        Failure { exit: Exit::Unreachable, message: message.into() }
    }

    pub fn report(&self) -> ExitCode {
        crate::terminal::say(&format!("carrick: {self}"));
        self.exit.into()
    }
}
