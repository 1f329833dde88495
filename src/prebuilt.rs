//! The kernels that this crate's own build script embedded.

use std::sync::Once;

/// Makes them known; once is enough.
pub(crate) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| crate::include_prebuilt!());
}
