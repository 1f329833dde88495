//! Kernels that the build script of this crate embedded.

use std::sync::Once;

/// Registers the kernels that were embedded while `attn-rs` itself was built (`ATTN_CUDA_ARCHS`).
///
/// [`Engine::cuda`](crate::Engine::cuda) does this. Call it only to list or compile kernels without an engine.
pub fn register_embedded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| crate::include_prebuilt!());
}
