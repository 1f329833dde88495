//! A variant for each misuse, with the message that a user sees and its location, in a file for each kind of misuse.
//!
//! The text of rustc's own errors changes with its version: run with the toolchain that CI pins. After a change:
//! `TRYBUILD=overwrite cargo test -p attn-tests --test language ui::`.

use std::{fs, path::PathBuf};

#[test]
fn compile_fail() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}

/// Names of internals, which no message may contain.
const FORBIDDEN: &[&str] = &[
    "attn_codegen",
    "syn::",
    "proc_macro2",
    "TokenStream",
    "panicked",
    "__private",
    "HookText",
    "VariantDesc",
    "DESC",
    "lang/lang.cuh",
    "Kind::",
    "Ty::",
    "unwrap()",
    "internal",
    "constant `attn::",
];

#[test]
fn messages_do_not_name_internals() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = [here.join("ui/fail"), here.join("../attn-core/tests/ui")];
    let mut cases = 0;
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the cases")) {
        let path = entry.expect("a case").path();
        if path.extension().is_none_or(|e| e != "stderr") {
            continue;
        }
        cases += 1;
        let text = fs::read_to_string(&path).expect("text");
        // rustc quotes the user's code, so only the message lines are checked
        let kinds = ["error", "warning", "note", "help", "= "];
        for line in text.lines().filter(|l| kinds.iter().any(|kind| l.trim_start().starts_with(kind))) {
            // rustc prints this before the message of a constant assertion; other panics are not allowed
            let line = line.replace("evaluation panicked: ", "");
            for word in FORBIDDEN {
                assert!(!line.contains(word), "{}: `{word}` in: {line}", path.display());
            }
        }
    }
    assert!(cases >= 30, "{cases} files");
}
