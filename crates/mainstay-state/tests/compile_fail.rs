//! What does not compile, with the error that a user reads. `TRYBUILD=overwrite cargo test -p mainstay-state --test
//! compile_fail` writes the expected errors anew.

#[test]
fn mistakes_that_would_corrupt_state_do_not_compile() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail("tests/compile_fail/*.rs");
    // What the mistakes are meant to be.
    tests.pass("tests/compile_fail/right/*.rs");
}
