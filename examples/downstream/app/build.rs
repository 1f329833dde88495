//! `ATTN_CUDA_ARCHS="80;90a" cargo build` embeds the kernels of these expressions.

use attn::aot::{AotOptions, build_script};

fn main() {
    build_script(&AotOptions {
        variants: downstream_variants::variants(),
        // stock variants are always known
        expressions: &["strided(stride=1)", "soft_cap(cap=1) + strided(stride=1)"],
        head_dims: &[64],
        groups: &[4],
        ..AotOptions::default()
    });
}
