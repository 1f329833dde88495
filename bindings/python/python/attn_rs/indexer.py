"""Indexers of sparse attention: they score keys for each query, and choose those that attention reads.

`index_scores` is the lightning indexer of DeepSeek-V3.2, and `select_tokens` writes the best keys as the lists of the
variant `token_list`. `block_scores` scores blocks of keys for each index head, as MiniMax-M3 does, and `select_pages`
writes the best as the lists of a `page_list`. On a CUDA device each is one launch, which a CUDA graph can capture after
`prepare` or a first call.

All tensors of a call are on one device. Outputs share no memory with other tensors of the call; those that are not
given are new memory of the library and the device of the first tensor. `stream` is the address of a CUDA stream, by
default the current one of torch, else the default stream.

What does not fit raises InvalidTensor or InvalidArgument, and nothing is written then.
"""

from typing import Any

from . import _native
from ._arrays import check_count, check_tensor, empty, named, run_op

__all__ = ["block_scores", "index_scores", "prepare", "select_pages", "select_tokens"]


def index_scores(
    q: Any,
    weights: Any,
    keys: Any,
    qo_indptr: Any,
    *,
    kv_indptr: Any = None,
    kv_lens: Any = None,
    block_table: Any = None,
    page_indptr: Any = None,
    page_indices: Any = None,
    visible: Any = "causal",
    max_keys: int | None = None,
    scores: Any = None,
    counts: Any = None,
    status: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Scores of keys: `scores[t, s] = sum_j weights[t, j] max(q[t, j] . k[s], 0)`.

    Args:
        q: index queries, (query tokens, index heads, dim) in float16 or bfloat16; `dim` is a multiple of 32 up to 256,
            and there are at most 128 heads.
        weights: (query tokens, index heads) in float32, with every factor of the model.
        keys: index keys of the type of `q`: (key tokens, dim) with `kv_indptr`, else (pages, slots, dim) with `kv_lens`
            and `block_table`, or with `kv_lens`, `page_indptr` and `page_indices`.
        qo_indptr: (requests + 1) in int32, from 0: prefix sums of the numbers of queries. Queries past the last are
            padding, with a count of 0.
        kv_indptr: (requests + 1) in int32, from 0: prefix sums of the numbers of keys.
        kv_lens: int32 of requests: their numbers of keys.
        block_table: (requests, pages) in int32: the pages of each request; what is past them is never read.
        page_indptr, page_indices: the pages as compressed rows, in int32: (requests + 1) prefix sums, and the pages of
            all requests.
        visible: which keys a query has scores of: `"causal"`, those up to its own, where queries are the last tokens of
            their request; `"all"`; or int32 of query tokens: how many, from the first.
        max_keys: the most keys of a request, columns of new memory; by default as many as the shapes of keys and pages
            allow.
        scores: where they go, (query tokens, keys) in float32. What is past the last visible key is not written.
        counts: where the number of scores of each query goes, int32 of query tokens.
        status: one word, uint32 or int32, to which kernels add the number of keys without a score, outside of a pool or
            past the columns; on the CPU such a key is an error.

    Returns:
        Scores and counts.
    """
    check_tensor("q", q, 3)
    if scores is None:
        scores = empty(q, (q.shape[0], _columns(max_keys, keys, block_table, page_indices)), "float32")
    counts = empty(q, (q.shape[0],), "int32") if counts is None else counts
    paged = {"kv_lens": kv_lens, "block_table": block_table, "page_indptr": page_indptr, "page_indices": page_indices}
    given = {"keys": keys, "qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "visible": visible, **paged}
    run_op(
        _native.index_scores, q=q, weights=weights, **given, scores=scores, counts=counts, status=status, stream=stream
    )
    return scores, counts


def block_scores(
    q: Any,
    keys: Any,
    qo_indptr: Any,
    *,
    block_size: int,
    kv_indptr: Any = None,
    kv_lens: Any = None,
    block_table: Any = None,
    page_indptr: Any = None,
    page_indices: Any = None,
    visible: Any = "causal",
    max_keys: int | None = None,
    scores: Any = None,
    counts: Any = None,
    status: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Scores of blocks: `scores[t, g, b]` is the greatest `q[t, g] . k[s]` of the visible keys of block b, those at the
    positions from `b * block_size` on.

    Args:
        block_size: keys of a block, a multiple of 32.
        scores: where they go, (query tokens, index heads, blocks) in float32; by default new memory of as many blocks
            as `max_keys` has.
        counts: where the number of blocks of each query goes, int32 of query tokens.

    The others are those of `index_scores`.

    Returns:
        Scores and counts.
    """
    check_tensor("q", q, 3)
    if scores is None:
        columns = _columns(max_keys, keys, block_table, page_indices)
        columns = -(-columns // check_count("block_size", block_size, 1))
        scores = empty(q, (*q.shape[:2], columns), "float32")
    counts = empty(q, (q.shape[0],), "int32") if counts is None else counts
    paged = {"kv_lens": kv_lens, "block_table": block_table, "page_indptr": page_indptr, "page_indices": page_indices}
    given = {"keys": keys, "qo_indptr": qo_indptr, "kv_indptr": kv_indptr, "visible": visible, **paged}
    how = {"block_size": block_size, "status": status, "stream": stream}
    run_op(_native.block_scores, q=q, **given, scores=scores, counts=counts, **how)
    return scores, counts


def _columns(max_keys: int | None, keys: Any, block_table: Any, page_indices: Any) -> int:
    """The most keys that a request may have."""
    if max_keys is not None:
        return check_count("max_keys", max_keys)
    if block_table is None and page_indices is None:
        check_tensor("keys", keys, 2)
        return int(keys.shape[0])
    check_tensor("keys", keys, 3)
    if block_table is None:
        check_tensor("page_indices", page_indices, 1)
        return int(page_indices.shape[0] * keys.shape[1])
    check_tensor("block_table", block_table, 2)
    return int(block_table.shape[1] * keys.shape[1])


def select_tokens(
    scores: Any,
    counts: Any,
    k: int | None = None,
    *,
    lists: Any = None,
    list_lens: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """The k keys of each row with the largest scores, in rising order. Of equal scores the lower positions are chosen;
    NaN and -inf never are.

    Args:
        scores: (query tokens, keys) in float32, as `index_scores` returns them.
        counts: int32 of query tokens: how many scores of a row there are. What is behind is not read.
        k: keys of a list in new memory.
        lists: where positions go, (query tokens, k) in int32, 0 behind those of a list: `tokens` of a `token_list`.
        list_lens: where their numbers go, int32 of query tokens: `count` of a `token_list`.

    Returns:
        The lists and their lengths.
    """
    check_tensor("scores", scores, 2)
    return _select(_native.select_tokens, scores, counts, k, lists, list_lens, stream=stream)


def select_pages(
    scores: Any,
    counts: Any,
    k: int | None = None,
    *,
    first: int = 0,
    last: int = 0,
    lists: Any = None,
    list_lens: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """The k blocks of each query and head with the largest scores, as `select_tokens`.

    Args:
        scores: (query tokens, heads, blocks) in float32, as `block_scores` returns them.
        counts: int32 of query tokens: how many blocks there are.
        k: blocks of a list in new memory.
        first, last: so many blocks at the begin and at the end of a row are always chosen, and count among the k.
        lists: where blocks go, (query tokens, heads, k) in int32: `pages` of a `page_list` of as many requests as there
            are query tokens.
        list_lens: where their numbers go, (query tokens, heads) in int32: `count` of a `page_list`.

    Returns:
        The lists and their lengths.
    """
    check_tensor("scores", scores, 3)
    return _select(_native.select_pages, scores, counts, k, lists, list_lens, first=first, last=last, stream=stream)


def _select(native: Any, scores: Any, counts: Any, k: Any, lists: Any, list_lens: Any, **how: Any) -> tuple[Any, Any]:
    rows = tuple(scores.shape[:-1])
    if lists is None:
        lists = empty(scores, (*rows, check_count("k", k, 1)), "int32")
    list_lens = empty(scores, rows, "int32") if list_lens is None else list_lens
    run_op(native, scores=scores, counts=counts, lists=lists, list_lens=list_lens, **how)
    return lists, list_lens


def prepare(dtype: Any, heads: int, dim: int, *, device: Any = "cuda") -> None:
    """Prepares an indexer of queries of a type and shape, so that a CUDA graph can capture the first call: kernels are
    compiled and loaded. On the CPU there is nothing to do.

    Args:
        dtype: `"float16"`, `"bfloat16"`, or a dtype of torch or numpy.
        heads, dim: index heads, and elements of one.
        device: `"cuda"`, `"cuda:1"`, or a device of torch.
    """
    _native.prepare_indexer(named(dtype), heads, dim, str(device))
