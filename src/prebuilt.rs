//! The kernels that this crate's own build script embedded.

use std::sync::Once;

/// Makes the kernels known that were embedded while `attn-rs` itself was built (`ATTN_CUDA_ARCHS`).
///
/// [`Engine::cuda`](crate::Engine::cuda) does this; only who lists or compiles kernels without an engine needs to.
pub fn register_embedded() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| crate::include_prebuilt!());
}
