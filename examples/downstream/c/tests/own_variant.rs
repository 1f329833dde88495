//! A C program that names a variant of this library.

use std::{path::Path, process::Command};

use attn_needs::{Need, has};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>

#include "attn.h"

int main(void) {
  int own = 0;
  for (size_t i = 0; i < attn_variant_count(); ++i) own += strcmp(attn_variant_name(i), "strided") == 0;
  AttnStatus both = attn_variant_check("causal + strided(stride=16, local=5)");
  if (own != 1 || both != ATTN_STATUS_OK) {
    printf("%d %d %s\n", own, (int)both, attn_last_error());
    return 1;
  }
  return attn_variant_check("strided(stride=0)") == ATTN_STATUS_INVALID_VARIANT ? 0 : 2;
}
"#;

#[test]
fn c_programs_name_variants_of_this_library() {
    if !has(Need::Cxx, Command::new("cc").arg("--version").output().map(drop)) {
        return;
    }
    let program = std::env::current_exe().expect("this test");
    let (libraries, folder) = (program.parent().expect("its folder"), tempfile::tempdir().expect("a folder"));
    let (source, binary) = (folder.path().join("own.c"), folder.path().join("own"));
    std::fs::write(&source, PROGRAM).expect("written");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/c/include");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include).arg(&source).arg("-o").arg(&binary);
    let libraries = libraries.display();
    command.args([format!("-L{libraries}"), "-ldownstream_c".into(), format!("-Wl,-rpath,{libraries}")]);
    let compiled = command.output().expect("a compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let ran = Command::new(&binary).output().expect("a program");
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}
