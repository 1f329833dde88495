//! `generate-check` on the CPU: logits, perplexities and texts are those of another program's forward pass, and have
//! the same bits however they are computed.

use std::process::Command;

use generate::model::fetch::model_file;

#[test]
fn the_model_is_that_of_the_truth() {
    let model = model_file(None).expect("the model");
    let truth = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/generate/tests/data/smollm2_truth.json");
    let output = Command::new(env!("CARGO_BIN_EXE_generate-check"))
        .args(["--cpu", "--perplexity", "0.0001", "--margin", "0.05", "--logits", "0.005", "--truth", truth, "--model"])
        .arg(model)
        .args(["truth", "invariance"])
        .output()
        .expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
