//! A network in memory, in virtual time: hosts by name, links with a delay and a rate, cuts, resets and half-open connections.
//!
//! Time is that of [`mainstay_core::time`], and nothing is drawn at random: two runs that do the same see the same.

mod network;
mod pipe;

pub use network::{SimDial, SimLink, SimListen, SimNetwork};

#[cfg(test)]
mod tests;
