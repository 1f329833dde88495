#line _ "variant"
namespace lang {

/// Page list: each KV head attends to the pages of keys that a list names, and reads no others.
///
/// Attends to the blocks `pages[batch, kv_head, n]` of `page_size` keys, `n < count[batch, kv_head]`, in any order,
/// each at most once; all queries of a request share the list. Quest chooses such pages for a decoding query by a bound
/// on their logits (arXiv 2406.10774). A page here is a range of the request's positions: the pages of a paged cache
/// may have another size.
struct PageList {
  int page_size_;
  int max_pages_;
  Tensor3<int> pages_;
  Tensor2<int> count_;

#line _ "variants/src/sparse/page_list.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    return count_(at.batch, at.kv_head);
  }

#line _ "variants/src/sparse/page_list.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return pages_(at.batch, at.kv_head, n);
  }

#line _ "variants/src/sparse/page_list.rs"
  ATTN_FN int kv_list_block_size() const {
    return page_size_;
  }

#line _ "variants/src/sparse/page_list.rs"
  ATTN_FN int kv_list_queries() const {
    return 2147483647;
  }
#line _ "variant"
};
