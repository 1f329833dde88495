//! The header is that of the source.

use std::{fs, path::Path};

#[test]
fn the_header_is_that_of_the_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bindings = cbindgen::generate(folder).expect("a source that C can use");
    let mut text = Vec::new();
    bindings.write(&mut text);
    let (text, path) = (String::from_utf8(text).expect("UTF-8"), folder.join("include/attn.h"));
    if std::env::var_os("ATTN_WRITE_HEADER").is_some() {
        fs::write(&path, &text).expect("written");
    }
    let header = fs::read_to_string(&path).unwrap_or_default();
    assert!(header == text, "include/attn.h is old: ATTN_WRITE_HEADER=1 cargo test -p attn-c --test header");
}
