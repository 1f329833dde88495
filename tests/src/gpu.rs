//! The GPU of tests that compare with one.
#![allow(clippy::print_stderr)]

use facade::Engine;

/// A GPU, or `None` with a message that says why the test is skipped.
#[must_use]
pub fn gpu() -> Option<Engine> {
    match Engine::cuda(0) {
        Ok(engine) => Some(engine),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}
