//! `cargo xtask gpu-bundle --tests`: the tests that need a GPU, as programs for a machine without Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use xshell::{Shell, cmd};

use super::files::{make_executable, size};

/// Bytes that the folder may have.
const LIMIT: u64 = 64 << 20;
/// The programs with tests on a GPU: the package, its folder, the program, and the modules of these tests.
const PROGRAMS: [(&str, &str, &str, &str); 13] = [
    ("attn-kernels", "attn-kernels", "gpu", ""),
    ("attn-tests", "tests", "formats", "gpu::"),
    ("attn-tests", "tests", "indexer", "gpu::"),
    ("attn-tests", "tests", "kernels", "case_kernels_gpu:: outputs_gpu::"),
    ("attn-tests", "tests", "language", "kernels::"),
    ("attn-tests", "tests", "models", "outputs::"),
    ("attn-tests", "tests", "ops", "gpu::"),
    ("attn-tests", "tests", "plan", "prepare_gpu:: row_invariance_gpu:: supports::"),
    ("attn-tests", "tests", "sampling", "gpu:: verify_gpu::"),
    ("attn-tests", "tests", "serving", "raw_gpu:: order_gpu:: graph:: growing::"),
    ("generate", "examples/generate", "cuda_gpu", ""),
    ("generate", "examples/generate", "engine", ""),
    ("generate", "examples/generate", "streaming", ""),
];
/// Folders and files that tests read by the path of the checkout.
const DATA: [&str; 2] = ["tests/data", "examples/data"];

const RUN: &str = r#"#!/usr/bin/env bash
# Runs tests that need a GPU: ./run-tests.sh [PROGRAM..] [-- ARGUMENTS], for example ./run-tests.sh ops -- gpu::rotate
# A test that lacks NVRTC or a GPU fails. ATTN_TEST_TIMEOUT: seconds that a program may take (default 300).
set -uo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export ATTN_TEST_REQUIRE="${ATTN_TEST_REQUIRE-nvrtc,gpu}"
export ATTN_TEST_SKIPS="$work/skips"
export ATTN_CACHE_DIR="${ATTN_CACHE_DIR:-$work/cache}"
export RUST_BACKTRACE="${RUST_BACKTRACE-0}"
# tests read their data by the path of the checkout that they were built in
root="@ROOT@"
if [[ ! -e $root ]]; then
  mkdir -p "$(dirname "$root")" && ln -s "$here/root" "$root"
fi

programs=()
while [[ $# -gt 0 && $1 != -- ]]; do programs+=("$1"); shift; done
[[ $# -gt 0 ]] && shift
if [[ ${#programs[@]} == 0 ]]; then
  for file in "$here"/programs/*.gz; do programs+=("$(basename "$file" .gz)"); done
fi
failed=()
for name in "${programs[@]}"; do
  gzip -dc "$here/programs/$name.gz" > "$work/$name" && chmod +x "$work/$name" || { failed+=("$name"); continue; }
  # without arguments: the tests that need a GPU; each module has a process, since some count what a process compiles
  if [[ $# == 0 ]]; then read -ra modules < "$here/programs/$name.modules" || true; else modules=("$*"); fi
  for module in "${modules[@]:-}"; do
    start=$SECONDS
    result=ok
    read -ra filters <<< "$module"
    timeout "${ATTN_TEST_TIMEOUT:-300}" "$work/$name" "${filters[@]}" > "$work/log" 2>&1 || result=FAILED
    echo "$name $module: $result, $((SECONDS - start)) s; $(grep '^test result' "$work/log" | tail -n 1)"
    if [[ $result != ok ]]; then
      failed+=("$name $module")
      grep -E '^test .*FAILED|panicked at' -A 4 "$work/log" | head -n "${ATTN_TEST_LINES:-60}"
    fi
  done
  rm -f "$work/$name"
done
for file in "$work"/skips/*; do
  [[ -e $file ]] && echo "skipped: needs $(basename "$file" | cut -d. -f1): $(cat "$file")"
done | sort -u
echo "${#programs[@]} programs, ${#failed[@]} failed: ${failed[*]:-none}"
[[ ${#failed[@]} == 0 ]]
"#;

/// Builds the folder `target/gpu-tests`; of the tests named `only`, if there are any.
pub(super) fn run(sh: &Shell, root: &Path, target: &Path, only: &[String]) -> Result<()> {
    let bundle = target.join("gpu-tests");
    sh.remove_path(&bundle)?;
    sh.create_dir(bundle.join("programs"))?;
    let tests = PROGRAMS.iter().flat_map(|(package, _, program, _)| ["-p", package, "--test", program]);
    let lines = cmd!(sh, "cargo test --no-run --message-format=json-render-diagnostics")
        .args(tests)
        .read()
        .context("building the tests")?;
    let programs = chosen(&lines, only)?;
    for (name, path, modules) in &programs {
        fs::write(bundle.join("programs").join(format!("{name}.modules")), format!("{modules}\n"))?;
        let to = bundle.join("programs").join(name);
        cmd!(sh, "strip --strip-all -o {to} {path}").quiet().run().context("`strip` is part of binutils")?;
        cmd!(sh, "gzip -9 {to}").quiet().run()?;
    }
    for folder in DATA {
        let to = bundle.join("root").join(folder);
        sh.create_dir(&to)?;
        for entry in fs::read_dir(root.join(folder))? {
            let from = entry?.path();
            if from.extension().is_some_and(|x| x == "safetensors") {
                sh.copy_file(&from, &to)?;
            }
        }
    }
    let script = bundle.join("run-tests.sh");
    fs::write(&script, RUN.replace("@ROOT@", root.to_str().context("a path in UTF-8")?))?;
    make_executable(&script)?;
    let bytes = size(&bundle)?;
    println!("{}: {} programs, {:.1} MB", bundle.display(), programs.len(), bytes as f64 / 1e6);
    if bytes > LIMIT {
        bail!("the folder has {bytes} bytes, more than {LIMIT}; take a part of the tests with --only NAME");
    }
    Ok(())
}

/// The test programs that cargo built: their names, files, and the modules that need a GPU.
fn chosen(lines: &str, only: &[String]) -> Result<Vec<(String, PathBuf, &'static str)>> {
    let mut programs = Vec::new();
    for line in lines.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let target = &message["target"];
        let (Some(name), Some(path)) = (target["name"].as_str(), message["executable"].as_str()) else { continue };
        let folder =
            message["manifest_path"].as_str().and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""));
        // packages may have other tests of the same name
        let wanted = PROGRAMS.iter().find(|(_, of, program, _)| name == *program && folder.ends_with(of));
        if let Some((.., modules)) = wanted.filter(|_| target["kind"][0] == "test") {
            programs.push((name.to_owned(), PathBuf::from(path), *modules));
        }
    }
    programs.sort();
    let names: Vec<String> = programs.iter().map(|(name, ..)| name.clone()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("no test is called {unknown}; there are: {}", names.join(", "));
    }
    programs.retain(|(name, ..)| only.is_empty() || only.contains(name));
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::chosen;

    fn message(kind: &str, name: &str) -> String {
        of_package("tests", kind, name)
    }

    fn of_package(folder: &str, kind: &str, name: &str) -> String {
        format!(
            r#"{{"manifest_path":"/r/{folder}/Cargo.toml","target":{{"kind":["{kind}"],"name":"{name}"}},
            "executable":"/t/{name}-1"}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn tests_are_chosen_by_name() {
        let lines = [
            message("test", "sampling"),
            message("bin", "attn"),
            message("test", "ops"),
            message("test", "engine"),
            of_package("examples/generate", "test", "engine"),
            "no JSON".to_owned(),
        ];
        let lines = lines.join("\n");
        let names = |only: &[&str]| -> Result<Vec<String>, String> {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let programs = chosen(&lines, &only).map_err(|error| error.to_string())?;
            Ok(programs.into_iter().map(|(name, ..)| name).collect())
        };
        assert_eq!(names(&[]), Ok(["engine", "ops", "sampling"].map(str::to_owned).to_vec()));
        assert_eq!(names(&["ops"]), Ok(vec!["ops".to_owned()]));
        let error = names(&["cpu"]).expect_err("unknown");
        assert!(error.contains("cpu") && error.contains("engine, ops"), "{error}");
    }
}
