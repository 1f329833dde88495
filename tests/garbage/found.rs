//! The inputs that libFuzzer found, one for each path through a target: `tests/data/fuzz/TARGET.jsonl`.

use std::{env, fs, path::Path};

use serde_json::Value;

/// The inputs of a target, from its file. A line is a string of JSON; of bytes that are not UTF-8, an array of numbers.
///
/// `ATTN_FUZZ_FOUND` names a folder with a folder of inputs for each target, which are written to the file first.
pub(crate) fn inputs(name: &str) -> Vec<Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/fuzz").join(format!("{name}.jsonl"));
    if let Some(from) = env::var_os("ATTN_FUZZ_FOUND") {
        let entries = fs::read_dir(Path::new(&from).join(name)).expect("a folder of inputs");
        let read = |entry: std::io::Result<fs::DirEntry>| fs::read(entry.expect("an entry").path()).expect("a file");
        let mut inputs: Vec<Vec<u8>> = entries.map(read).collect();
        inputs.sort();
        fs::write(&file, inputs.iter().map(|input| line(input)).collect::<String>()).expect("the file is written");
    }
    let Ok(text) = fs::read_to_string(&file) else { return Vec::new() };
    text.lines().map(|line| bytes(line).unwrap_or_else(|| panic!("{}: no input: {line}", file.display()))).collect()
}

fn line(input: &[u8]) -> String {
    let value = std::str::from_utf8(input).map_or_else(|_| Value::from(input), Value::from);
    format!("{value}\n")
}

fn bytes(line: &str) -> Option<Vec<u8>> {
    match serde_json::from_str(line).ok()? {
        Value::String(text) => Some(text.into_bytes()),
        Value::Array(bytes) => bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect(),
        _ => None,
    }
}

#[test]
fn inputs_are_read_back() {
    for input in [&b""[..], b"a \"quote\"\n\0", &[0xff, 0, 7]] {
        assert_eq!(bytes(line(input).trim_end()).as_deref(), Some(input));
    }
    assert!(bytes("{}").is_none() && bytes("[256]").is_none());
}
