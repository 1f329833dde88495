//! Compilation of a translation unit to a cubin, by NVRTC in process or by nvcc.
//!
//! [`Compiler::find`] picks the compiler.
//! [`Compiler::compile`] returns a [`Compiled`], whose log contains registers and spills ([`Resources`]). The
//! [`cache`](crate::cache) is a module of its own.

mod arch;
mod code_key;
mod error;
mod log;
pub mod nvcc;
#[cfg(feature = "jit")]
pub mod nvrtc;
pub(crate) mod options;
mod version;

use std::{borrow::Cow, env};

pub use arch::{Arch, UnknownArch};
pub use error::{CompileError, NoCompiler};
pub use log::{Resources, parse_resources, wgmma_serialised};

/// A cubin with its compile log.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The image, as the driver loads it.
    pub cubin: Cow<'static, [u8]>,
    /// The log of the compiler.
    pub log: String,
    /// Name and exact version of the compiler, such as `NVRTC 13.0.88`.
    pub compiler: String,
    /// Compile time in milliseconds.
    pub ms: f64,
}

impl Compiled {
    /// Registers, spills and shared memory of every kernel, parsed from the log.
    pub fn resources(&self) -> Vec<Resources> {
        parse_resources(&self.log)
    }

    /// A hash of what a GPU executes: instructions, constants, registers, spills and shared memory of each kernel,
    /// without names; 64 hexadecimal digits. Texts that compile to the same code have one. `None` if this is no cubin.
    pub fn code_key(&self) -> Option<String> {
        code_key::of(&self.cubin, &self.resources())
    }
}

/// A compiler that was found.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// NVRTC, in this process.
    #[cfg(feature = "jit")]
    Nvrtc(&'static nvrtc::Nvrtc),
    /// nvcc, as a command.
    Nvcc(nvcc::Nvcc),
}

impl Compiler {
    /// The compiler to use: what `ATTN_COMPILER` names (`nvrtc`, `nvcc`), else NVRTC, else nvcc.
    ///
    /// # Errors
    ///
    /// If there is none: the places that were searched, and how to get one.
    pub fn find() -> Result<Self, NoCompiler> {
        match env::var("ATTN_COMPILER").as_deref() {
            Ok("nvrtc") => find_nvrtc(),
            Ok("nvcc") => find_nvcc(),
            Ok("") | Err(_) => find_nvrtc().or_else(|nvrtc| find_nvcc().map_err(|nvcc| nvrtc.and(nvcc))),
            Ok(other) => Err(NoCompiler::unknown(other)),
        }
    }

    /// Name and version.
    pub fn name(&self) -> String {
        match self {
            #[cfg(feature = "jit")]
            Compiler::Nvrtc(nvrtc) => nvrtc.to_string(),
            Compiler::Nvcc(nvcc) => nvcc.to_string(),
        }
    }

    /// Name and exact version, which [`Compiled::compiler`] has too. NVRTC compiles an empty kernel for it, once a
    /// process, in about 20 ms.
    pub fn exact_name(&self) -> String {
        match self {
            #[cfg(feature = "jit")]
            Compiler::Nvrtc(nvrtc) => nvrtc.exact_name().to_owned(),
            Compiler::Nvcc(nvcc) => nvcc.to_string(),
        }
    }

    /// Compiles a self-contained translation unit; messages call it `name`.
    ///
    /// # Errors
    ///
    /// [`CompileError`] with the compiler's log.
    pub fn compile(&self, name: &str, source: &str, arch: Arch) -> Result<Compiled, CompileError> {
        let started = std::time::Instant::now();
        let (cubin, log, compiler) = match self {
            #[cfg(feature = "jit")]
            Compiler::Nvrtc(nvrtc) => {
                let (cubin, log) = nvrtc.compile(name, source, arch)?;
                let compiler = nvrtc.name_in(&cubin);
                (cubin, log, compiler)
            }
            Compiler::Nvcc(nvcc) => {
                let (cubin, log) = nvcc.compile(name, source, arch)?;
                (cubin, log, nvcc.to_string())
            }
        };
        let ms = started.elapsed().as_secs_f64() * 1e3;
        tracing::debug!(name, %arch, ms, bytes = cubin.len(), "compiled");
        Ok(Compiled { cubin: cubin.into(), log, compiler, ms })
    }
}

#[cfg(feature = "jit")]
fn find_nvrtc() -> Result<Compiler, NoCompiler> {
    Ok(Compiler::Nvrtc(nvrtc::Nvrtc::find()?))
}

#[cfg(not(feature = "jit"))]
fn find_nvrtc() -> Result<Compiler, NoCompiler> {
    Err(NoCompiler::without_jit())
}

fn find_nvcc() -> Result<Compiler, NoCompiler> {
    Ok(Compiler::Nvcc(nvcc::Nvcc::find()?))
}
