//! The cluster a machine is to join: endpoint, token, pinned keys.
//!
//! What a person types is taken apart here, and refused in one line that names the value.
