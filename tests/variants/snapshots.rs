//! The generated CUDA of every stock variant and KV format, as readable files: `cuda/*.cu`.
//!
//! Line numbers are left out, so that a comment in a variant changes no snapshot. A separate test checks them. After a
//! change: `UPDATE_DOCS=1 cargo test -p attn-tests --test variants snapshots::`.

use attn_kernels::splice::{kv_format_text, variant::parts_source};
use attn_tests::golden::compare;

/// The text without line numbers.
fn readable(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("#line ").and_then(|rest| rest.split_once(' ')) {
        Some((_, file)) => format!("#line _ {file}"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n").trim().to_owned() + "\n"
}

#[test]
fn every_stock_variant_as_cuda() {
    for desc in attn_variants::variants() {
        let text = parts_source(&[desc]).expect("one part");
        // the composition around a part is the same for all; `a_composition_as_cuda` shows it once
        let part = text.split("struct Variant {").next().unwrap_or_default();
        compare(&format!("variants/cuda/{}.cu", desc.name), &readable(part));
    }
}

#[test]
fn every_stock_kv_format_as_cuda() {
    for desc in attn_variants::kv_formats::all() {
        let text = kv_format_text(desc, "KeyFormat").expect("its parts go together");
        compare(&format!("variants/cuda/kv_format_{}.cu", desc.name), &readable(&text));
    }
}

#[test]
fn a_composition_as_cuda() {
    let variant = attn_core::Variant::parse("causal + alibi + soft_cap(cap=30) + sink(logits=[1])").expect("stock");
    let parts: Vec<_> = variant.parts().map(|p| p.desc()).collect();
    let text = parts_source(&parts).expect("they go together");
    let composed = text.split("struct Variant {").nth(1).expect("there is one");
    compare("variants/cuda/composition.cu", &readable(&format!("struct Variant {{{composed}")));
}

/// Errors in generated CUDA name the user's line: each `#line` names the line of its hook.
#[test]
fn line_directives_name_the_hooks() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut checked = 0;
    let mut check = |cuda: &str, method: &str, file_of_impl: &str| {
        let rust = std::fs::read_to_string(format!("{root}/{file_of_impl}")).expect("the file of the impl");
        let directive = cuda.lines().find_map(|l| l.strip_prefix("#line ")).expect("one for each hook");
        let (number, file) = directive.split_once(' ').expect("number and file");
        let line = rust.lines().nth(number.parse::<usize>().expect("a number") - 1).expect("in the file");
        assert!(line.contains(&format!("fn {method}")), "{file}:{number}: {line}");
        assert_eq!(file, format!("\"{file_of_impl}\""));
        checked += 1;
    };
    for desc in attn_variants::variants() {
        desc.hooks.iter().for_each(|hook| check(hook.cuda, hook.hook.method(), desc.file));
    }
    for desc in attn_variants::kv_formats::all() {
        check(desc.encode, "encode", desc.file);
        check(desc.decode, "decode", desc.file);
    }
    assert!(checked >= 10);
}
