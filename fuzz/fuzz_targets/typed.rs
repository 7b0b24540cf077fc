//! What a person types: endpoint, token, pin.
#![no_main]

use carrick_core::discovery::{Endpoint, Pin, Token};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = (text.parse::<Token>(), text.parse::<Pin>());
    if let Ok(endpoint) = text.parse::<Endpoint>() {
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
    }
});
