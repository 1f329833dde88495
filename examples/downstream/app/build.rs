//! `ATTN_CUDA_ARCHS="80;90a" cargo build` embeds the kernels of these expressions.

fn main() {
    attn::aot::Aot::new(downstream_variants::variants())
        .expressions(["strided(stride=1)"])
        .head_dims([64])
        .groups([4])
        .build_script();
}
