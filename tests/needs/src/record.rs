//! Skips as files: a line each with the test's name, in a folder that `ATTN_TEST_SKIPS` names.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

use crate::need::Need;

/// Writes the file of a skip, if somebody counts them.
///
/// # Panics
///
/// It cannot be written: the count would be wrong.
pub(crate) fn skip(need: Need, test: &str) {
    let Some(folder) = env::var_os("ATTN_TEST_SKIPS").filter(|folder| !folder.is_empty()) else { return };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}.{}.{}", need.word(), process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(&folder);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(name), format!("{test}\n")));
    written.unwrap_or_else(|error| panic!("ATTN_TEST_SKIPS={}: {error}", folder.display()));
}

/// The program and the name of the running test.
pub(crate) fn test() -> String {
    let program = env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or("?");
    // cargo adds a hash to the name of a test program
    let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
    // a runner with a process for each test names it; the main thread has no test's name
    let named = env::var("NEXTEST_TEST_NAME").ok().or_else(|| thread::current().name().map(str::to_owned));
    format!("{program} {}", named.as_deref().unwrap_or("?"))
}
