//! nvcc, as a command: the alternative to NVRTC.

mod annotate;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fmt, fs};

use super::{Arch, CompileError, NoCompiler, options::NVCC_OPTIONS, version};

/// An nvcc that can be executed.
#[derive(Clone, Debug)]
pub struct Nvcc {
    path: PathBuf,
    version: String,
}

impl Nvcc {
    /// Finds nvcc: `ATTN_NVCC`, then the PATH, then `CUDA_HOME` and `CUDA_PATH`.
    ///
    /// # Errors
    ///
    /// The places that were searched.
    pub fn find() -> Result<Self, NoCompiler> {
        if let Some(named) = env::var_os("ATTN_NVCC").filter(|v| !v.is_empty()) {
            let path = PathBuf::from(named);
            return Self::at(path.clone())
                .ok_or_else(|| NoCompiler::one(format!("ATTN_NVCC={} does not run", path.display())));
        }
        let toolkits =
            ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(|r| PathBuf::from(r).join("bin/nvcc"));
        std::iter::once(PathBuf::from("nvcc"))
            .chain(toolkits)
            .find_map(Self::at)
            .ok_or_else(|| NoCompiler::one("nvcc is not in ATTN_NVCC, on the PATH, or under CUDA_HOME"))
    }

    fn at(path: PathBuf) -> Option<Self> {
        let output = Command::new(&path).arg("--version").output().ok().filter(|o| o.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let release = text.split("release ").nth(1)?;
        let version = version::of_release(release).or_else(|| release.split(',').next())?.to_owned();
        Some(Nvcc { path, version })
    }

    pub(super) fn compile(&self, name: &str, source: &str, arch: Arch) -> Result<(Vec<u8>, String), CompileError> {
        let failed =
            |reason: String| CompileError::Failed { name: name.to_owned(), compiler: self.to_string(), reason };
        let folder = TempFolder::new().map_err(|e| failed(format!("no temporary folder: {e}")))?;
        let (input, output) = (folder.0.join("unit.cu"), folder.0.join("unit.cubin"));
        fs::write(&input, annotate::device_functions(source)).map_err(|e| failed(e.to_string()))?;
        let run = Command::new(&self.path)
            .args(NVCC_OPTIONS)
            .args([&format!("-arch={arch}"), "-o"])
            .args([&output, &input])
            .output()
            .map_err(|e| failed(e.to_string()))?;
        let log = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        if !run.status.success() {
            return Err(CompileError::rejected(name, source, arch, self.to_string(), log));
        }
        Ok((fs::read(&output).map_err(|e| failed(e.to_string()))?, log))
    }
}

impl fmt::Display for Nvcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nvcc {}", self.version)
    }
}

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("attn-nvcc-{}-{unique}", std::process::id()));
        // what is compiled is code: nobody else may change it
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&dir)?;
        Ok(TempFolder(dir))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
