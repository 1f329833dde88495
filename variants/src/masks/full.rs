use attn::lang::AttentionVariant;
use attn::{VariantParams, attention_variant};

/// Full attention: every query attends to every key; the identity of composition.
///
/// `O = softmax(q k^T * sm_scale) v` ("Attention Is All You Need", arXiv 1706.03762).
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Full;

#[attention_variant(name = "full")]
impl AttentionVariant for Full {}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::Variant;
    use attn::lang::{Tile, TileClass};

    #[test]
    fn full_is_the_identity_of_composition() {
        assert_eq!(Variant::from(Full), Variant::full());
        assert_eq!(attn::compose!(Full, crate::Causal), Variant::from(crate::Causal));
        assert_eq!(Variant::from(Full).tile_class(Tile::default()), TileClass::Full);
    }
}
