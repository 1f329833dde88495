//! `cargo xtask gpu-bundle --c`: the C programs of attn-c, for a machine without Rust.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use xshell::{Shell, cmd};

use super::files::{make_executable, size};

/// The programs, their sources in attn-c, and the libraries that they are linked to.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("paged_decode", "tests/c/paged_decode.c", "attn_c"),
    ("cpu_and_gpu", "tests/c/cpu_and_gpu.c", "attn_c"),
    ("device_plan", "tests/c/device_plan.c", "attn_c"),
    ("cascade", "tests/c/cascade.c", "attn_c"),
    ("sums", "tests/c/sums.c", "attn_c"),
    ("sampling", "tests/c/sampling.c", "attn_c"),
    ("verify", "tests/c/verify.c", "attn_c"),
    ("overhead", "benches/overhead.c", "overhead"),
];

const RUN: &str = r#"#!/usr/bin/env bash
# The C programs on a machine with a GPU; ATTN_NVRTC is the folder of NVRTC: ./run.sh
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export ATTN_CACHE_DIR="${ATTN_CACHE_DIR:-$work/cache}"
failed=()
for program in paged_decode cpu_and_gpu device_plan cascade sums sampling verify overhead overhead overhead; do
  echo "$program"
  "$here/$program" > "$work/out" 2> "$work/errors"
  code=$?
  cat "$work/out" "$work/errors"
  if [[ $code != 0 ]] || grep -q 'no GPU' "$work/out"; then failed+=("$program ($code)"); fi
done
echo "failed: ${failed[*]:-none}"
[[ ${#failed[@]} == 0 ]]
"#;

/// Builds the folder `target/gpu-c`.
pub(super) fn run(sh: &Shell, root: &Path, target: &Path) -> Result<()> {
    let (bundle, attn_c, release) = (target.join("gpu-c"), root.join("bindings/c"), target.join("release"));
    cmd!(sh, "cargo build --release -p attn-c --lib --example overhead").run()?;
    sh.remove_path(&bundle)?;
    sh.create_dir(&bundle)?;
    for library in [release.join("libattn_c.so"), release.join("examples/liboverhead.so")] {
        let to = bundle.join(library.file_name().context("a library has a name")?);
        cmd!(sh, "strip --strip-unneeded -o {to} {library}").quiet().run().context("`strip` is part of binutils")?;
    }
    let (include, tests) = (attn_c.join("include"), attn_c.join("tests/c"));
    for (name, source, library) in PROGRAMS {
        let (source, to, library) = (attn_c.join(source), bundle.join(name), format!("-l{library}"));
        let here = "-Wl,-rpath,$ORIGIN";
        cmd!(sh, "cc -std=c11 -O2 -s -I {include} -I {tests} {source} -o {to} -L {bundle} {library} {here} -lm -ldl")
            .run()?;
    }
    let script = bundle.join("run.sh");
    fs::write(&script, RUN)?;
    make_executable(&script)?;
    println!("{}: {:.1} MB", bundle.display(), size(&bundle)? as f64 / 1e6);
    Ok(())
}
