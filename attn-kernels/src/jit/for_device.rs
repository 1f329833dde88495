//! The cubin of one source for a device.

use super::{JitError, Ready, obtain};
use crate::{compile::Arch, prebuilt, splice::Unit};

/// The source of a cubin for a device: of an embedded cubin of any architecture that runs there, or else for the exact
/// architecture. `build` returns the source for an architecture.
///
/// # Errors
///
/// Those of `build`.
pub fn source_for_device<S: Unit, E>((major, minor): (u32, u32), build: impl Fn(Arch) -> Result<S, E>) -> Result<S, E> {
    for arch in prebuilt::archs().into_iter().filter(|arch| arch.runs_on(major, minor)) {
        // a problem without a kernel on this architecture may have one on the exact architecture
        let Ok(source) = build(arch) else { continue };
        if prebuilt::find(&source.key()).is_some() {
            return Ok(source);
        }
    }
    build(Arch::for_device(major, minor))
}

/// The architectures that are tried where the compiler does not know that of a device, the latest first.
pub(super) fn earlier_archs((major, minor): (u32, u32)) -> impl Iterator<Item = Arch> {
    (0..=minor).rev().map(move |minor| Arch::new(major, minor))
}

/// The cubin for a device, of the source that [`source_for_device`] returns. Where the compiler is older than the GPU,
/// it is a cubin for an earlier minor version, which runs there too.
///
/// # Errors
///
/// The errors of [`obtain`].
pub fn obtain_for_device<S: Unit, E: From<JitError>>(
    capability: (u32, u32),
    build: impl Fn(Arch) -> Result<S, E>,
) -> Result<Ready<S>, E> {
    let mut ready = obtain(source_for_device(capability, &build)?);
    for arch in earlier_archs(capability) {
        if !ready.as_ref().is_err_and(JitError::is_of_unknown_arch) {
            break;
        }
        ready = obtain(build(arch)?);
    }
    Ok(ready?)
}
