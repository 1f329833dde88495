//! Embeds the CUDA templates: every `cuda/*.cuh` becomes an entry (name, text) of a table.

use std::{env, fmt::Write as _, fs, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=cuda");
    let dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("cuda");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .expect("the templates are part of the package")
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|e| e == "cuh"))
        .collect();
    files.sort();
    let mut table = String::from("&[\n");
    for path in files {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        writeln!(table, "    ({name:?}, include_str!({path:?})),").expect("a String takes text");
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("templates.rs"), table).expect("OUT_DIR can be written");
}
