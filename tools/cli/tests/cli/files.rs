//! Files that are written, and pipes that are closed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::{attn, command, failure, scratch, text};

#[test]
fn a_file_is_not_written_over_another_one() {
    let dir = scratch();
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (cases, exprs, one) = (path("cases.jsonl"), path("exprs"), path("one"));
    let case =
        r#"{"variant":"full","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]}"#;
    std::fs::write(&cases, case).expect("written");
    std::fs::write(&exprs, "causal").expect("written");
    let other =
        format!("{}/../{}/cases.jsonl", dir.path().display(), dir.path().file_name().expect("a name").display());
    for (args, options) in [
        (&["check", &cases, "--list", "--out", &cases][..], ["CASES.jsonl", "--out"]),
        (&["check", &cases, "--list", "--out", &other], ["CASES.jsonl", "--out"]),
        (&["check", "--exprs", &exprs, "--list", "--out", &exprs], ["--exprs", "--out"]),
        (&["keys", "--no-grids", &cases, "--out", &cases], ["CASES.jsonl", "--out"]),
        (&["compile", "--cases", &cases, "--out", &cases], ["--cases", "--out"]),
        (&["bench", &cases, "--report", &one, "--out", &one], ["--report", "--out"]),
        (&["tiles", "causal", "--svg", &one, "--png", &one], ["--svg", "--png"]),
        (&["tiles", "causal", "--svg", &one, "--out", &one], ["--svg", "--out"]),
    ] {
        let message = failure(&attn(dir.path(), args));
        assert!(options.iter().all(|option| message.contains(option)) && message.contains("one file"), "{message}");
    }
    assert_eq!(std::fs::read_to_string(&cases).expect("it is there"), case);
}

#[test]
fn nobody_need_read_messages() {
    let dir = scratch();
    // the reader of stderr is gone before the message
    let mut child = command(dir.path(), &["list"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    let mut child = command(dir.path(), &["source", "nosuch"]).stderr(Stdio::piped()).spawn().expect("runs");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("ends").code(), Some(2));
}

#[test]
fn a_closed_pipe_ends_neither_the_file_nor_the_verdict() {
    let dir = scratch();
    let out = dir.path().join("out.jsonl");
    let out = out.to_str().expect("UTF-8");
    // the exit code of a run whose output is closed after a line, or at once
    let run = |args: &[&str], lines: usize| {
        let mut child =
            command(dir.path(), args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("attn runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        (0..lines).for_each(|_| _ = stdout.read_line(&mut String::new()).expect("a line"));
        drop(stdout);
        child.wait().expect("ends").code()
    };
    let check = |more: &[&'static str]| [&["check", "--expr", "causal", "--device", "cpu"][..], more].concat();
    // every case is too expensive, which the table alone would have shown
    assert_eq!(run(&check(&["--max-cost", "1"]), 0), Some(1));
    let args = [&check(&["--json", "--out"])[..], &[out]].concat();
    assert_eq!(run(&args, 1), Some(0));
    assert_eq!(std::fs::read_to_string(out).expect("written").lines().count(), 6);
    assert_eq!(run(&check(&["--json"]), 1), Some(141), "it was cut short");
    assert_eq!(run(&["list"], 1), Some(0));
    let whole = attn(dir.path(), &["list", "--json"]);
    assert!(whole.status.success(), "{}", text(&whole.stderr));
}
