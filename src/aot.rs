//! Kernels embedded ahead of time, of expressions over the stock variants and formats and those of the caller.
pub use attn_kernels::aot::{AotError, AotOptions, AotReport, Prebuilt, archs, embedded, find, register};
use attn_variants::{kv_formats, variants};
/// Runs [`build`] in a build script: into `OUT_DIR`, with notes as warnings and errors as errors of cargo.
pub fn build_script(options: &AotOptions<'_>) {
    options.with_known(variants(), kv_formats::all(), attn_kernels::aot::build_script);
}
/// Compiles into a folder what [`include_prebuilt!`](crate::include_prebuilt) reads from `OUT_DIR`.
///
/// # Errors
/// A variant of the caller with the name of a stock variant; the errors of [`attn_kernels::aot::build`].
pub fn build(options: &AotOptions<'_>, out: &std::path::Path) -> Result<AotReport, AotError> {
    options.with_known(variants(), kv_formats::all(), |options| attn_kernels::aot::build(options, out))
}
