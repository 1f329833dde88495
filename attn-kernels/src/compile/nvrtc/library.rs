//! The NVRTC library that was found: its version, the architectures that it knows, and compilation by it.

use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::{fmt, ptr};

use super::api::{self, Api, Program, SUCCESS};
use crate::compile::{Arch, CompileError, options::NVRTC_OPTIONS, version};

/// The first version of NVRTC that uses the driver's cache by default. We pass `--no-cache`: our own cache suffices and
/// can be turned off, and measured compile times stay meaningful.
const DRIVER_CACHE_SINCE: (i32, i32) = (12, 9);

/// NVRTC in a shared library, which stays loaded for the life of the process.
pub struct Nvrtc {
    api: Api,
    path: PathBuf,
    version: (i32, i32),
    archs: Vec<i32>,
    exact_name: OnceLock<String>,
}

impl Nvrtc {
    /// The path of the library; a bare name if it was found on the loader's path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Its version, such as (13, 0).
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Whether it knows the architecture.
    pub fn knows(&self, arch: Arch) -> bool {
        self.archs.contains(&((arch.major() * 10 + arch.minor()) as i32))
    }

    /// Its name with the version that its cubins name.
    pub(in crate::compile) fn exact_name(&self) -> &str {
        let probe = || {
            let arch = self.archs.iter().max().map(|&arch| Arch::new(arch as u32 / 10, arch as u32 % 10));
            let compiled = arch.and_then(|arch| self.compile("version", "__global__ void version() {}", arch).ok());
            compiled.map_or_else(|| self.to_string(), |(cubin, _)| self.name_in(&cubin))
        };
        self.exact_name.get_or_init(probe)
    }

    /// The name with the version that a cubin of this library names; without one, that of the library.
    pub(in crate::compile) fn name_in(&self, cubin: &[u8]) -> String {
        version::of_cubin(cubin).map_or_else(|| self.to_string(), |version| format!("NVRTC {version}"))
    }

    pub(super) fn open(path: PathBuf, api: Api) -> Result<Self, String> {
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: both outputs are valid for writes.
        api.check(unsafe { (api.version)(&raw mut major, &raw mut minor) })?;
        // SAFETY: the output is valid for writes.
        api.check(unsafe { (api.num_archs)(&raw mut count) })?;
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: NVRTC writes `count` numbers, which is the length of the vector.
        api.check(unsafe { (api.archs)(archs.as_mut_ptr()) })?;
        Ok(Nvrtc { api, path, version: (major, minor), archs, exact_name: OnceLock::new() })
    }

    /// Compiles to a cubin; returns it with the log.
    pub(in crate::compile) fn compile(
        &self,
        name: &str,
        source: &str,
        arch: Arch,
    ) -> Result<(Vec<u8>, String), CompileError> {
        if !self.knows(arch) {
            let known = self.archs.iter().map(|a| format!("sm_{a}")).collect();
            return Err(CompileError::UnknownToCompiler { arch, compiler: self.to_string(), known });
        }
        let failed =
            |reason: String| CompileError::Failed { name: name.to_owned(), compiler: self.to_string(), reason };
        let text = CString::new(source).map_err(|_| failed("the source holds a NUL byte".into()))?;
        let file = CString::new(name.replace('\0', " ")).map_err(|e| failed(e.to_string()))?;
        let arch_option = format!("--gpu-architecture={arch}");
        let options: Vec<CString> = NVRTC_OPTIONS
            .iter()
            .copied()
            .chain([arch_option.as_str()])
            .chain((self.version >= DRIVER_CACHE_SINCE).then_some("--no-cache"))
            .map(CString::new)
            .collect::<Result<_, _>>()
            .map_err(|e| failed(e.to_string()))?;
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();

        let program = OpenProgram::new(&self.api, &text, &file).map_err(failed)?;
        // SAFETY: the program is open, and the options are NUL-terminated and outlive the call.
        let code = unsafe { (self.api.compile)(program.raw, options.len() as c_int, options.as_ptr()) };
        let log = program.log();
        match code {
            SUCCESS => Ok((program.cubin().map_err(failed)?, log)),
            api::COMPILATION => Err(CompileError::rejected(name, source, arch, self.to_string(), log)),
            code => Err(failed(format!("{}\n{log}", self.api.message(code)))),
        }
    }
}

impl fmt::Display for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{}", self.version.0, self.version.1)
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} at {}", self.path.display())
    }
}

/// A program that is destroyed on drop.
struct OpenProgram<'a> {
    api: &'a Api,
    raw: Program,
}

impl<'a> OpenProgram<'a> {
    fn new(api: &'a Api, text: &CString, name: &CString) -> Result<Self, String> {
        let mut raw: Program = ptr::null_mut();
        // SAFETY: text and name are NUL-terminated, NVRTC copies them; there are no headers.
        let code = unsafe { (api.create)(&raw mut raw, text.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null()) };
        api.check(code)?;
        Ok(OpenProgram { api, raw })
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is open; the output is valid for writes.
        if unsafe { (self.api.log_size)(self.raw, &raw mut size) } != SUCCESS || size == 0 {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: NVRTC writes `size` bytes, which is the length of the vector.
        if unsafe { (self.api.log)(self.raw, log.as_mut_ptr().cast()) } != SUCCESS {
            return String::new();
        }
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the program is open; the output is valid for writes.
        self.api.check(unsafe { (self.api.cubin_size)(self.raw, &raw mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: NVRTC writes `size` bytes, which is the length of the vector.
        self.api.check(unsafe { (self.api.cubin)(self.raw, cubin.as_mut_ptr().cast()) })?;
        if cubin.is_empty() { Err("it gave an empty cubin".into()) } else { Ok(cubin) }
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is open and is not used afterwards.
        unsafe { (self.api.destroy)(&raw mut self.raw) };
    }
}
