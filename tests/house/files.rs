//! The text files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file: its path below the repository's root, with `/`, and its text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn is_markdown(&self) -> bool {
        self.has_extension(&["md"])
    }

    /// Rust, or CUDA and C++.
    pub(crate) fn is_code(&self) -> bool {
        self.has_extension(&["rs", "cuh", "cu", "cpp", "h"])
    }

    fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(&self.path).extension().is_some_and(|have| extensions.iter().any(|want| have == *want))
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the repository").to_owned()
}

/// The text of one file.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Markdown and source file, in the order of paths. Snapshots are not among them.
pub(crate) fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    found.retain(|source| source.is_markdown() || source.is_code());
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 300, "the repository was not found: {} files", found.len());
    found
}

fn collect(dir: &Path, below: &str, found: &mut Vec<Source>) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if name.starts_with('.') || name == "target" || name.contains(".snap") {
            continue;
        }
        if entry.file_type().expect("a file type").is_dir() {
            collect(&entry.path(), &path, found);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            found.push(Source { path, text });
        }
    }
}
