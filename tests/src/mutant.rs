//! A mutation of the kernels, by which `cargo xtask mutants` tests the tests of emulated kernels: where
//! `ATTN_TEST_KERNEL_PATCH` names a file, its text replaces another in every kernel that is compiled for the host.

use std::{borrow::Cow, sync::OnceLock, time::Duration};

use serde::Deserialize;

/// A text that takes the place of another.
#[derive(Debug, Deserialize)]
pub struct Mutant {
    old: String,
    new: String,
}

/// A mutated kernel that has not ended by then hangs.
const LIMIT: Duration = Duration::from_secs(150);

impl Mutant {
    /// The mutation of this process, if there is one. A process with one aborts after a time.
    ///
    /// # Panics
    /// The file does not hold a mutation.
    pub fn current() -> Option<&'static Mutant> {
        static MUTANT: OnceLock<Option<Mutant>> = OnceLock::new();
        let read = || {
            let path = std::env::var_os("ATTN_TEST_KERNEL_PATCH")?;
            let text = std::fs::read_to_string(path).expect("the file of a mutation");
            std::thread::spawn(|| {
                std::thread::sleep(LIMIT);
                std::process::abort();
            });
            Some(serde_json::from_str(&text).expect("a mutation"))
        };
        MUTANT.get_or_init(read).as_ref()
    }

    /// Whether it changes a kernel.
    #[must_use]
    pub fn changes(&self, text: &str) -> bool {
        text.contains(&self.old)
    }
}

/// The text of a kernel with the mutation of this process.
#[must_use]
pub fn mutated(text: &str) -> Cow<'_, str> {
    Mutant::current().map_or(Cow::Borrowed(text), |mutant| Cow::Owned(text.replace(&mutant.old, &mutant.new)))
}
