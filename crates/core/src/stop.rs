//! Being told to stop, by a signal. What each asks for is decided where a join, a reset or an undo is.

/// A signal that asks for an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopSignal {
    /// Ctrl-C.
    Interrupt,
    Terminate,
    /// The terminal, or the link to it, is gone.
    Hangup,
}

impl StopSignal {
    /// As a shell calls it.
    pub fn name(self) -> &'static str {
        match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
            StopSignal::Hangup => "SIGHUP",
        }
    }

    /// What a program ends with that ends by it.
    pub fn exit(self) -> u8 {
        128 + match self {
            StopSignal::Hangup => 1,
            StopSignal::Interrupt => 2,
            StopSignal::Terminate => 15,
        }
    }
}
