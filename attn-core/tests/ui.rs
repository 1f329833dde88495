//! Compiler errors of wrong parameters and compositions, compared word by word. `TRYBUILD=overwrite` accepts changes.

#[test]
fn ui() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
