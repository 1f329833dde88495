"""Options, versions, formats and levels, which need no engine."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attn_rs_vllm import cascade, formats, options, versions  # noqa: E402
from attn_rs_vllm.errors import Refused  # noqa: E402

import attn_rs  # noqa: E402


def test_versions():
    assert versions.of("0.33.0").has_layouts and not versions.of("0.26.1").has_layouts
    with pytest.raises(Refused, match=r"vLLM 0\.31\.2 is not known .*0\.26 or 0\.33"):
        versions.of("0.31.2")


def test_options():
    read = options.load({"cascade": "off"}, {"ATTN_RS_CASCADE": "always", "ATTN_RS_SPLIT_SIZE": "512"})
    assert (read.cascade, read.split_size, read.variant) == ("off", 512, "{model}")
    for given, environment, text in [
        ({"cascades": "off"}, {}, "no option cascades; there are variant, "),
        ({}, {"ATTN_RS_VARIENT": "full"}, "no option ATTN_RS_VARIENT; there are variant, "),
        ({"cascade": "auto"}, {}, "'auto'; there are off, on"),
        ({}, {"ATTN_RS_SPLIT_SIZE": "many"}, "'many'; it is a whole number"),
    ]:
        with pytest.raises(Refused, match=text):
            options.load(given, environment)


def test_records_are_what_the_library_asks_for():
    of_int4 = ("int4(group=32)", "int4(group=16, zero=true)", "int8 / int4(group=32)")
    for name in ("int8", *of_int4, "nvfp4", "mx_fp8", "turbo4"):
        record = formats.Record.of(name, 64)
        k, v, k_side, v_side = record.split(torch.zeros(4, 2, 8, record.bytes, dtype=torch.uint8))
        attention = attn_rs.Attention("full", None, "cpu", 2, 2, 64, None, "float32", "uint8", kv_format=name)
        new = torch.randn(3, 2, 64)
        how = {"kv_layout": "HND", "attention": attention, "k_side": k_side, "v_side": v_side}
        attn_rs.append(new, new, k, v, torch.arange(3), **how)
        assert record.bytes % 16 == 0
    for name, text in [("int3", "not one that"), ("int4 group", "no name with parameters")]:
        with pytest.raises(Refused, match=text):
            formats.Record.of(name, 64)


def test_a_cache_that_is_too_small_for_a_format():
    storage = formats.Storage.of("auto", "int8")
    with pytest.raises(Refused, match="needs 144 bytes .* allocated 128"):
        storage.views(torch.zeros(4, 2, 8, 64, dtype=torch.bfloat16), 64)
    with pytest.raises(Refused, match="give one of them"):
        formats.Storage.of("fp8", "int8")


@pytest.mark.parametrize("seed", range(40))
def test_levels_are_the_batch(seed):
    rng = np.random.default_rng(seed)
    page, pool, requests, padding = 4, 200, int(rng.integers(2, 9)), int(rng.integers(0, 3))
    lens = rng.integers(1, 60, requests)
    queries = np.minimum(rng.integers(1, 4, requests), lens)
    table = rng.permutation(pool)[: requests * 15].reshape(requests, 15)
    for request in range(1, requests):
        shared = int(rng.integers(0, 8))
        table[request, :shared] = table[request - 1, :shared]
    if padding:
        lens, queries = np.r_[lens, [0] * padding], np.r_[queries, [0] * padding]
        table = np.r_[table, np.full((padding, 15), -1)]
    starts, table, lens = (torch.from_numpy(x).int() for x in (np.r_[0, np.cumsum(queries)], table, lens))
    least = int(rng.integers(1, 3))
    batch = cascade.levels(starts, table, lens, page, least)
    q, k, v = torch.randn(int(starts[-1]), 2, 8), torch.randn(pool, 1, page, 8), torch.randn(pool, 1, page, 8)
    capacity = attn_rs.Capacity(10, 600, qo_tokens=32, page_size=page, num_pages=pool, levels=cascade.LEVELS)
    how = {"qo_heads": 2, "kv_heads": 1, "head_dim": 8, "dtype": "float32", "device": "cpu", "kv_layout": "HND"}
    flat = attn_rs.Batch.block_table(starts, table, lens, page_size=page, num_pages=pool)
    want = attn_rs.Plan(flat, "causal + alibi", **how).run(q, k, v)
    plan = attn_rs.Plan(flat, "causal + alibi", capacity=capacity, **how)
    plan.update_on_device(batch)
    torch.testing.assert_close(plan.run(q, k, v), want, atol=2e-6, rtol=1e-5)


def test_what_is_shared():
    lens, starts = torch.tensor([18, 17, 20, 33, 0]).int(), torch.tensor([0, 1, 2, 3, 4, 4]).int()
    rows = [[1, 2, 3, 4, 9], [1, 2, 3, 4, 8], [1, 2, 6, 7, 5], [1, 2, 6, 7, 5, 3, 3, 3, 3], []]
    table = torch.tensor([row + [-1] * (9 - len(row)) for row in rows]).int()
    with pytest.MonkeyPatch.context() as patch:
        found = []
        patch.setattr(attn_rs.DeviceBatch, "block_table", lambda *of, **_: found.append([x.tolist() for x in of]))
        patch.setattr(attn_rs.DeviceBatch, "cascade", lambda levels: None)
        cascade.levels(starts, table, lens, page=4)
    (ends, _, keys), (of_groups, group_rows, of_group), (_, own_rows, own) = found
    assert (ends, keys) == ([0, 4], [8])
    assert (of_groups, of_group) == ([0, 2, 4, 4, 4, 4], [8, 8, 0, 0, 0])
    assert [row[:2] for row in group_rows[:2]] == [[3, 4], [6, 7]]
    assert own == [2, 1, 4, 17, 0] and [row[0] for row in own_rows[:4]] == [9, 8, 5, 5]
