"""Block-sparse variants of matrices and lists, against masks."""

import numpy as np
import pytest
import reference

import attn_rs
from attn_rs import sparse

RNG = np.random.default_rng(8)
# 5 queries of 4 heads, 11 keys of 2 KV heads, in blocks of 2 queries and 4 keys
Q, K, V = (RNG.standard_normal(shape).astype("float32") for shape in ((5, 4, 8), (11, 2, 8), (11, 2, 8)))
BLOCK, ROWS, COLUMNS = (2, 4), 3, 3
TABLE = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool)


def check(made, seen, *, parts="{}"):
    """`seen` of (KV heads, queries, keys), or of one for all."""
    expression, params = made
    o = attn_rs.attention(Q[None], K[None], V[None], parts.format(expression), params=params)[0]
    for head in range(2):
        own = slice(2 * head, 2 * head + 2)
        mask = np.broadcast_to(seen, (2, 5, 11))[head]
        keep = lambda qo, kv: mask & ((kv <= qo) | ("causal" not in parts))  # noqa: B023, E731
        want, _ = reference.attention(Q[:, own], K[:, head : head + 1], V[:, head : head + 1], keep)
        np.testing.assert_allclose(o[:, own], want, atol=2e-6)


def spread(table, block=BLOCK):
    """A mask of blocks as one of queries and keys."""
    return np.repeat(np.repeat(table, block[0], axis=-2), block[1], axis=-1)[..., :5, :11]


def compressed(table):
    return np.cumsum([0, *table.sum(1)]), np.nonzero(table)[1]


@pytest.mark.parametrize("parts", ["{}", "causal + {}"])
def test_matrices(parts):
    check(sparse.bsr([[compressed(TABLE)]], block=BLOCK, columns=COLUMNS), spread(TABLE), parts=parts)
    tables = np.stack([TABLE, ~TABLE | np.eye(3, dtype=bool)])
    of_heads = [[tuple(list(x) for x in compressed(table)) for table in tables]]
    made = sparse.bsr(of_heads, block=BLOCK, columns=[COLUMNS])
    assert made[0] == "block_sparse"
    assert (made[1]["block_sparse.q_block"], made[1]["block_sparse.heads"]) == (2, 2)
    check(made, spread(tables), parts=parts)


def test_requests_have_matrices_of_their_own():
    batch = attn_rs.Batch.ragged([0, 2, 5], [0, 4, 15])
    expression, params = sparse.bsr([[([0, 1], [0])], [compressed(TABLE[:2])]], block=BLOCK, columns=[1, 3])
    how = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
    keys = np.concatenate([K[:4], K])
    o = attn_rs.Plan(batch, expression, params=params, **how).run(Q, keys, keys)
    np.testing.assert_allclose(o[:2], reference.attention(Q[:2], K[:4], K[:4])[0], atol=2e-6)
    seen = lambda qo, kv: spread(TABLE)[:3]  # noqa: E731
    np.testing.assert_allclose(o[2:], reference.attention(Q[2:], K, K, seen)[0], atol=2e-6)


def test_matrices_with_masks():
    indptr, indices = compressed(TABLE)
    mask = RNG.random((len(indices), *BLOCK)) < 0.6
    seen = np.zeros((6, 12), dtype=bool)
    rows = np.repeat(np.arange(ROWS), np.diff(indptr))
    for of, row, column in zip(mask, rows, indices, strict=True):
        seen[2 * row :, 4 * column :][:2, :4] = of
    # the bits of a row of blocks are (queries, keys of its blocks), from a whole byte on
    packed = [np.packbits(mask[rows == row].swapaxes(0, 1).reshape(-1), bitorder="little") for row in range(ROWS)]
    begins = np.cumsum([0, *map(len, packed)])
    for given in (mask, (np.concatenate(packed), begins), (np.concatenate(packed).tobytes(), list(begins))):
        made = sparse.bsr([[(indptr, indices, given)]], block=BLOCK, columns=COLUMNS)
        assert made[0] == "block_sparse_masked"
        check(made, seen[:5, :11])


def test_tables():
    check(sparse.block_map([TABLE], block=BLOCK), spread(TABLE), parts="causal + {}")
    tables = np.stack([TABLE, TABLE[::-1]])
    check(sparse.block_map([tables], block=BLOCK), spread(tables))


@pytest.mark.parametrize("block", [None, (2, 4), (3, 2)])
def test_blocks_of_different_sizes(block):
    attends = np.stack([TABLE[:2], TABLE[1:]])
    row_sizes, column_sizes = [[4, 1], [2, 3]], np.array([[2, 8, 1], [5, 0, 6]])
    seen = np.stack([
        np.repeat(np.repeat(attends[head], row_sizes[head], axis=0), column_sizes[head], axis=1) for head in range(2)
    ])  # fmt: skip
    check(sparse.variable_blocks(attends, row_sizes, column_sizes, block=block), seen)


def test_lists_of_pages():
    lists = [[[2, 0], np.array([1])]]
    tables = np.array([[[1, 0, 1]] * 3, [[0, 1, 0]] * 3], dtype=bool)
    made = sparse.page_list(lists, page_size=4)
    assert made[1]["page_list.max_pages"] == 2
    check(made, spread(tables))
    check(sparse.page_list(lists, page_size=4, max_pages=3), spread(tables))
    batch = attn_rs.Batch.ragged([0, 5], [0, 11])
    expression, params = sparse.page_list([[[0, 1]] * 2], page_size=4)
    how = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
    plan = attn_rs.Plan(batch, expression, params=params, **how)
    plan.attention.set_tensor("page_list.pages", np.array([2, 0, 1, 0], dtype=np.int32))
    plan.attention.set_tensor("page_list.count", np.array([2, 1], dtype=np.int32))
    want = attn_rs.attention(Q[None], K[None], V[None], made[0], params=made[1])[0]
    np.testing.assert_allclose(plan.run(Q, K, V), want, atol=2e-6)


def test_what_is_malformed():
    indptr, indices = compressed(TABLE)
    mask = np.ones((len(indices), *BLOCK), dtype=bool)
    bsr = lambda *matrices, **how: lambda: sparse.bsr([matrices], **{"block": BLOCK, "columns": COLUMNS, **how})  # noqa: E731
    for error, text, make in [
        (attn_rs.InvalidArgument, "row 0 names block 9", bsr(([0, 1], [9]))),
        (attn_rs.InvalidArgument, "twice", bsr(([0, 2], [1, 1]))),
        (attn_rs.InvalidArgument, "`indptr` ends with 2", bsr(([0, 2], [1]))),
        (attn_rs.InvalidArgument, "`indptr` falls", bsr(([0, 2, 1], [1, 2]))),
        (attn_rs.InvalidArgument, "blocks of 0 queries", bsr((indptr, indices), block=(0, 4))),
        (attn_rs.InvalidArgument, "block is of the type `int`", bsr((indptr, indices), block=4)),
        (attn_rs.InvalidArgument, "columns has 2 numbers for 1 request", bsr((indptr, indices), columns=[3, 3])),
        (attn_rs.InvalidArgument, "some matrices have masks", bsr((indptr, indices), (indptr, indices, mask))),
        (attn_rs.InvalidArgument, "`mask` has", bsr((indptr, indices, mask[1:]))),
        (attn_rs.InvalidTensor, "mask is of float64", bsr((indptr, indices, mask * 1.0))),
        (attn_rs.InvalidArgument, "no request", lambda: sparse.bsr([], block=BLOCK, columns=COLUMNS)),
        (attn_rs.InvalidArgument, "requests has for each a list", lambda: sparse.bsr([3], block=BLOCK, columns=3)),
        (attn_rs.InvalidArgument, "has 2 heads", lambda: sparse.block_map([TABLE, np.stack([TABLE] * 2)], block=BLOCK)),
        (attn_rs.InvalidTensor, "a table has the shape", lambda: sparse.block_map([TABLE[0]], block=BLOCK)),
        (attn_rs.InvalidTensor, "a table is of int64", lambda: sparse.block_map([TABLE * 1], block=BLOCK)),
        (attn_rs.InvalidArgument, "requests is of the type `int`", lambda: sparse.block_map(3, block=BLOCK)),
        (attn_rs.InvalidArgument, "adds up to",
         lambda: sparse.variable_blocks(np.stack([TABLE] * 2), [[1, 1, 1], [1, 1, 2]], [[1, 1, 1]] * 2)),
        (attn_rs.InvalidTensor, "attends has the shape", lambda: sparse.variable_blocks(TABLE, [1, 1, 1], [1, 1, 1])),
        (attn_rs.InvalidArgument, "page -1 is before", lambda: sparse.page_list([[[-1]]], page_size=4)),
        (attn_rs.InvalidArgument, "the capacity is 1", lambda: sparse.page_list([[[0, 1]]], page_size=4, max_pages=1)),
        (attn_rs.InvalidArgument, "lists has for each request", lambda: sparse.page_list([3], page_size=4)),
        (attn_rs.InvalidArgument, "page_size is of the type `str`", lambda: sparse.page_list([[[0]]], page_size="4")),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            make()
