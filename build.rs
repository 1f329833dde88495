//! Embeds kernels for `ATTN_CUDA_ARCHS` (for example `80;90a;120`, or `native`; unset: none).
//!
//! What is embedded by default takes well under a minute for two architectures on two cores; `ATTN_AOT_EXPRS`,
//! `ATTN_AOT_HEAD_DIMS` and `ATTN_AOT_DTYPES` name others.

use attn_kernels::aot::{AotOptions, build_script};

/// The variants of most models.
const EXPRESSIONS: [&str; 4] =
    ["causal", "causal + sliding_window(window=1)", "causal + soft_cap(cap=1)", "causal + alibi"];

fn main() {
    // `ATTN_AOT_KV_FORMATS` names them, also without `inventory`
    attn_core::registry::register_kv_formats(attn_variants::kv_formats::all()).expect("no two share a name");
    build_script(&AotOptions {
        variants: attn_variants::variants(),
        expressions: &EXPRESSIONS,
        groups: &[1, 4, 8],
        // a build without the CUDA backend has nothing to embed for
        archs: if std::env::var_os("CARGO_FEATURE_CUDA").is_some() { None } else { Some(&[]) },
        env: true,
        ..AotOptions::default()
    });
}
