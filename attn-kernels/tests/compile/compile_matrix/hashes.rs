//! Writes two hashes of every cubin of the matrix, so that two commits can be compared: `cargo xtask cubins`.
//!
//! The first hash is the code key, of what a GPU executes (`Compiled::code_key`). The second is of the whole file. A
//! constant's name stands in a cubin's symbol table, so a rename moves the second and not the first.

use std::{collections::HashSet, env, fs};

use attn_kernels::{jit, splice::Unit};
use sha2::{Digest as _, Sha256};

use crate::stock::cache;

use super::points::{
    ARCHS, FURTHER_ARCHS, cuda_cores, e4m3_compute, further, mixed, points, sm90_mixed, sm90_prefill, widths,
};
use super::{formats, ops, planner_sources, registry};
use crate::output_types;

/// One unit of the matrix: its label and its source.
type Entry = (String, Box<dyn Unit + Send>);

fn entry<S: Unit + Send + 'static>(label: String, source: S) -> Entry {
    (label, Box::new(source))
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `ATTN_CUBIN_HASHES` names the file to write, `ATTN_CUBIN_FILTER` parts of the labels with `|` between,
/// `ATTN_CUBIN_EVERY` a stride.
#[test]
#[ignore = "a tool: `cargo xtask cubins`"]
fn print_cubin_hashes() {
    let Ok(path) = env::var("ATTN_CUBIN_HASHES") else { return };
    let filter = env::var("ATTN_CUBIN_FILTER").unwrap_or_default();
    let every: usize = env::var("ATTN_CUBIN_EVERY").map_or(1, |every| every.parse().expect("ATTN_CUBIN_EVERY"));
    let registry = registry();
    let chosen = |label: &str| filter.split('|').any(|part| label.contains(part));
    let of_points = [
        points(&registry),
        further(&registry),
        mixed(),
        sm90_prefill(&registry),
        widths(),
        cuda_cores(&registry),
        sm90_mixed(&registry),
        e4m3_compute(),
    ];
    let of_points = of_points.into_iter().flatten().filter(|point| chosen(&point.label()));
    let mut entries: Vec<_> = of_points.map(|point| entry(point.label(), point.source(&registry))).collect();
    let over_formats = formats::kernels(&registry).into_iter().enumerate();
    entries.extend(over_formats.map(|(i, source)| entry(format!("formats {i} {}", source.name()), source)));
    let ops_over_formats = formats::ops(&registry).into_iter().enumerate();
    entries.extend(ops_over_formats.map(|(i, source)| entry(format!("formats op {i} {}", source.name()), source)));
    let other_types = output_types::sources().into_iter();
    entries.extend(other_types.map(|source| entry(format!("types {}", source.name()), source)));
    let archs = [&ARCHS[..], &FURTHER_ARCHS].concat();
    entries.extend(planner_sources(&registry, &archs, chosen).into_iter().map(|(label, source)| entry(label, source)));
    let ops = ops::sources(&registry).into_iter().enumerate();
    entries.extend(ops.map(|(i, source)| entry(format!("op {i} {}", source.arch()), source)));

    // equal texts have one cubin: the first label stands for them
    let mut seen = HashSet::new();
    entries.retain(|(label, source)| chosen(label) && seen.insert(format!("{} {}", source.arch(), source.text())));
    let (labels, sources): (Vec<String>, Vec<_>) = entries.into_iter().step_by(every).unzip();
    let mut lines = Vec::new();
    let cache = cache().expect("`cargo xtask cubins` provides a compiler");
    jit::obtain_all_from(&cache, sources, None, |done| {
        let (compiled, _) = done.result.expect("the source compiles");
        let file = hex(Sha256::new_with_prefix(&compiled.cubin));
        let code = compiled.code_key().expect("a cubin");
        lines.push(format!("{}\t{code}\t{file}\n", labels[done.index]));
    });
    assert_eq!(lines.len(), labels.len(), "each text once");
    lines.sort();
    fs::write(&path, lines.concat()).expect("a file");
}
