"""Block-sparse variants, made of matrices and lists of blocks.

Each function returns an expression and its parameters, which other parts may be beside:

    expression, params = attn_rs.sparse.bsr([[(indptr, indices)]], block=(64, 64), columns=32)
    o = attn_rs.attention(q, k, v, "causal + " + expression, params=params)

The queries of a request are cut into blocks, and its keys likewise; no other keys are read than those of the blocks
that a block of queries attends to. Arrays are lists, or arrays in host memory. A malformed one raises InvalidArgument,
which says where.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from . import _native
from ._arrays import listed
from ._errors import WrongType

# an expression and its parameters
Sparse = tuple[str, dict[str, Any]]


def bsr(requests: Sequence[Any], *, block: tuple[int, int], columns: int | Sequence[int]) -> Sparse:
    """`block_sparse` of block-sparse matrices, as scipy's `bsr_array` and FlashInfer's wrappers have them; with masks
    `block_sparse_masked`.

    Args:
        requests: for each request a list of matrices, one for all KV heads or one for each: `(indptr, indices)`, where
            the blocks of each row of blocks begin, (rows + 1), and their columns; or `(indptr, indices, mask)`, where
            the mask is a bool array of (blocks, queries, keys), or FlashInfer's packed masks, a pair of bits (bytes or
            uint8) and of the first byte of each row, (rows + 1).
        block: the queries and the keys of a block.
        columns: blocks of keys, ceil(keys / block[1]): a number, or one for each request.
    """
    columns = [columns] * len(requests) if isinstance(columns, int) else columns
    try:
        matrices = [[(*of, None)[:3] for of in request] for request in requests]
    except TypeError as error:
        raise WrongType(
            f"requests has for each a list of (indptr, indices) or (indptr, indices, mask): {error}"
        ) from None
    return _native.sparse_bsr(matrices, block, columns)


def block_map(requests: Sequence[Any], *, block: tuple[int, int]) -> Sparse:
    """`block_sparse` of a dense table of blocks for each request.

    Args:
        requests: a bool array for each request, (rows, columns) for all KV heads or (KV heads, rows, columns): whether
            a block of queries attends to a block of keys.
        block: the queries and the keys of a block.
    """
    return _native.sparse_block_map(requests, block)


def variable_blocks(attends: Any, row_sizes: Any, column_sizes: Any, *, block: tuple[int, int] | None = None) -> Sparse:
    """`block_sparse` of one request whose blocks differ in size, as FlashInfer's `VariableBlockSparseAttentionWrapper`
    takes them.

    Args:
        attends: bool of (KV heads, rows, columns): whether a block of queries attends to a block of keys.
        row_sizes: queries of each block, (KV heads, rows), with the same sum for every head; `column_sizes` likewise
            the keys, (KV heads, columns).
        block: the queries and the keys of blocks of one size, with masks where these cross borders
            (`block_sparse_masked`). Good sizes: 64 or 128 divided by the query heads per KV head, and 16 to 64 keys.
            By default, blocks are split into parts of the greatest common divisor of their sizes, which is slower where
            that is small.
    """
    return _native.sparse_variable_blocks(attends, row_sizes, column_sizes, block)


def page_list(lists: Sequence[Any], *, page_size: int, max_pages: int | None = None) -> Sparse:
    """`page_list` of the pages of keys that each KV head attends to. `set_tensor("page_list.pages", ..)` and
    `set_tensor("page_list.count", ..)` replace the lists in place, by lists that are not longer.

    Args:
        lists: for each request, and each KV head, a list of pages: ranges of `page_size` positions.
        page_size: keys of a page.
        max_pages: the capacity of a list, by default the length of the longest.
    """
    try:
        lists = [[listed("lists", pages) for pages in request] for request in lists]
        longest = max((len(pages) for request in lists for pages in request), default=0)
    except TypeError as error:
        raise WrongType(f"lists has for each request, and each KV head, a list of pages: {error}") from None
    max_pages = longest if max_pages is None else max_pages
    return _native.sparse_page_list(lists, page_size, max_pages)


def items(
    qo_indptr: Sequence[int], kv_lens: Sequence[int], prefix_len: Sequence[int], positions: Sequence[int], *, width: int
) -> Sparse:
    """`multi_item` of requests with a prefix and items behind it, of which each sees the prefix and itself: scores of
    many items in one run.

    Args:
        qo_indptr: where the queries of each request begin, and their number, (requests + 1).
        kv_lens: the keys of each request, at whose last key its last query is; prefix_len: those of its prefix.
        positions: of the tokens behind a prefix within their items, from a delimiter at 0 on: a row of `width` numbers
            for each request. Tokens past the numbers belong to an item that begins at 0.
    """
    starts = []
    for request, (first, end) in enumerate(itertools.pairwise(qo_indptr)):
        for at in range(kv_lens[request] - (end - first), kv_lens[request]):
            entry = at - prefix_len[request]
            index = request * width + entry
            starts.append(at - positions[index] if entry >= 0 and index < len(positions) else 0)
    return "multi_item", {"multi_item.prefix_len": list(prefix_len), "multi_item.item_start": starts}
