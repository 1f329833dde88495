use attn::lang::{AttentionVariant, KvIndex, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Given positions: under `remap`, positions come from tables.
///
/// Under `remap(positions(of_query=.., of_key=..), inner)` the hooks of `inner` see `of_query[qo_token]` and
/// `of_key[kv_token]` as positions: for the zig-zag chunks of ring attention (arXiv 2310.01889; striped, arXiv
/// 2311.09431) and for caches that dropped keys. Outside of `remap` it does nothing.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Positions {
    /// Position of each query token.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<i32>,
    /// Position of each key token.
    #[shape(kv_tokens)]
    pub of_key: Tensor1<i32>,
}

#[attention_variant(name = "positions")]
impl AttentionVariant for Positions {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        self.of_query[at.qo_token]
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        self.of_key[at.kv_token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_tables() {
        let positions = Positions { of_query: [7, 3].into(), of_key: [5, 9, 1].into() };
        assert_eq!(positions.remap_qo_pos(RowIndex { qo_token: 1, qo_pos: 20, ..RowIndex::default() }), 3);
        assert_eq!(positions.remap_kv_pos(KvIndex { kv_token: 2, kv_pos: 20, ..KvIndex::default() }), 1);
    }
}
