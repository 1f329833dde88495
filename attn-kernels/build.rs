//! Embeds the CUDA templates: a table with the path below `cuda/` and the text of every `cuda/**/*.cuh`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() {
    println!("cargo::rerun-if-changed=cuda");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("cuda");
    let mut files = Vec::new();
    headers_below(&root, &mut files).expect("the templates are part of the package");
    files.sort();
    let mut table = String::from("&[\n");
    for path in files {
        let below = path.strip_prefix(&root).expect("it was found there");
        let name = below.to_str().expect("ASCII names").replace('\\', "/");
        // relative to the package, so that checkouts that share a target directory do not read each other's templates
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/cuda/{name}\"))");
        writeln!(table, "    ({name:?}, {text}),").expect("a String takes text");
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("templates.rs"), table).expect("OUT_DIR can be written");
}

/// Collects the headers in a folder and below.
fn headers_below(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            headers_below(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "cuh") {
            files.push(path);
        }
    }
    Ok(())
}
