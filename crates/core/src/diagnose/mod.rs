//! The true cause out of any text: lines are scanned for signatures, the text is cut into facts for the checks, and what
//! was found is put in order, root first.
//!
//! * [`line`]: one line of a log, whatever wrote it

pub mod line;
