//! Mutants of kernels: emulated tests replace the text of the kernels that they compile, so nothing is built anew.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use xshell::{Shell, cmd};

use super::list::{KERNELS, Killer, Mutant, failed_test};
use crate::paths::target_dir;

/// Tests of attention kernels: the program and the module.
const ATTENTION: [&str; 13] = [
    "kernels::decode_emulated",
    "formats::emulated",
    "kernels::prefill_sm80_emulated",
    "kernels::prefill_sm90_emulated",
    "kernels::prefill_resident_emulated",
    "kernels::prefill_latent_emulated",
    "kernels::outputs_emulated",
    "kernels::skip_softmax_emulated",
    "kernels::mixed_emulated",
    "kernels::cuda_cores_emulated",
    "kernels::partial_emulated",
    "plan::row_invariance",
    "kernels::sanitized_emulated",
];
/// Tests of the other kernels.
const OTHERS: [&str; 7] = [
    "ops::emulated",
    "formats::ops_emulated",
    "ops::bits_emulated",
    "sampling::emulated",
    "sampling::verify_emulated",
    "indexer::emulated",
    "plan::device_plan",
];

/// The tests that are asked first for a file of a folder, and whether other kernels lack it.
const FIRST: [(&str, &[&str], bool); 21] = [
    ("cuda_cores/", &["kernels::cuda_cores_emulated"], true),
    ("decode/", &["kernels::decode_emulated"], false),
    ("merge/kernel", &["kernels::mixed_emulated", "kernels::prefill_sm80_emulated"], false),
    ("merge/partial", &["kernels::decode_emulated", "kernels::partial_emulated"], false),
    ("merge/row_teams", &["kernels::mixed_emulated"], false),
    ("merge/", &["kernels::prefill_sm80_emulated", "kernels::decode_emulated"], false),
    ("mixed/", &["kernels::mixed_emulated"], false),
    ("ops/", &["ops::bits_emulated", "ops::emulated"], true),
    ("planner/", &["plan::device_plan"], true),
    ("prefill/q_loader", &["kernels::prefill_sm90_emulated"], false),
    ("prefill/sm90/latent", &["kernels::prefill_latent_emulated"], true),
    ("prefill/sm90/resident", &["kernels::prefill_resident_emulated"], true),
    ("prefill/sm90/", &["kernels::prefill_sm90_emulated", "kernels::sanitized_emulated"], true),
    ("prefill/", &["kernels::prefill_sm80_emulated", "kernels::prefill_sm90_emulated"], false),
    ("preprocess/", &["kernels::prefill_sm80_emulated", "kernels::prefill_sm90_emulated"], false),
    ("sampling/verify", &["sampling::verify_emulated"], true),
    ("sampling/", &["sampling::emulated", "sampling::verify_emulated"], true),
    ("schedule/tile_scheduler", &["kernels::mixed_emulated", "kernels::prefill_sm90_emulated"], true),
    ("select/", &["indexer::emulated"], true),
    ("softmax/finalize", &["kernels::partial_emulated"], false),
    ("softmax/", &["kernels::prefill_sm80_emulated", "kernels::prefill_sm90_emulated"], false),
];

/// The programs of the tests. They are copies, so that other builds do not disturb a run.
pub(super) struct Programs {
    folder: PathBuf,
}

/// Builds the programs.
pub(super) fn build(sh: &Shell, root: &Path) -> Result<Programs> {
    let folder = target_dir(root)?.join("mutants");
    fs::create_dir_all(&folder)?;
    let programs: BTreeSet<&str> = ATTENTION.iter().chain(&OTHERS).map(|test| parts(test).0).collect();
    let tests: Vec<_> = programs.iter().flat_map(|program| ["--test", program]).collect();
    let format = "--message-format=json-render-diagnostics";
    let messages = cmd!(sh, "cargo test --quiet -p attn-tests {tests...} --no-run {format}").quiet().read()?;
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for program in programs {
        let of = |built: &&Value| built["target"]["name"] == program && built["executable"].is_string();
        let built = messages.iter().find(of).and_then(|built| built["executable"].as_str());
        fs::copy(built.with_context(|| format!("cargo has not built {program}"))?, folder.join(program))?;
    }
    Ok(Programs { folder })
}

impl Programs {
    /// The first test that fails with a mutant, of those that are not ignored.
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

/// The program and the module of a test.
fn parts(test: &str) -> (&str, &str) {
    test.split_once("::").expect("a program and a module")
}

/// Runs the tests of a module until one fails.
fn failure(folder: &Path, test: &str, root: &Path, patch: &Path) -> Result<Option<Killer>> {
    let (program, module) = parts(test);
    let mut child = Command::new(folder.join(program))
        .arg(format!("{module}::"))
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
    // emulated kernels abort where they race; SIGKILL and SIGTERM come from outside, and say nothing of the mutant
    ensure!(test.is_some() || !matches!(status.signal(), Some(9 | 15)), "{program} was killed before it ended");
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
        assert_eq!(asked("attn-kernels/cuda/planner/work_list.cuh"), ["plan::device_plan"]);
        assert_eq!(asked("attn-kernels/cuda/prefill/sm80/mainloop.cuh")[0], "kernels::prefill_sm80_emulated");
        assert_eq!(asked("attn-kernels/cuda/prefill/sm90/latent/cta.cuh"), ["kernels::prefill_latent_emulated"]);
        assert_eq!(asked("attn-kernels/cuda/memory/row.cuh").len(), 20);
    }
}
