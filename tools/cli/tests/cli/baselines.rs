//! Comparison with baselines: the protocol over stdin and stdout, and outputs over the same tensors.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{command, lines, scratch, text};

#[test]
fn serve_speaks_the_protocol_of_the_interleaved_benchmark() {
    let dir = scratch();
    let mut child = command(dir.path(), &["bench", "--serve", "--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("attn runs");
    let case =
        r#"{"variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[8],"kv_lens":[8]}"#;
    let bad = case.replace("bf16", "e4m3");
    let modes = case.replace(
        r#""qo_lens":[8],"kv_lens":[8]"#,
        r#""qo_lens":[20,1],"kv_lens":[20,9],"ours_also":["sequential","flat"]"#,
    );
    let script = format!(
        "{{\"time\": \"attn\"}}\n{{\"prepare\": {case}}}\n{{\"time\": \"attn\", \"reps\": 3}}\n{{\"drop\": true}}\n\
         {{\"prepare\": {bad}}}\nnonsense\n\
         {{\"prepare\": {modes}}}\n{{\"time\": \"sequential\", \"reps\": 1}}\n{{\"time\": \"flat\"}}\n"
    );
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let answers = lines(&output);
    assert_eq!(answers.len(), 9, "{answers:?}");
    assert!(answers[0]["error"].is_string());
    assert!(answers[1]["ready"]["attn"].is_object() && answers[1]["cannot"].as_object().is_some_and(|c| c.is_empty()));
    assert!(answers[2]["ms"].as_f64().is_some_and(|ms| ms > 0.0));
    assert_eq!(answers[3]["dropped"], true);
    assert!(answers[4]["cannot"]["attn"].as_str().is_some_and(|why| why.contains("e4m3")));
    assert!(answers[5]["error"].is_string());
    let ready = answers[6]["ready"].as_object().expect("runners");
    assert!(ready.keys().eq(["attn", "sequential"]) && answers[6]["cannot"]["flat"].is_string(), "{answers:?}");
    assert!(ready["sequential"]["ran"].as_str().is_some_and(|ran| ran.contains(", then ")), "{answers:?}");
    assert!(answers[7]["ms"].as_f64().is_some_and(|ms| ms > 0.0) && answers[8]["error"].is_string(), "{answers:?}");
}

/// A baseline for `interleave.py --verify` that needs no GPU: with one key a request the output is its value.
const PEER: &str = r#"
import json, os, sys

for line in sys.stdin:
    m = json.loads(line)
    case, folder = m["verify"], m["folder"]
    row, heads, group = 2 * case["head_dim"], case["kv_heads"], case["qo_heads"] // case["kv_heads"]
    v = open(os.path.join(folder, "v.bin"), "rb").read()
    rows = [v[at : at + row] for at in range(0, len(v), row)]
    written = {}
    for name, off in [("right", 0), ("wrong", int(sys.argv[1]))]:
        written[name] = os.path.join(folder, name + ".bin")
        with open(written[name], "wb") as file:
            for n in range(len(rows) // heads):
                for head in range(heads):
                    file.write(rows[n * heads + (head + off) % heads] * group)
    print(json.dumps({"outputs": written, "cannot": {"other": "no such mask"}}), flush=True)
"#;

#[test]
fn a_baseline_over_our_tensors_has_our_output_or_fails() {
    let dir = scratch();
    let [peer, cases] = ["peer.py", "cases.jsonl"].map(|name| dir.path().join(name));
    std::fs::write(&peer, PEER).expect("written");
    let case = |name: &str, layout: &str| {
        format!(
            r#"{{"name":"{name}","variant":"causal","dtype":"f16","qo_heads":8,"kv_heads":2,"head_dim":64,
                "kv_layout":"{layout}","page_size":3,"qo_lens":[1,1,1,1,1],"kv_lens":[1,1,1,1,1]}}"#
        )
        .replace('\n', "")
    };
    let cascade = case("c", "cascade").replace(r#""qo_lens""#, r#""levels":[{"groups":[5],"kv_lens":[3]}],"qo_lens""#);
    std::fs::write(&cases, [case("a", "paged"), case("b", "ragged"), cascade].join("\n")).expect("written");
    let verify = |off: u32, pattern: &str| {
        let ours = format!("{} bench --serve --device cpu", env!("CARGO_BIN_EXE_attn"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/baselines/interleave.py");
        let mut command = Command::new("python3");
        command.arg("-B").arg(script).arg(&cases).args(["--ours", &ours, "--verify", "--match", pattern]);
        command.args(["--peers", &format!("python3 {} {off}", peer.display())]);
        command.env("ATTN_CACHE_DIR", dir.path()).output().expect("python3 runs")
    };
    let equal = verify(0, "");
    let report = text(&equal.stdout);
    assert!(equal.status.success(), "{report}{}", text(&equal.stderr));
    assert!(report.contains("4 outputs of baselines compared with ours, 0 differ"), "{report}");
    assert!(report.contains("not shared") && report.contains("cascade") && report.contains("no such mask"), "{report}");

    let wrong = verify(1, "");
    let report = text(&wrong.stdout);
    assert!(!wrong.status.success() && report.contains("compared with ours, 2 differ"), "{report}");
    let twice = case("a", "paged").replace(r#""page_size":3"#, r#""page_size":3,"page_size":5"#);
    let kept = std::fs::read(&cases).expect("cases");
    std::fs::write(&cases, [case("b", "ragged"), twice].join("\n")).expect("written");
    let refused = verify(0, "");
    let why = text(&refused.stderr);
    assert!(!refused.status.success() && why.contains("line 2 is not a case: duplicate field `page_size`"), "{why}");
    std::fs::write(&cases, kept).expect("written");
    let none = verify(0, "^c$");
    assert!(!none.status.success() && text(&none.stdout).contains("0 outputs"), "nothing was compared");
}

#[test]
fn lines_of_the_protocol_that_are_not_understood_are_refused() {
    let dir = scratch();
    let case =
        r#"{"variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[8],"kv_lens":[8]}"#;
    let bad_case = case.replace("\"qo_lens\"", "\"sead\":1,\"qo_lens\"");
    let twice = case.replace("\"qo_lens\"", "\"seed\":1,\"seed\":2,\"qo_lens\"");
    let lines_and_why = [
        (format!("{{\"prepare\": {bad_case}}}"), "unknown field `sead`; did you mean `seed`?"),
        (format!("{{\"prepare\": {twice}}}"), "duplicate field `seed`"),
        ("{\"time\": \"attn\", \"rep\": 3}".to_owned(), "unknown field `rep`; did you mean `reps`?"),
        ("{\"time\": \"attn\", \"reps\": \"3\"}".to_owned(), "invalid type"),
        ("{\"time\": \"attn\", \"drop\": true}".to_owned(), "expected one of prepare, time, drop"),
        ("{\"drop\": true, \"reps\": 3}".to_owned(), "`reps` belongs to `time`"),
        (format!("{{\"share\": {case}}}"), "`share` needs a folder"),
        ("{\"drop\": true}".to_owned(), "dropped"),
    ];
    let mut child = command(dir.path(), &["bench", "--serve", "--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("attn runs");
    let script: String = lines_and_why.iter().map(|(line, _)| format!("{line}\n")).collect();
    let script = [b"\xff\n\n", script.as_bytes()].concat();
    child.stdin.take().expect("piped").write_all(&script).expect("written");
    let answers = lines(&child.wait_with_output().expect("ends"));
    let (first, answers) = answers.split_first().expect("answers");
    assert!(first["error"].as_str().is_some_and(|why| why.contains("not UTF-8")), "{first}");
    assert_eq!(answers.len(), lines_and_why.len(), "{answers:?}");
    for (answer, (line, why)) in answers.iter().zip(&lines_and_why) {
        assert!(answer.to_string().replace("\\\"", "\"").contains(why), "{line}: {answer}");
    }
}
