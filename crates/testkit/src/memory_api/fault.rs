//! What goes wrong on demand.

use std::time::Duration;

/// What happens to a request instead of its answer, or to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered, after so long.
    Delay(Duration),
    /// The connection is refused. Through TLS nobody knows what a connection will be for: while one of these waits, no dial
    /// succeeds.
    Refuse,
    /// A Status of this code: 500, 503, 504.
    Status(u16),
    /// Priority and fairness: 429 as plain text, with Retry-After.
    TooManyRequests,
    /// It is answered, and the connection breaks in the middle of that.
    Cut,
    /// Somebody else was quicker: 409, and nothing is written.
    Conflict,
    /// 410 as the answer's own status: the version is not known any more.
    Gone,
    /// Whoever asked panics in the middle of it, as by a mistake of its own.
    Panic,
}

/// Faults that wait for the requests they are for.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    on: String,
    left: Option<u32>,
    fault: Fault,
}

impl Faults {
    pub(super) fn plan(&mut self, on: &str, times: Option<u32>, fault: Fault) {
        self.0.push(Planned { on: on.to_owned(), left: times, fault });
    }

    /// The first that is for this shape, once less.
    pub(super) fn strike(&mut self, shape: &str) -> Option<Fault> {
        let hit = self.0.iter_mut().find(|it| is_of(shape, &it.on) && it.left != Some(0))?;
        hit.left = hit.left.map(|left| left - 1);
        Some(hit.fault)
    }

    /// Whether a connection is refused, once less.
    pub(super) fn refuse(&mut self) -> bool {
        let waiting = self.0.iter_mut().find(|it| it.fault == Fault::Refuse && it.left != Some(0));
        let refused = waiting.is_some();
        if let Some(it) = waiting {
            it.left = it.left.map(|left| left - 1);
        }
        refused
    }
}

/// Whether a shape is one that is meant: by whole words from its beginning.
pub(crate) fn is_of(shape: &str, meant: &str) -> bool {
    shape.strip_prefix(meant).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
