//! The compilation of sources, and the files that a program embeds.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::AotError;
use crate::cache::{CubinCache, Key, Origin};
use crate::compile::{Arch, Compiled};
use crate::jit::{self, JitError, Ready};
use crate::splice::Unit;

/// A cubin to embed.
#[derive(Clone)]
pub(super) struct Cubin {
    key: Key,
    name: String,
    arch: Arch,
    pub(super) compiled: Arc<Compiled>,
    pub(super) origin: Origin,
}

/// Compiles each distinct source, on all cores.
pub(super) fn compile_all(cache: &CubinCache, sources: Vec<Box<dyn Unit + Send>>) -> Result<Vec<Cubin>, AotError> {
    let cubin = |ready: Result<Ready<Box<dyn Unit + Send>>, JitError>| {
        let Ready { source, compiled, origin } = ready?;
        Ok(Cubin { key: source.key(), name: source.name().to_owned(), arch: source.arch(), compiled, origin })
    };
    jit::build_all(cache, sources).into_iter().map(cubin).collect()
}

/// Writes the table as Rust code, and the cubins beside it.
pub(super) fn write(out: &Path, built: &[Cubin]) -> Result<(), AotError> {
    let put = |path: PathBuf, bytes: &[u8]| fs::write(&path, bytes).map_err(|source| AotError::Write { path, source });
    let dir = out.join("attn_aot");
    fs::create_dir_all(&dir).map_err(|source| AotError::Write { path: dir.clone(), source })?;
    let mut table = String::from("&[\n");
    for Cubin { key, name, arch, compiled, .. } in built {
        let (key, arch) = (key.to_string(), arch.to_string());
        let path = dir.join(format!("{key}.cubin"));
        let Compiled { compiler, log, cubin, .. } = &**compiled;
        // writing into a String does not fail
        let _ = writeln!(
            table,
            "    ::attn::aot::Prebuilt {{ key: {key:?}, name: {name:?}, arch: {arch:?}, compiler: {compiler:?}, log: \
             {log:?}, \
             cubin: include_bytes!({path:?}) }},"
        );
        put(path, cubin)?;
    }
    table.push_str("]\n");
    put(out.join("attn_aot.rs"), table.as_bytes())
}
