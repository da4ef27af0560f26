//! Any text: no panic, and what is read has the same text again, if nothing of a later version is in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mainstay_wire::tls::JoinToken;

fuzz_target!(|text: &str| {
    if let Ok(token) = text.parse::<JoinToken>() {
        let again: JoinToken = token.to_text().parse().expect("what was written can be read");
        assert_eq!(again, token);
    }
});
