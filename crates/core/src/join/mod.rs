//! A join as data: what was asked for, how far it is, what is to be done next, and whether it holds. Pure: the driver in
//! carrick-engine looks, acts and keeps the time; everything is decided here.
//!
//! * [`taint`]: what a join gives its Node, and what a Node has
//! * [`request`]: what a person hands over (flags, join line, file), and the JoinConfiguration that kubeadm gets
//! * [`output`]: what kubeadm prints, as milestones and causes
//! * [`existing`]: a join or a Node of this name that is already there
//! * [`looked`]: one look at the machine, judged once, and what of it a join goes by
//! * [`place`]: where the parts of a join are while it runs
//! * [`placement`]: whether a DaemonSet's pods are to run on a Node
//! * [`prepare`]: what is changed before kubeadm runs, and files of a join that is over
//! * [`before`]: what was there before kubeadm ran, and what came since
//! * [`observed`]: evidence out of facts and of the API server's answers
//! * [`verify`]: whether a machine has really joined, from what was seen of it
//! * [`state`], [`mod@step`]: where a join is, and the only place where that changes
//! * [`failure`], [`causes`]: what can go wrong, whether trying again helps, and what names it
//! * [`origin`]: the file in which stands what a kubelet refuses
//! * [`ending`]: the report at the end, and what stays on the machine
//! * [`event_line`]: what `--events` prints on the way there
//! * [`page`]: docs/reference/join.md, drawn from `step` itself
//!
//! A driver is a loop:
//!
//! ```text
//! let (mut status, mut effects) = JoinStatus::begin(policy, now);
//! while !status.stage.is_over() {
//!     save(&status);                                             // 0600; no secret is in it
//!     for effect in effects { perform(effect) }                  // each brings the events its text names
//!     let event = next_event_or(JoinEvent::Tick, until status.deadline, at the latest 1 s);
//!     (status, effects) = step(&status, &event, now);
//! }
//! ```

pub mod before;
pub mod causes;
pub mod ending;
pub mod event_line;
pub mod existing;
pub mod failure;
pub mod looked;
pub mod observed;
pub mod origin;
pub mod output;
pub mod page;
pub mod place;
pub mod placement;
pub mod prepare;
pub mod request;
pub mod state;
pub mod step;
pub mod taint;
pub mod verify;
