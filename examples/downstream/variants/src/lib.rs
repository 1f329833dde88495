//! Variants of a downstream project, in a crate of their own, so that a build script can depend on them.

use attn::prelude::*;

mod near_bias;

pub use near_bias::NearBias;

/// Attention to earlier keys in strides: every `stride`-th key back from the query, and the `local` nearest.
///
/// The strided pattern of Sparse Transformers (arXiv 1904.10509, section 4.2), causal.
#[derive(Clone, Debug, VariantParams)]
pub struct Strided {
    /// Distance between far keys.
    #[require(stride > 0)]
    pub stride: i32,
    /// Keys nearest to the query that are all attended to.
    #[default(32)]
    #[require(local > 0)]
    pub local: i32,
}

#[attention_variant(name = "strided")]
impl AttentionVariant for Strided {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let back = at.qo_pos - at.kv_pos;
        back >= 0 && (back < self.local || back % self.stride == 0)
    }
}

/// The variants of this crate, for build scripts and for programs that turn `inventory` off.
#[must_use]
pub fn variants() -> &'static [&'static attn::lang::VariantDesc] {
    attn::variants![NearBias, Strided]
}

#[cfg(test)]
mod tests {
    use super::{NearBias, Strided};
    use attn::prelude::*;

    attn_testing::variant_test!(strided: Strided { stride: 16, local: 5 });
    attn_testing::variant_test!(strided_with_a_cap:
        compose!(Strided { stride: 7, local: 1 }, attn::stock::SoftCap { cap: 20.0 }));

    /// The CUDA of the variants, under version control in `snapshots`.
    #[test]
    fn cuda() {
        attn_testing::cuda_snapshot!("strided", Strided { stride: 16, local: 5 });
        let near = NearBias { reach: 100, start: Tensor1::unset(), bias: Tensor2::unset() };
        attn_testing::cuda_snapshot!("near_bias", near);
    }

    /// The guide shows the files that are compiled and tested here.
    #[test]
    fn the_guide_shows_these_files() {
        let guide = include_str!("../../../../book/src/guide/write-a-variant.md");
        assert!(guide.contains(include_str!("near_bias.rs")), "the guide and `near_bias.rs` differ");
        let (_, step) =
            include_str!("../examples/step.rs").split_once("my_variants;\n\n").expect("a name for the crate");
        assert!(guide.contains(step), "the guide and `step.rs` differ");
    }
}
