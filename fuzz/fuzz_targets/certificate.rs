//! Any bytes as a certificate: no panic in what reads identities and dates.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mainstay_wire::tls::{Identity, Validity};
use rustls_pki_types::CertificateDer;

fuzz_target!(|bytes: &[u8]| {
    let certificate = CertificateDer::from(bytes);
    let _ = Identity::of_certificate(&certificate);
    let _ = Validity::of_certificate(&certificate);
});
