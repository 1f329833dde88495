use std::collections::HashSet;

use attn::lang::{AttentionVariant, RowIndex, Tensor2, Tensor3};
use attn::{VariantParams, attention_variant};

/// Page list: each KV head attends to the pages of keys that a list names, and reads no others.
///
/// Attends to the blocks `pages[batch, kv_head, n]` of `page_size` keys, `n < count[batch, kv_head]`, in any order,
/// each at most once; all queries of a request share the list. Quest chooses such pages for a decoding query by a bound
/// on their logits (arXiv 2406.10774). A page here is a range of the request's positions: the pages of a paged cache
/// may have another size.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PageList {
    /// Keys of a page.
    #[require(page_size >= 1)]
    pub page_size: i32,
    /// Capacity of a list, in pages.
    #[require(max_pages >= 1)]
    pub max_pages: i32,
    /// The lists.
    #[shape(batch, kv_heads, max_pages)]
    #[require(pages.as_slice().iter().all(|&page| page >= 0))]
    pub pages: Tensor3<i32>,
    /// Length of each list.
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

/// An error in the lists of a [`PageList`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum PageListError {
    /// A request with lists for more or fewer KV heads.
    #[error("request {request} has lists of {got} KV heads, the first has {want}")]
    Heads { request: usize, got: usize, want: usize },
    /// A list longer than its capacity.
    #[error("request {request}, KV head {kv_head}: {len} pages; the capacity is {capacity}")]
    Capacity { request: usize, kv_head: usize, len: usize, capacity: usize },
    /// A negative page, or a page listed twice.
    #[error("request {request}, KV head {kv_head}: page {page} {what}")]
    Page { request: usize, kv_head: usize, page: i32, what: &'static str },
    /// No lists, sizes that are not positive, or sizes too large for a tensor.
    #[error("lists of {max_pages} pages of {page_size} keys for {requests} requests and {kv_heads} KV heads")]
    Sizes { page_size: i32, max_pages: i32, requests: usize, kv_heads: usize },
}

impl PageList {
    /// From the pages of each request and KV head, `lists[request][kv_head]`.
    ///
    /// # Errors
    ///
    /// [`PageListError`] says which list is malformed.
    pub fn from_lists(page_size: i32, max_pages: i32, lists: &[Vec<Vec<i32>>]) -> Result<Self, PageListError> {
        let kv_heads = lists.first().map_or(0, Vec::len);
        let sizes = || PageListError::Sizes { page_size, max_pages, requests: lists.len(), kv_heads };
        let capacity =
            usize::try_from(max_pages).ok().filter(|capacity| *capacity > 0 && page_size > 0).ok_or_else(sizes)?;
        let (mut pages, mut count) = (Vec::new(), Vec::new());
        for (request, heads) in lists.iter().enumerate() {
            if heads.len() != kv_heads {
                return Err(PageListError::Heads { request, got: heads.len(), want: kv_heads });
            }
            for (kv_head, list) in heads.iter().enumerate() {
                if list.len() > capacity {
                    return Err(PageListError::Capacity { request, kv_head, len: list.len(), capacity });
                }
                let wrong = |page, what| Err(PageListError::Page { request, kv_head, page, what });
                let mut seen = HashSet::new();
                for &page in list {
                    if page < 0 {
                        return wrong(page, "is before the first");
                    }
                    if !seen.insert(page) {
                        return wrong(page, "comes twice");
                    }
                }
                pages.extend(list.iter().copied().chain(std::iter::repeat_n(0, capacity - list.len())));
                count.push(list.len() as i32); // at most `max_pages`
            }
        }
        let pages = Tensor3::new(pages, [lists.len(), kv_heads, capacity]).ok().filter(|pages| !pages.is_empty());
        let count = Tensor2::new(count, [lists.len(), kv_heads]).map_err(|_| sizes())?;
        Ok(PageList { page_size, max_pages, pages: pages.ok_or_else(sizes)?, count })
    }

    /// Lists as long as `max_pages` allows: pages 0, 1, .. for every request and KV head.
    ///
    /// Bind an attention with it before its lists are replaced in place (`Attention::set_tensor`): a plan is made for
    /// the lengths of the lists at that time.
    ///
    /// # Errors
    ///
    /// Sizes that are not positive.
    pub fn with_capacity(
        page_size: i32,
        max_pages: i32,
        requests: usize,
        kv_heads: usize,
    ) -> Result<Self, PageListError> {
        Self::from_lists(page_size, max_pages, &vec![vec![(0..max_pages).collect(); kv_heads]; requests])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_checked() {
        let made =
            PageList::from_lists(16, 3, &[vec![vec![4, 0], vec![]], vec![vec![7], vec![1, 2, 3]]]).expect("they fit");
        assert_eq!(made.pages.as_slice(), [4, 0, 0, 0, 0, 0, 7, 0, 0, 1, 2, 3]);
        assert_eq!(made.count.as_slice(), [2, 0, 1, 3]);
        assert_eq!(PageList::with_capacity(16, 2, 1, 2).expect("sizes").pages.as_slice(), [0, 1, 0, 1]);
        let error = |page_size, lists: &[Vec<Vec<i32>>]| {
            PageList::from_lists(page_size, 2, lists).expect_err("malformed").to_string()
        };
        assert_eq!(error(16, &[vec![vec![]], vec![]]), "request 1 has lists of 0 KV heads, the first has 1");
        assert_eq!(error(16, &[vec![vec![1, 2, 3]]]), "request 0, KV head 0: 3 pages; the capacity is 2");
        assert_eq!(error(16, &[vec![vec![], vec![5, -1]]]), "request 0, KV head 1: page -1 is before the first");
        assert_eq!(error(16, &[vec![vec![5, 5]]]), "request 0, KV head 0: page 5 comes twice");
        assert_eq!(error(0, &[vec![vec![5]]]), "lists of 2 pages of 0 keys for 1 requests and 1 KV heads");
        assert!(error(16, &[]).contains("0 requests"));
    }

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
