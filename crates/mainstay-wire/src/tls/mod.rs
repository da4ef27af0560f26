//! Who is who: identities in certificates, the authority that issues them, and TLS 1.3 with both ends authenticated.
//!
//! [`Identity`] is the name in a certificate. An [`Authority`] issues certificates for one cluster; [`Credentials`] are what one
//! process shows and trusts, and can be replaced while connections are open. A [`JoinToken`] is what a new node needs to get
//! its first certificate. [`Security`] says which of this is in use.

mod identity;

mod authority;
mod token;
mod validity;

mod credentials;
mod session;
mod verifier;

mod security;

pub use authority::{Authority, AuthorityHash, IssuedCertificate, KeyPair, PublicKey};
pub use credentials::Credentials;
pub use identity::Identity;
pub use security::Security;
pub use token::{JoinToken, Secret};
pub use validity::Validity;

pub(crate) use session::{Secured, accept, connect, refusal_in};
pub(crate) use verifier::PeerCertificate;
