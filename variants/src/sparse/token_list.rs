use attn::lang::{AttentionVariant, RowIndex, Tensor1, Tensor2};
use attn::{VariantParams, attention_variant};

/// Token list: each query attends to the keys that its own list names, and reads no others.
///
/// Attends to the keys at positions `tokens[qo_token, n]`, `n < count[qo_token]`, in any order, each at most once, for
/// all heads alike. These are the top keys of an indexer, as in DeepSeek sparse attention (arXiv 2512.02556), which
/// takes 2048. Compose it with `causal` if the indexer may name later keys.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct TokenList {
    /// Capacity of a list, in keys.
    #[require(max_tokens >= 1)]
    pub max_tokens: i32,
    /// The lists: key positions. The caller names no key twice in a list, which is not checked.
    #[shape(qo_tokens, max_tokens)]
    #[require(tokens.as_slice().iter().all(|&token| token >= 0))]
    pub tokens: Tensor2<i32>,
    /// Length of each list.
    #[shape(qo_tokens)]
    #[require(count.as_slice().iter().all(|&n| n >= 0 && n <= max_tokens))]
    pub count: Tensor1<i32>,
}

#[attention_variant(name = "token_list")]
impl AttentionVariant for TokenList {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        self.count[at.qo_token]
    }

    // a block is one key: the default of `kv_list_block_size`
    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        self.tokens[[at.qo_token, n]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_its_own_list() {
        let tokens = Tensor2::new(vec![7, 3, 0, 5], [2, 2]).expect("four");
        let list = TokenList { max_tokens: 2, tokens, count: Tensor1::from([2, 1]) };
        let keys = |qo_token| -> Vec<i32> {
            let at = RowIndex { qo_token, ..RowIndex::default() };
            (0..list.kv_list_len(at)).map(|n| list.kv_list_block(at, n)).collect()
        };
        assert_eq!([keys(0), keys(1)], [vec![7, 3], vec![0]]);
        assert_eq!((list.kv_list_block_size(), list.kv_list_queries()), (1, 1));
    }
}
