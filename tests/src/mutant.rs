//! A mutation of the kernels, by which `cargo xtask mutants` tests the tests of emulated kernels: where
//! `ATTN_TEST_KERNEL_PATCH` names a file, its text replaces another in every kernel that is compiled for the host.

use std::borrow::Cow;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// A text that takes the place of another.
#[derive(Debug, Deserialize)]
pub struct Mutant {
    old: String,
    new: String,
}

/// A mutated kernel that has not ended by then hangs: others take seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// When a kernel was compiled or has ended last.
static PROGRESS: Mutex<Option<Instant>> = Mutex::new(None);

/// Tells that a kernel was compiled or has ended.
pub fn progress() {
    *PROGRESS.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

impl Mutant {
    /// The mutation of this process, if there is one. A process with one aborts when a kernel
    /// hangs.
    ///
    /// # Panics
    /// The file does not hold a mutation.
    pub fn current() -> Option<&'static Mutant> {
        static MUTANT: OnceLock<Option<Mutant>> = OnceLock::new();
        let read = || {
            let path = std::env::var_os("ATTN_TEST_KERNEL_PATCH")?;
            let text = std::fs::read_to_string(path).expect("the file of a mutation");
            progress();
            std::thread::spawn(|| {
                let last = || *PROGRESS.lock().unwrap_or_else(PoisonError::into_inner);
                while last().is_none_or(|last| last.elapsed() < LIMIT) {
                    std::thread::sleep(Duration::from_secs(1));
                }
                std::process::abort();
            });
            Some(serde_json::from_str(&text).expect("a mutation"))
        };
        MUTANT.get_or_init(read).as_ref()
    }

    /// Whether it changes a kernel.
    pub fn changes(&self, text: &str) -> bool {
        text.contains(&self.old)
    }
}

/// The text of a kernel with the mutation of this process.
pub fn mutated(text: &str) -> Cow<'_, str> {
    Mutant::current().map_or(Cow::Borrowed(text), |mutant| Cow::Owned(text.replace(&mutant.old, &mutant.new)))
}
