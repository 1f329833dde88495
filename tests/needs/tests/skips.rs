//! Skips in processes of their own, as a runner of tests starts them.

use std::process::{Command, Output};
use std::{env, fs};

use attn_needs::{Need, has};

/// The test that is skipped in the processes of the tests beside it.
#[test]
fn skipped() {
    if env::var_os("ATTN_TEST_CHILD").is_some() && has(Need::Valgrind, Err::<(), _>("it is on the moon")) {
        panic!("found");
    }
}

fn run(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "skipped", "--nocapture"]).env("ATTN_TEST_CHILD", "1");
    for name in ["ATTN_TEST_REQUIRE", "ATTN_TEST_SKIPS", "NEXTEST_TEST_NAME"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

#[test]
fn a_skip_is_printed_and_recorded() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("skips");
    let skips = ("ATTN_TEST_SKIPS", folder.to_str().expect("UTF-8"));
    for requirement in ["", "gpu,nvrtc"] {
        let output = run(&[skips, ("ATTN_TEST_REQUIRE", requirement)]);
        assert!(output.status.success());
        assert!(said(&output).contains("SKIPPED: needs valgrind: it is on the moon"), "{}", said(&output));
    }
    let files: Vec<_> = fs::read_dir(&folder).expect("made").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(files.len(), 2, "one of each process");
    for file in files {
        assert!(file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("valgrind.")));
        assert_eq!(fs::read_to_string(file).expect("written"), "skips skipped\n");
    }
}

#[test]
fn a_required_need_is_a_failure() {
    let dir = tempfile::tempdir().expect("a folder");
    let skips = ("ATTN_TEST_SKIPS", dir.path().to_str().expect("UTF-8"));
    let output = run(&[skips, ("ATTN_TEST_REQUIRE", "gpu,valgrind")]);
    assert!(!output.status.success() && said(&output).contains("ATTN_TEST_REQUIRE=valgrind"), "{}", said(&output));
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "a failure is no skip");
    let output = run(&[("ATTN_TEST_REQUIRE", "valgrnid")]);
    assert!(!output.status.success() && said(&output).contains("`valgrnid` is not known"), "{}", said(&output));
}
