//! Test programs on all cores, where nextest is not installed: `cargo test` runs one program after the other, and waits
//! for the last test of each.
//!
//! There are as many processes at a time as cores, and each runs one test after the other: a long test alone, or the
//! other tests of a program. The long ones come last, so that all cores end at about the same time.

use std::collections::VecDeque;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use xshell::{Shell, cmd};

/// A test program that cargo built.
#[derive(Debug, PartialEq)]
struct Program {
    package: String,
    name: String,
    file: PathBuf,
    manifest: PathBuf,
}

/// Some tests of a program, in one process.
struct Job {
    title: String,
    command: Command,
}

/// Which tests run, by parts of their names.
pub(super) struct Chosen<'a> {
    /// Long tests, which have processes of their own, the longest first.
    pub(super) long: &'a [&'a str],
    /// The long tests that run; `None` is all of them.
    pub(super) kept: Option<&'a [&'a str]>,
    /// Whether ignored tests run, too.
    pub(super) ignored: bool,
}

/// Builds the test programs of these packages and runs them; fails after all of them ran if a test failed.
pub(super) fn run(sh: &Shell, packages: &[&str], chosen: &Chosen<'_>) -> Result<()> {
    let build = cmd!(sh, "cargo test --lib --bins --tests {packages...} --no-run");
    let programs = programs(&build.arg("--message-format=json-render-diagnostics").read()?);
    ensure!(!programs.is_empty(), "cargo has built no test program");
    let mut jobs = Vec::new();
    for program in &programs {
        jobs.extend(program.jobs(sh, chosen)?);
    }
    jobs.sort_by_key(|(rank, _)| *rank);
    let count = jobs.len();
    let jobs: Mutex<VecDeque<Job>> = Mutex::new(jobs.into_iter().map(|(_, job)| job).collect());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(mut job) = next else { break };
                    if !job.passes() {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(job.title);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} of {count} runs of test programs failed:\n  {}", failed.len(), failed.join("\n  "))
}

/// The test programs of cargo's messages.
fn programs(messages: &str) -> Vec<Program> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = |built: Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let is_test = built["profile"]["test"] == true;
        let manifest = PathBuf::from(text(&built["manifest_path"]).filter(|_| is_test)?);
        let package = manifest.parent()?.file_name()?.to_str()?.to_owned();
        let (name, file) = (text(&built["target"]["name"])?, text(&built["executable"])?.into());
        Some(Program { package, name, file, manifest })
    };
    messages.filter_map(program).collect()
}

impl Program {
    /// A process of the program, as `cargo test` starts it, with the variables of `sh`.
    fn command(&self, sh: &Shell) -> Command {
        let folder = self.manifest.parent().unwrap_or(Path::new("."));
        let mut command = Command::from(sh.cmd(&self.file));
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder).env("CARGO_MANIFEST_PATH", &self.manifest);
        command
    }

    /// Its long tests and the other ones, each with its rank: that of the name of a long test; others come first.
    fn jobs(&self, sh: &Shell, chosen: &Chosen<'_>) -> Result<Vec<(usize, Job)>> {
        let args = ["--list", "--format", "terse"];
        let listed = self.command(sh).args(args).output().with_context(|| self.file.display().to_string())?;
        ensure!(listed.status.success(), "{}: {}", self.file.display(), String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).context("names of tests")?;
        let (mut jobs, mut others, mut skipped) = (Vec::new(), 0, Vec::new());
        for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            let Some(rank) = chosen.long.iter().position(|part| names(part, test)) else {
                others += 1;
                continue;
            };
            skipped.extend(["--skip".to_owned(), test.to_owned()]);
            if chosen.kept.is_none_or(|kept| kept.iter().any(|part| names(part, test))) {
                jobs.push((rank + 1, self.job(sh, test, vec![test.to_owned()], chosen)));
            }
        }
        if others > 0 {
            jobs.push((0, self.job(sh, "", skipped, chosen)));
        }
        Ok(jobs)
    }

    fn job(&self, sh: &Shell, test: &str, tests: Vec<String>, chosen: &Chosen<'_>) -> Job {
        let mut command = self.command(sh);
        // `--skip` takes whole names, too
        command.args(["--exact", "--test-threads=1"]).args(chosen.ignored.then_some("--include-ignored")).args(tests);
        Job { title: format!("{} {} {test}", self.package, self.name).trim_end().to_owned(), command }
    }
}

/// Whether a part of a name, or with `^` and `$` a whole name, is that of a test.
fn names(part: &str, test: &str) -> bool {
    match part.strip_prefix('^').and_then(|whole| whole.strip_suffix('$')) {
        Some(whole) => whole == test,
        None => test.contains(part),
    }
}

impl Job {
    /// Runs the tests, and prints what they say if one fails.
    fn passes(&mut self) -> bool {
        let start = Instant::now();
        let output = self.command.output();
        let seconds = start.elapsed().as_secs_f64();
        let (result, said) = match output {
            Ok(Output { status, .. }) if status.success() => ("ok", String::new()),
            Ok(output) => {
                let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                ("FAILED", said.concat())
            }
            Err(error) => ("FAILED", error.to_string()),
        };
        eprintln!("{result:>6} {seconds:6.1} s  {}", self.title);
        eprint!("{said}");
        result == "ok"
    }
}

#[cfg(test)]
mod tests {
    use super::{Program, names, programs};

    #[test]
    fn test_programs_are_those_that_cargo_built_as_tests() {
        let message = |test: bool, name: &str, file: &str| {
            let target = format!(r#""manifest_path":"/r/tests/Cargo.toml","target":{{"name":"{name}"}}"#);
            format!(r#"{{{target},"profile":{{"test":{test}}},"executable":{file}}}"#)
        };
        let lines = [
            message(true, "ops", r#""/t/ops-1""#),
            message(false, "attn", r#""/t/attn""#),
            message(true, "a_library_of_others", "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let want = Program {
            package: "tests".to_owned(),
            name: "ops".to_owned(),
            file: "/t/ops-1".into(),
            manifest: "/r/tests/Cargo.toml".into(),
        };
        assert_eq!(programs(&lines.join("\n")), [want]);
    }

    #[test]
    fn parts_and_whole_names() {
        assert!(names("emulated::", "decode_emulated::head_dims") && names("^ui$", "ui"));
        assert!(!names("^ui$", "ui::compile_fail") && !names("emulated::", "emulated"));
    }
}
