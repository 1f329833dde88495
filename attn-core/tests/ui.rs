//! What the compiler says of wrong parameters and compositions, word for word. `TRYBUILD=overwrite` accepts changes.

#[test]
fn ui() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
