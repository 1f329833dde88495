//! Many sources for one device at once.

use super::all::{Attempt, Progress, all, attempt};
use super::for_device::{earlier_archs, source_for_device};
use super::{JitError, Ready, allowed};
use crate::cache::{CubinCache, Key};
use crate::compile::Arch;
use crate::splice::Unit;

type Source = Box<dyn Unit + Send>;

/// A source for a device, which can also be had for an earlier architecture.
pub(crate) struct DeviceSource {
    source: Source,
    /// The source for an architecture; `None` if there is none.
    build: Box<dyn Fn(Arch) -> Option<Source> + Send>,
    capability: (u32, u32),
}

impl DeviceSource {
    /// The source that [`source_for_device`] returns.
    pub(crate) fn new<S: Unit + Send + 'static, E>(
        capability: (u32, u32),
        build: impl Fn(Arch) -> Result<S, E> + Send + 'static,
    ) -> Result<Self, E> {
        let source = Box::new(source_for_device(capability, &build)?);
        let build = Box::new(move |arch| build(arch).ok().map(|source| Box::new(source) as Source));
        Ok(DeviceSource { source, build, capability })
    }

    /// As `attempt` says for the source. Where the compiler is older than the GPU, as it says for earlier
    /// architectures.
    fn attempt(&self, mut attempt: impl FnMut(&Source, &Key) -> Attempt, key: &Key) -> Attempt {
        let mut result = attempt(&self.source, key)?;
        for arch in earlier_archs(self.capability) {
            if !result.as_ref().is_err_and(JitError::is_of_unknown_arch) {
                break;
            }
            let Some(source) = (self.build)(arch) else { break };
            result = attempt(&source, &source.key())?;
        }
        Some(result)
    }
}

impl Unit for DeviceSource {
    fn text(&self) -> &str {
        self.source.text()
    }
    fn name(&self) -> &str {
        self.source.name()
    }
    fn arch(&self) -> Arch {
        self.source.arch()
    }
}

/// The cubins of many sources for a device, as [`obtain_all`](super::obtain_all) gives them. Where the compiler is
/// older than the GPU, cubins are for earlier minor versions, as those of
/// [`obtain_for_device`](super::obtain_for_device).
pub(crate) fn obtain_all_for_device(
    sources: Vec<DeviceSource>,
    threads: Option<usize>,
    progress: impl FnMut(Progress<'_>) + Send,
) -> Vec<Result<Ready<DeviceSource>, JitError>> {
    let (cache, may_compile) = (CubinCache::global(), allowed());
    let obtain = |source: &DeviceSource, key: &Key, wait: bool| {
        source.attempt(|source, key| attempt(cache, source, key, may_compile, wait), key)
    };
    all(sources, threads, obtain, progress)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Origin;
    use crate::compile::{CompileError, Compiled};

    #[derive(Debug)]
    struct Text(Arch);

    impl Unit for Text {
        fn text(&self) -> &str {
            "text"
        }
        fn name(&self) -> &str {
            "name"
        }
        fn arch(&self) -> Arch {
            self.0
        }
    }

    /// The architectures that were tried with a compiler that knows `known`, and the last result.
    fn tried(source: &DeviceSource, known: &[Arch]) -> (Vec<Arch>, Result<Origin, String>) {
        let mut tried = Vec::new();
        let attempt = |source: &Source, key: &Key| {
            let arch = source.arch();
            assert_eq!(*key, source.key());
            tried.push(arch);
            if known.contains(&arch) {
                let cubin = Compiled { cubin: vec![7].into(), log: String::new(), compiler: "test".into(), ms: 1.0 };
                return Some(Ok((Arc::new(cubin), Origin::Compiled)));
            }
            let (compiler, known) = ("test".to_owned(), Vec::new());
            Some(Err(CompileError::UnknownToCompiler { arch, compiler, known }.into()))
        };
        let result = source.attempt(attempt, &source.key()).expect("nothing is left for later");
        (tried, result.map(|(_, origin)| origin).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_gpu_newer_than_the_compiler_gets_a_cubin_of_an_earlier_version() {
        let source = DeviceSource::new((9, 2), |arch| Ok::<_, ()>(Text(arch))).expect("built");
        let exact = source.arch();
        let [v92, v91, v90] = [2, 1, 0].map(|minor| Arch::new(9, minor));
        assert_eq!(tried(&source, &[exact, v90]), (vec![exact], Ok(Origin::Compiled)));
        assert_eq!(tried(&source, &[v90]), (vec![exact, v92, v91, v90], Ok(Origin::Compiled)));
        let (all, result) = tried(&source, &[]);
        assert_eq!(all, [exact, v92, v91, v90]);
        result.expect_err("no version is known");
    }

    #[test]
    fn without_a_source_for_an_earlier_version_the_error_stays() {
        let source = DeviceSource::new((9, 1), |arch| if arch == Arch::new(9, 0) { Err(()) } else { Ok(Text(arch)) });
        let (all, result) = tried(&source.expect("built"), &[Arch::new(9, 0)]);
        assert_eq!(all.len(), 2, "{all:?}");
        result.expect_err("there is no kernel for 9.0");
    }
}
