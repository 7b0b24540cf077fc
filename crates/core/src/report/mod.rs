//! What every renderer prints.
