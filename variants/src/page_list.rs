use attn::lang::{AttentionVariant, RowIndex, Tensor2, Tensor3};
use attn::{VariantParams, attention_variant};

/// Page list: each KV head attends to the pages of keys that a list names, and reads no others.
///
/// Keys are those of the blocks `pages[batch, kv_head, n]` of `page_size` keys, `n < count[batch, kv_head]`, in any order, each once;
/// all queries of a request share the list. Quest chooses pages for a decoding query by a bound on their logits (arXiv
/// 2406.10774). Blocks count positions of the request, not memory: a paged cache may have pages of another size.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PageList {
    /// Keys of a page.
    #[require(page_size >= 1)]
    pub page_size: i32,
    /// Pages that a list has room for.
    #[require(max_pages >= 1)]
    pub max_pages: i32,
    /// The lists.
    #[shape(batch, kv_heads, max_pages)]
    #[require(pages.as_slice().iter().all(|&page| page >= 0))]
    pub pages: Tensor3<i32>,
    /// How many pages of each list count.
    #[shape(batch, kv_heads)]
    #[require(count.as_slice().iter().all(|&n| n >= 0 && n <= max_pages))]
    pub count: Tensor2<i32>,
}

#[attention_variant(name = "page_list")]
impl AttentionVariant for PageList {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        self.count[[at.batch, at.kv_head]]
    }

    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        self.pages[[at.batch, at.kv_head, n]]
    }

    fn kv_list_block_size(&self) -> i32 {
        self.page_size
    }

    fn kv_list_queries(&self) -> i32 {
        i32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_head_has_its_own_list() {
        let pages = Tensor3::new(vec![0, 4, 2, 1, 1, 0, 3, 0], [2, 2, 2]).expect("eight");
        let count = Tensor2::new(vec![2, 2, 1, 0], [2, 2]).expect("four");
        let list = PageList { page_size: 16, max_pages: 2, pages, count };
        let blocks = |batch, kv_head| -> Vec<i32> {
            let at = RowIndex { batch, kv_head, qo_row: 5, ..RowIndex::default() };
            (0..list.kv_list_len(at)).map(|n| list.kv_list_block(at, n)).collect()
        };
        assert_eq!([blocks(0, 0), blocks(0, 1), blocks(1, 0), blocks(1, 1)], [vec![0, 4], vec![2, 1], vec![1], vec![]]);
        assert_eq!(list.kv_list_block_size(), 16);
    }
}
