//! The tests that were skipped, counted over all processes of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use anyhow::{Context as _, Result};
use attn_needs::Need;

/// Empties the folder in which tests record skips.
pub(crate) fn forget(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// The recorded skips: for each need the tests, each once.
fn read(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(tests),
        entries => entries.with_context(|| folder.display().to_string())?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let need = name.split('.').next().unwrap_or_default();
        let test = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        tests.entry(need.to_owned()).or_default().insert(test.trim().to_owned());
    }
    Ok(tests)
}

/// How many tests were skipped for which reason, and which.
pub(crate) fn summary(folder: &Path) -> Result<String> {
    let tests = read(folder)?;
    if tests.is_empty() {
        return Ok("no test was skipped".to_owned());
    }
    let needs = |word: &str| Need::ALL.into_iter().find(|need| need.word() == word).map(|need| need.to_string());
    let lines = tests.iter().map(|(word, tests)| {
        let names = tests.iter().map(|test| format!("\n    {test}")).collect::<String>();
        format!("  {}: needs {} ({word}){names}", tests.len(), needs(word).unwrap_or_default())
    });
    let all: BTreeSet<_> = tests.values().flatten().collect();
    let lines: Vec<String> = lines.collect();
    Ok(format!("skipped, in whole or in part: {} tests\n{}", all.len(), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_by_need_and_test() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("skips");
        assert_eq!(summary(&folder).expect("no folder"), "no test was skipped");
        fs::create_dir(&folder).expect("made");
        let skips = [("gpu.1.0", "graph a"), ("gpu.1.1", "graph a"), ("gpu.2.0", "order b"), ("nvcc.2.1", "order b")];
        for (name, test) in skips {
            fs::write(folder.join(name), format!("{test}\n")).expect("written");
        }
        let text = summary(&folder).expect("read");
        let wanted = "skipped, in whole or in part: 2 tests\n  2: needs a GPU (gpu)\n    graph a\n    order b\n  \
                      1: needs nvcc (nvcc)\n    order b";
        assert_eq!(text, wanted);
        forget(&folder).expect("emptied");
        forget(&folder).expect("there is none");
        assert_eq!(summary(&folder).expect("no folder"), "no test was skipped");
    }
}
