//! `ATTN_CUDA_ARCHS="80;90a" cargo build` embeds the kernels of these expressions.

use attn::aot::{AotOptions, build_script};

fn main() {
    build_script(&AotOptions {
        variants: downstream_variants::variants(),
        expressions: &["strided(stride=1)"],
        head_dims: &[64],
        groups: &[4],
        ..AotOptions::default()
    });
}
