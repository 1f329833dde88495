//! `cargo xtask gpu-bundle --tests`: the tests that need a GPU, as programs for a machine without Rust.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use xshell::{Shell, cmd};

use super::files::{make_executable, size};

/// Bytes that the folder may have.
const LIMIT: u64 = 64 << 20;
/// The packages that have tests on a GPU.
const PACKAGES: [&str; 3] = ["attn-kernels", "attn-tests", "generate"];
/// Tests that run on the CPU and, where there is one, on a GPU, and the folders of their packages. Those on a GPU alone
/// are named `*_gpu`.
const ON_BOTH: [(&str, &str); 7] = [
    ("examples/generate", "engine"),
    ("examples/generate", "streaming"),
    ("tests", "graph"),
    ("tests", "growing"),
    ("tests", "language_kernels"),
    ("tests", "supports"),
    ("tests", "transformers"),
];
/// Folders and files that tests read by the path of the checkout.
const DATA: [&str; 2] = ["tests/data", "examples/data"];

const RUN: &str = r#"#!/usr/bin/env bash
# Runs tests that need a GPU: ./run-tests.sh [PROGRAM..] [-- ARGUMENTS], for example ./run-tests.sh ops_gpu -- rotate
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
  start=$SECONDS
  if timeout "${ATTN_TEST_TIMEOUT:-300}" "$work/$name" "$@" > "$work/log" 2>&1; then result=ok; else result=FAILED; fi
  echo "$name: $result, $((SECONDS - start)) s; $(grep '^test result' "$work/log" | tail -n 1)"
  if [[ $result != ok ]]; then
    failed+=("$name")
    grep -E '^test .*FAILED|panicked at' -A 4 "$work/log" | head -n "${ATTN_TEST_LINES:-60}"
  fi
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
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let tests = ON_BOTH.iter().flat_map(|(_, test)| ["--test", test]);
    let lines = cmd!(sh, "cargo test --no-run --message-format=json-render-diagnostics --test *_gpu")
        .args(packages)
        .args(tests)
        .read()
        .context("building the tests")?;
    let programs = chosen(&lines, only)?;
    for (name, path) in &programs {
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

/// The test programs that cargo built, by name.
fn chosen(lines: &str, only: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let mut programs = Vec::new();
    for line in lines.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let target = &message["target"];
        let (Some(name), Some(path)) = (target["name"].as_str(), message["executable"].as_str()) else { continue };
        let folder =
            message["manifest_path"].as_str().and_then(|path| Path::new(path).parent()).unwrap_or(Path::new(""));
        // packages may have other tests of the same name
        let wanted = name.ends_with("_gpu") || ON_BOTH.iter().any(|(of, test)| name == *test && folder.ends_with(of));
        if target["kind"][0] == "test" && wanted {
            programs.push((name.to_owned(), PathBuf::from(path)));
        }
    }
    programs.sort();
    if let Some(pair) = programs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        bail!("two tests are called {}: name one of them otherwise", pair[0].0);
    }
    let names: Vec<String> = programs.iter().map(|(name, _)| name.clone()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("no test is called {unknown}; there are: {}", names.join(", "));
    }
    programs.retain(|(name, _)| only.is_empty() || only.contains(name));
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
            message("test", "b_gpu"),
            message("bin", "attn"),
            message("test", "a_gpu"),
            message("test", "engine"),
            of_package("examples/generate", "test", "engine"),
            "no JSON".to_owned(),
        ];
        let lines = lines.join("\n");
        let names = |only: &[&str]| -> Result<Vec<String>, String> {
            let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
            let programs = chosen(&lines, &only).map_err(|error| error.to_string())?;
            Ok(programs.into_iter().map(|(name, _)| name).collect())
        };
        assert_eq!(names(&[]), Ok(["a_gpu", "b_gpu", "engine"].map(str::to_owned).to_vec()));
        assert_eq!(names(&["b_gpu"]), Ok(vec!["b_gpu".to_owned()]));
        let error = names(&["c_gpu"]).expect_err("unknown");
        assert!(error.contains("c_gpu") && error.contains("a_gpu, b_gpu"), "{error}");
        let twice = format!("{lines}\n{}", message("test", "a_gpu"));
        assert!(chosen(&twice, &[]).expect_err("ambiguous").to_string().contains("a_gpu"));
    }
}
