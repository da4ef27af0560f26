//! What does not compile, and what its author reads: the message says what to change.
//!
//! After a change of a message, `TRYBUILD=overwrite cargo test -p mainstay --test compile_fail` writes the new ones down.

#[test]
fn mistakes_are_told_what_to_change() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile_fail/without_mistakes.rs");
    cases.compile_fail("tests/compile_fail/actor_*.rs");
    cases.compile_fail("tests/compile_fail/interface_*.rs");
    cases.compile_fail("tests/compile_fail/service_*.rs");
    cases.compile_fail("tests/compile_fail/worker_*.rs");
}
