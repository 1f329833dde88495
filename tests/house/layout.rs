//! Where files lie: the size of the facade, the folders of the CUDA templates, one module style.

use std::{collections::BTreeSet, fs};

use crate::files::{root, sources};

/// The facade's lines.
const FACADE_LINES: usize = 6200;

#[test]
fn facade_is_small_and_holds_no_test_files() {
    let sources = sources();
    let facade = || sources.iter().filter(|source| source.path.starts_with("src/"));
    let lines: usize = facade().map(|source| source.text.lines().count()).sum();
    assert!(lines > 1000, "the facade was not found");
    assert!(lines <= FACADE_LINES, "src/ has {lines} lines, at most {FACADE_LINES} are allowed");
    let tests: Vec<_> = facade()
        .filter(|source| {
            let name = source.path.rsplit('/').next().unwrap_or_default();
            let declared = source.text.contains("#![cfg(test)]");
            name.contains("tests") || declared || source.path.contains("/tests/")
        })
        .map(|source| &source.path)
        .collect();
    assert!(tests.is_empty(), "files of tests belong into tests/: {tests:?}");
    for source in facade() {
        let module = source.text.contains("#[cfg(test)]\nmod ") && !source.text.contains("#[cfg(test)]\nmod tests {");
        assert!(!module, "{} declares a file of tests", source.path);
    }
}

#[test]
fn cuda_templates_lie_in_folders_by_role() {
    let top = root().join("attn-kernels/cuda");
    let entries: Vec<_> = fs::read_dir(top).expect("the templates").flatten().collect();
    let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let folders: BTreeSet<_> = entries.iter().filter(|entry| is_dir(entry)).map(fs::DirEntry::file_name).collect();
    assert!(folders.len() >= 12, "{folders:?}");
    let hidden = |entry: &&fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
    let files = entries.iter().filter(|entry| !is_dir(entry) && !hidden(entry)).count();
    assert!(files <= 3, "{files} files stand at the top of attn-kernels/cuda");
}

#[test]
fn modules_have_one_style() {
    let style: Vec<_> = sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| path.ends_with("/mod.rs") && path.contains("src/"))
        .collect();
    assert!(style.is_empty(), "a folder's module stands beside it, as `name.rs`: {style:?}");
}
