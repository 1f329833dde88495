//! Options that contradict each other, that have nothing to act on, or values that are not understood.

use std::process::Output;

use super::{attn, attn_json, command, failure, records, scratch, text};

/// The message of a command line that is refused.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    let dir = scratch();
    for (line, names) in [
        ("check --bit-exact --max-cost 1", ["--bit-exact", "--max-cost"]),
        ("check --bit-exact --list", ["--bit-exact", "--list"]),
        ("check --wide-offsets --grid small", ["--wide-offsets", "--grid"]),
        ("check --wide-offsets --kv-format int8", ["--wide-offsets", "--kv-format"]),
        ("check --wide-offsets --bit-exact", ["--wide-offsets", "--bit-exact"]),
        ("check --grid small --list --device cpu", ["--list", "--device"]),
        ("check --grid small --list --max-cost 1", ["--list", "--max-cost"]),
        ("bench --ops cases.jsonl", ["--ops", "CASES.jsonl"]),
        ("bench --ops --match x", ["--ops", "--match"]),
        ("bench --sampling --grid small", ["--sampling", "--grid"]),
        ("bench --sampling --reps 3", ["--sampling", "--reps"]),
        ("bench --serve --expr causal", ["--serve", "--expr"]),
        ("bench --serve --reps 3", ["--serve", "--reps"]),
        ("bench --serve --json", ["--serve", "--json"]),
        ("bench --grid small --variant causal", ["--variant", "--grid"]),
        ("bench --ops --variant causal", ["--variant", "--ops"]),
        ("bench --variant causal", ["--variant", "--serve"]),
        ("bench --ops --commit x", ["--commit", "--ops"]),
        ("bench --grid small --commit x", ["--commit", "--report"]),
        ("calibrate --cases --device cpu", ["--cases", "--device"]),
        ("calibrate --cases --reps 3", ["--cases", "--reps"]),
        ("list soft_cap --embedded", ["NAME", "--embedded"]),
        ("compile --cases c.jsonl --head-dim 64", ["--head-dim", "EXPR"]),
        ("compile --cases c.jsonl --kernel decode", ["EXPR", "--cases"]),
        ("keys --no-grids --kv-format int8", ["--no-grids", "--kv-format"]),
        ("compile causal --kernel decode --prefill sm80", ["--prefill", "decode"]),
        ("compile causal --kernel prefill --decode cuda-cores", ["--decode", "prefill"]),
        ("compile causal --shared-rows", ["--shared-rows", "mixed"]),
        ("source causal --full --kernel decode --compute-type e4m3", ["--compute-type", "decode"]),
        ("source causal --full --decode cuda-cores", ["--decode", "prefill"]),
        ("check --expr causal --compute-type e4m3 --prefill cuda-cores", ["--compute-type", "--prefill"]),
        ("check --expr causal --compute-type e4m3 --decode cuda-cores", ["--compute-type", "--decode"]),
        ("check --expr causal --compute-type e4m3 --dtype f32", ["--compute-type", "--dtype f32"]),
        ("source causal --arch 80", ["--full", "source"]),
        ("source causal --full --arch 80;90a", ["--arch: 2 kernels", "one translation unit"]),
        ("source causal --full --head-dim 64,128", ["--head-dim: 2 kernels", "one translation unit"]),
    ] {
        let message = refused(&attn(dir.path(), &line.split(' ').collect::<Vec<_>>()));
        for name in names {
            assert!(message.contains(name), "{line}: {message}");
        }
    }
}

#[test]
fn what_chooses_nothing_is_an_error() {
    let dir = scratch();
    let empty = dir.path().join("empty.jsonl");
    std::fs::write(&empty, "\n").expect("written");
    let empty = empty.to_str().expect("UTF-8");
    for (args, why) in [
        (&["check", empty][..], "no cases in "),
        (&["check", "--exprs", empty], "no cases in "),
        (&["check", "--grid", "small", "--match", "nothing"], "none of 96 cases matches `nothing`"),
        (&["bench", "--grid", "small", "--match", "nothing"], "none of 96 cases matches `nothing`"),
        (&["check", "--bit-exact", "--match", "nothing"], "cases matches `nothing`"),
        (&["check", "--grid", "counting", "--kv-format", "int8"], "all of them count keys"),
        (&["check", "--expr", "causal", "--match", "over-000", "--kv-format", "int9"], "int9"),
        (&["calibrate", "--cases", "--match", "nothing"], "no kernel has such a name"),
        (&["keys", "--no-grids"], "no cases"),
        (&["keys", "--cache", "/nowhere"], "no compiled kernels in /nowhere"),
        (&["compile", "--cases", empty], "nothing to compile"),
        (&["list", "--costs", "/nowhere.jsonl"], "/nowhere.jsonl"),
    ] {
        let message = failure(&attn(dir.path(), args));
        assert!(message.contains(why), "{args:?}: {message}");
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let dir = scratch();
    for line in [
        "bench --grid small --reps 0",
        "bench --ops --reps 0",
        "calibrate --reps 0",
        "list --threads 0",
        "list --threads 100000",
        "tiles causal --qo 1073741824",
        "tiles causal --kv 4294967295",
        "tiles causal --tile 4000000000x128",
        "source causal --full --group 4294967295",
        "check --grid small --max-cost NaN",
        "check --grid small --max-cost -1",
    ] {
        let message = refused(&attn(dir.path(), &line.split(' ').collect::<Vec<_>>()));
        assert!(message.contains("invalid value") || message.contains("unexpected argument '-1'"), "{line}: {message}");
    }
}

#[test]
fn json_has_the_source_too() {
    let dir = scratch();
    let plain = text(&attn(dir.path(), &["source", "causal"]).stdout);
    let record = &records(&attn_json(dir.path(), &["source", "causal"]))[0];
    assert_eq!((record["source"].as_str(), record["full"].as_bool()), (Some(plain.as_str()), Some(false)));
}

#[test]
fn the_compute_type_of_the_command_line_is_that_of_all_cases() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let cases = attn_json(dir.path(), &["check", "--expr", "causal", "--compute-type", "e4m3", "--list"]);
    std::fs::write(&path, &cases.stdout).expect("written");
    assert!(records(&cases).iter().all(|case| case["compute_type"] == "e4m3"));
    let args = ["check", path.to_str().expect("UTF-8"), "--compute-type", "exact", "--list"];
    assert!(records(&attn_json(dir.path(), &args)).iter().all(|case| case["compute_type"].is_null()));
}

#[test]
fn the_environment_is_checked() {
    let dir = scratch();
    let with = |name: &str, value: &str, args: &[&str]| {
        command(dir.path(), args).env(name, value).output().expect("attn runs")
    };
    let message = failure(&with("ATTN_LOG", "attn=loud", &["list"]));
    assert!(message.contains("ATTN_LOG=attn=loud: ") && message.contains("debug"), "{message}");
    let doctor = |name: &str, value: &str| {
        let records = records(&with(name, value, &["doctor", "--json"]));
        let record = records.iter().find(|record| record["what"] == "environment").expect("it is reported");
        (record["ok"] == true, record["found"].as_str().expect("a text").to_owned())
    };
    let (ok, found) = doctor("ATTN_NVTRC", "/lib");
    assert!(!ok && found.contains("`ATTN_NVTRC` is no variable of attn-rs; did you mean `ATTN_NVRTC`?"), "{found}");
    let (ok, found) = doctor("ATTN_JIT", "of");
    assert!(!ok && found.contains("ATTN_JIT=of: there are on, off"), "{found}");
    let (ok, found) = doctor("ATTN_JIT", "off");
    assert!(ok && found.contains("ATTN_JIT"), "{found}");
    let run = with("ATTN_JIT", "of", &["compile", "causal", "--arch", "80", "--kernel", "decode"]);
    assert!(text(&run.stderr).contains("ATTN_JIT=of is neither on nor off"), "{}", text(&run.stderr));
}
