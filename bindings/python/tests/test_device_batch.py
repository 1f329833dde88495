"""Batches that are read where they lie: on the CPU host memory, at once."""

import gc
import weakref

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(6)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
PAGE, PAGES = 4, 12
QO = np.array([0, 1, 1, 2], dtype=np.int32)
K, V = (RNG.standard_normal((PAGES, PAGE, 2, 8)).astype("float32") for _ in range(2))
Batch, DeviceBatch = attn_rs.Batch, attn_rs.DeviceBatch


def ints(*numbers):
    return np.array(numbers, dtype=np.int32)


def a_plan(**how):
    how = {"capacity": attn_rs.Capacity(3, 40, page_size=PAGE, num_pages=PAGES), **HOW, **how}
    first = Batch.block_table([0, 1], [[0]], [1], page_size=PAGE, num_pages=PAGES)
    return attn_rs.Plan(first, "causal", **how)


def check(plan, lens, tables):
    q = RNG.standard_normal((2, 4, 8)).astype("float32")
    o = plan.run(q, K, V)
    for query, request in enumerate((0, 2)):
        k, v = (pool[tables[request]].reshape(-1, 2, 8)[: lens[request]] for pool in (K, V))
        np.testing.assert_allclose(o[query : query + 1], reference.attention(q[query : query + 1], k, v)[0], atol=2e-6)


def test_pages_in_rows_of_one_length():
    plan, lens, table = a_plan(), ints(5, 9, 2), np.full((3, 3), -1, dtype=np.int32)
    plan.prepare_device_updates()
    batch = DeviceBatch.block_table(QO, table, lens)
    assert repr(batch) == "<attn_rs.DeviceBatch, block table>"
    for _ in range(3):
        table[:] = RNG.permutation(PAGES)[:9].reshape(3, 3)
        plan.update_on_device(batch)
        plan.device_status()
        check(plan, lens, table)
        lens += 1


def test_pages_in_compressed_rows():
    plan, lens = a_plan(), ints(5, 0, 2)
    indices = ints(7, 1, 3, 9, 2, 11)
    plan.update_on_device(DeviceBatch.paged(QO, lens, ints(0, 3, 3, 5), indices))
    check(plan, lens, [indices[:3], [], indices[3:5]])


def test_ragged_keys():
    k, v, q = K.reshape(-1, 2, 8), V.reshape(-1, 2, 8), RNG.standard_normal((2, 4, 8)).astype("float32")
    plan = attn_rs.Plan(Batch.ragged([0, 1], [0, 1]), "causal", capacity=attn_rs.Capacity(3, 40), **HOW)
    plan.update_on_device(DeviceBatch.ragged(QO, ints(5, 9, 2)))
    o = plan.run(q, k, v)
    for query, keys in enumerate((slice(0, 5), slice(14, 16))):
        own = q[query : query + 1]
        np.testing.assert_allclose(o[query : query + 1], reference.attention(own, k[keys], v[keys])[0], atol=2e-6)


def check_levels(plan, own, prompt, tables):
    """Runs a plan of two requests with a prompt of so many keys before their own."""
    q = RNG.standard_normal((2, 4, 8)).astype("float32")
    o = plan.run(q, K, V)
    shared = [pool[tables[0]].reshape(-1, 2, 8)[:prompt] for pool in (K, V)]
    for query, request in enumerate((0, 2)):
        rows = [pool[tables[1][request]].reshape(-1, 2, 8)[: own[request]] for pool in (K, V)]
        k, v = (np.concatenate(pair) for pair in zip(shared, rows, strict=True))
        np.testing.assert_allclose(o[query : query + 1], reference.attention(q[query : query + 1], k, v)[0], atol=2e-6)


def test_levels():
    plan = a_plan(capacity=attn_rs.Capacity(3, 60, page_size=PAGE, num_pages=PAGES, levels=2))
    own, prompt, shared = ints(5, 0, 2), ints(7), ints(3, 8)
    table = np.array([[0, 1], [-1, -1], [2, -1]], dtype=np.int32)
    level = DeviceBatch.paged(ints(0, 2), prompt, ints(0, 2), shared)
    batch = DeviceBatch.cascade([level, DeviceBatch.block_table(QO, table, own)])
    assert repr(batch) == "<attn_rs.DeviceBatch, block table, 2 levels>"
    for keys in (7, 0, 8):
        prompt[0] = keys
        plan.update_on_device(batch)
        plan.device_status()
        check_levels(plan, own, keys, (shared, table))
    for error, text, make in [
        (attn_rs.InvalidBatch, "levels is empty", lambda: DeviceBatch.cascade([])),
        (attn_rs.InvalidBatch, r"levels\[0\] is a cascade", lambda: DeviceBatch.cascade([batch])),
        (attn_rs.InvalidArgument, r"levels\[1\] is of the type `int`", lambda: DeviceBatch.cascade([level, 3])),
        (
            attn_rs.InvalidBatch,
            "level 0: it has levels or a bound",
            lambda: plan.update_on_device(
                DeviceBatch.cascade(
                    [DeviceBatch.paged(ints(0, 2), prompt, ints(0, 2), shared, qo_tokens=2), batch_of(table, own)]
                )
            ),
        ),
        (
            attn_rs.InvalidBatch,
            "level 0: kv_lens",
            lambda: plan.update_on_device(
                DeviceBatch.cascade([DeviceBatch.paged(ints(0, 2), ints(-1), ints(0, 2), shared), batch_of(table, own)])
            ),
        ),
    ]:
        with pytest.raises(error, match=text):
            make()


def batch_of(table, lens):
    return DeviceBatch.block_table(QO, table, lens)


def test_outputs_of_a_batch_that_the_host_does_not_know_are_zero_past_it():
    plan, q = a_plan(), np.ones((1, 4, 8), dtype=np.float32)
    plan.update_on_device(DeviceBatch.paged(ints(0, 0), ints(0), ints(0, 0), ints(0)))
    for _ in range(20):
        np.full((1, 4, 8), np.nan, dtype=np.float32)  # what new memory may hold
        assert not plan.run(q, K, V).any()


def test_a_batch_keeps_its_tensors():
    lens = ints(5, 9, 2)
    gone = weakref.ref(lens)
    batch = DeviceBatch.paged(QO, lens, ints(0, 2, 5, 6), ints(*range(6)))
    del lens
    gc.collect()
    a_plan().update_on_device(batch)
    assert gone() is not None
    del batch
    gc.collect()
    assert gone() is None


def test_what_is_refused():
    plan, table, lens = a_plan(), np.zeros((3, 3), dtype=np.int32), ints(5, 9, 2)
    without = attn_rs.Plan(Batch.ragged([0, 1], [0, 1]), **HOW)
    table_of = DeviceBatch.block_table
    update = lambda *of, to=plan, **most: lambda: to.update_on_device(table_of(*of, **most))  # noqa: E731
    rows = lambda *of: lambda: plan.update_on_device(DeviceBatch.paged(*of))  # noqa: E731
    long = np.zeros((3, 6), dtype=np.int32)
    for error, text, call in [
        (attn_rs.InvalidBatch, "capacity", update(QO, table, lens, to=without)),
        (attn_rs.InvalidBatch, "capacity", without.prepare_device_updates),
        (attn_rs.InvalidBatch, "capacity", without.device_status),
        (attn_rs.InvalidTensor, "kv_lens is of int64; it is of int32", update(QO, table, lens.astype("int64"))),
        (attn_rs.InvalidTensor, "qo_indptr has .* gaps", update(np.repeat(QO, 2)[::2], table, lens)),
        (attn_rs.InvalidTensor, "block_table has .* 2 dimensions", update(QO, table[0], lens)),
        (attn_rs.InvalidTensor, "block_table has .* gaps", update(QO, long[:, :3], lens)),
        (attn_rs.InvalidTensor, "kv_lens is a list", update(QO, table, [5, 9, 2])),
        (attn_rs.InvalidBatch, "kv_lens", update(QO, table, lens[:2])),
        (attn_rs.InvalidBatch, "page_indptr", rows(QO, lens, ints(0, 2, 5), ints(*range(6)))),
        (attn_rs.InvalidBatch, "request 1", rows(QO, lens, ints(0, 2, 4, 5), ints(*range(6)))),
        (attn_rs.InvalidBatch, "kv_len|-3", update(QO, table, ints(5, -3, 2))),
        (attn_rs.InvalidBatch, "queries", update(ints(0, 2, 2, 3), table, lens)),
        (attn_rs.InvalidBatch, "2 queries; the .* is 1", update(QO, table, lens, qo_tokens=1)),
        (attn_rs.InvalidArgument, "qo_tokens is of the type `str`", update(QO, table, lens, qo_tokens="1")),
        (attn_rs.InvalidBatch, "keys", update(QO, np.zeros((3, 12), dtype=np.int32), ints(40, 1, 1))),
        (attn_rs.InvalidBatch, "12", update(QO, table + 12, lens)),
        (attn_rs.InvalidBatch, "ragged", lambda: plan.update_on_device(DeviceBatch.ragged(QO, lens))),
        (attn_rs.InvalidArgument, "it is a `DeviceBatch`", lambda: plan.update_on_device(Batch.ragged([0, 1], [0, 1]))),
    ]:
        with pytest.raises(error, match=text):
            call()
    plan.update_on_device(DeviceBatch.block_table(QO, np.arange(9, dtype=np.int32).reshape(3, 3), lens, qo_tokens=2))
    check(plan, lens, np.arange(9).reshape(3, 3))
