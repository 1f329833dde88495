//! Mutants of kernels: emulated tests replace the text of the kernels that they compile, so nothing is built anew.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use super::list::{KERNELS, Killer, Mutant, failed_test};
use crate::paths::target_dir;

/// Tests of attention kernels.
const ATTENTION: [&str; 10] = [
    "decode_emulated",
    "kv_formats_emulated",
    "prefill_sm80_emulated",
    "prefill_sm90_emulated",
    "prefill_resident_emulated",
    "mixed_emulated",
    "cuda_cores",
    "partial_emulated",
    "row_invariance",
    "sanitized_emulated",
];
/// Tests of the other kernels.
const OTHERS: [&str; 7] = [
    "ops_emulated",
    "kv_formats_ops_emulated",
    "bits_emulated",
    "sampling_emulated",
    "verify_emulated",
    "indexer_emulated",
    "device_plan",
];

/// The tests that are asked first for a file of a folder, and whether other kernels lack it.
const FIRST: [(&str, &[&str], bool); 20] = [
    ("cuda_cores/", &["cuda_cores"], true),
    ("decode/", &["decode_emulated"], false),
    ("merge/mixed_kernel", &["mixed_emulated"], false),
    ("merge/partial", &["decode_emulated", "partial_emulated"], false),
    ("merge/row_teams", &["mixed_emulated"], false),
    ("merge/", &["prefill_sm80_emulated", "decode_emulated"], false),
    ("mixed/", &["mixed_emulated"], false),
    ("ops/", &["bits_emulated", "ops_emulated"], true),
    ("planner/", &["device_plan"], true),
    ("prefill/q_loader", &["prefill_sm90_emulated"], false),
    ("prefill/sm90/resident", &["prefill_resident_emulated"], true),
    ("prefill/sm90/", &["prefill_sm90_emulated", "sanitized_emulated"], true),
    ("prefill/", &["prefill_sm80_emulated", "prefill_sm90_emulated"], false),
    ("preprocess/", &["prefill_sm80_emulated", "prefill_sm90_emulated"], false),
    ("sampling/verify", &["verify_emulated"], true),
    ("sampling/", &["sampling_emulated", "verify_emulated"], true),
    ("schedule/tile_scheduler", &["mixed_emulated", "prefill_sm90_emulated"], true),
    ("select/", &["indexer_emulated"], true),
    ("softmax/finalize", &["partial_emulated"], false),
    ("softmax/", &["prefill_sm80_emulated", "prefill_sm90_emulated"], false),
];

/// The programs of the tests. They are copies, so that other builds do not disturb a run.
pub(super) struct Programs {
    folder: PathBuf,
}

/// Builds the programs.
pub(super) fn build(sh: &Shell, root: &Path) -> Result<Programs> {
    let folder = target_dir(root)?.join("mutants");
    fs::create_dir_all(&folder)?;
    let names = || ATTENTION.iter().chain(&OTHERS);
    let tests: Vec<_> = names().flat_map(|test| ["--test", test]).collect();
    let format = "--message-format=json-render-diagnostics";
    let messages = cmd!(sh, "cargo test --quiet -p attn-tests {tests...} --no-run {format}").quiet().read()?;
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for test in names() {
        let built = messages.iter().find(|built| built["target"]["name"] == *test && built["executable"].is_string());
        let built = built.and_then(|built| built["executable"].as_str());
        fs::copy(built.with_context(|| format!("cargo has not built {test}"))?, folder.join(test))?;
    }
    Ok(Programs { folder })
}

impl Programs {
    /// The first test that fails with a mutant. CI runs those that are not ignored.
    pub(super) fn killer(&self, root: &Path, mutant: &Mutant) -> Result<Option<Killer>> {
        let patch = self.folder.join("mutant.json");
        fs::write(&patch, serde_json::json!({"old": mutant.old, "new": mutant.new}).to_string())?;
        for test in asked(&mutant.file) {
            let killer = failure(&self.folder, test, root, &patch)?;
            if killer.is_some() {
                return Ok(killer);
            }
        }
        Ok(None)
    }
}

/// Runs a program until a test fails.
fn failure(folder: &Path, program: &str, root: &Path, patch: &Path) -> Result<Option<Killer>> {
    let mut child = Command::new(folder.join(program))
        .env("ATTN_TEST_KERNEL_PATCH", patch)
        .current_dir(root.join("tests"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.to_owned())?;
    let lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let test = lines.map_while(Result::ok).find_map(|line| failed_test(&line).map(str::to_owned));
    if test.is_some() {
        // others would run on
        child.kill()?;
    }
    let status = child.wait()?;
    Ok((!status.success()).then(|| Killer { program: program.to_owned(), test }))
}

/// The tests that run kernels with this file, the likeliest to fail first.
fn asked(file: &str) -> Vec<&'static str> {
    let file = file.strip_prefix(KERNELS).unwrap_or(file);
    let found = FIRST.iter().find(|(folder, ..)| file.starts_with(folder));
    let (first, alone) = found.map_or((&[][..], false), |&(_, first, alone)| (first, alone));
    let mut asked = first.to_vec();
    if !alone {
        asked.extend(ATTENTION.iter().chain(&OTHERS).filter(|test| !first.contains(test)));
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn tests_of_a_folder_come_first() {
        assert_eq!(asked("attn-kernels/cuda/planner/work_list.cuh"), ["device_plan"]);
        assert_eq!(asked("attn-kernels/cuda/prefill/sm80/mainloop.cuh")[0], "prefill_sm80_emulated");
        assert_eq!(asked("attn-kernels/cuda/memory/row.cuh").len(), 17);
    }
}
