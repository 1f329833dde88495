"""FlashInfer's API against torch in float32, on the CPU. Skipped without torch."""

import functools
import importlib
import inspect
import itertools
import math
import sys

import pytest

import attn_rs

torch = pytest.importorskip("torch")
import attn_rs.flashinfer as flashinfer  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 16, 4
WORKSPACE = torch.empty(8, dtype=torch.uint8)
# queries and keys of requests
LENS = [(3, 7), (1, 13), (5, 5), (2, 1)]
HOW = {"q_data_type": torch.float32, "kv_data_type": torch.float32}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def ints(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def ends(counts):
    return ints(0, *itertools.accumulate(counts))


def rotated(x, positions, theta=1e4, scale=1.0, interleaved=False):
    half = x.shape[-1] // 2
    angle = positions[:, None].double() * theta ** (-torch.arange(half).double() / half) / scale
    cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    parts = a * cos - b * sin, b * cos + a * sin
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


def reference(q, k, v, causal=False, window_left=-1, logits_soft_cap=None, pos_encoding_mode="NONE", sm_scale=None,
              mask=None, sink=None):  # fmt: skip
    """The output, and log-sum-exps in base 2."""
    (n, heads, dim), m = q.shape, k.shape[0]
    at, keys = torch.arange(n) + m - n, torch.arange(m)
    q, k, v = q.float(), k.float(), v.float()
    if pos_encoding_mode == "ROPE_LLAMA":
        q, k = rotated(q, at), rotated(k, keys)
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k, v))
    logits = torch.einsum("nhd,mhd->hnm", q, k) * (dim**-0.5 if sm_scale is None else sm_scale)
    if pos_encoding_mode == "ALIBI":
        slopes = torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])
        logits = logits + slopes[:, None, None] * (keys - at[:, None])
    if logits_soft_cap:
        logits = logits_soft_cap * torch.tanh(logits / logits_soft_cap)
    seen = torch.ones(n, m, dtype=torch.bool) if mask is None else mask
    if causal and mask is None:
        seen = seen & (keys <= at[:, None])
    if window_left >= 0:
        seen = seen & (at[:, None] - keys <= window_left)
    logits = logits.masked_fill(~seen, -math.inf)
    if sink is not None:
        logits = torch.cat([logits, sink[:, None, None].expand(-1, n, 1)], -1)
        v = torch.cat([v, torch.zeros(1, *v.shape[1:])])
    o = torch.einsum("hnm,mhd->nhd", logits.softmax(-1).nan_to_num(), v)
    return o, logits.logsumexp(-1).T / math.log(2)


def close(got, want, tolerance=2e-5):
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.float(), other, atol=tolerance, rtol=tolerance)


class Paged:
    """Requests over random pages."""

    def __init__(self, lens=LENS, layout="NHD", page=PAGE, extra=3, dim=DIM, kv_heads=KV_HEADS, dtype=torch.float32):
        counts = [-(-m // page) for _, m in lens]
        self.lens, self.layout, self.page = lens, layout, page
        self.qo, self.indptr = ends(n for n, _ in lens), ends(counts)
        self.indices = torch.randperm(sum(counts) + extra)[: sum(counts)].int()
        self.last = ints(*((m - 1) % page + 1 for _, m in lens))
        self.pool = torch.randn(sum(counts) + extra, 2, page, kv_heads, dim).to(dtype)
        self.q = torch.randn(int(self.qo[-1]), HEADS, dim).to(dtype)

    @property
    def cache(self):
        return self.pool if self.layout == "NHD" else self.pool.transpose(2, 3).contiguous()

    @property
    def arrays(self):
        return self.qo, self.indptr, self.indices, self.last

    def rows(self, request):
        own = self.indices[self.indptr[request] : self.indptr[request + 1]].long()
        k, v = (self.pool[own, part].flatten(0, 1)[: self.lens[request][1]] for part in (0, 1))
        return self.q[self.qo[request] : self.qo[request + 1]], k, v

    def want(self, **options):
        found = [reference(*self.rows(request), **options) for request in range(len(self.lens))]
        return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def test_every_name_is_documented_or_of_a_documented_module():
    import pathlib

    assert flashinfer.__doc__ and flashinfer.install.__doc__
    for path in pathlib.Path(flashinfer.__file__).parent.glob("*.py"):
        assert path.read_text().startswith('"""'), path


OPTIONS = [
    {},
    {"causal": True},
    {"causal": True, "window_left": 2},
    {"logits_soft_cap": 3.0, "sm_scale": 0.4},
    {"causal": True, "pos_encoding_mode": "ROPE_LLAMA"},
    {"pos_encoding_mode": "ALIBI"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_single_prefill(options, layout):
    q, k, v = torch.randn(5, HEADS, DIM), torch.randn(11, KV_HEADS, DIM), torch.randn(11, KV_HEADS, DIM)
    given = (k, v) if layout == "NHD" else (k.transpose(0, 1).contiguous(), v.transpose(0, 1).contiguous())
    got = flashinfer.single_prefill_with_kv_cache(q, *given, kv_layout=layout, return_lse=True, **options)
    close(got, reference(q, k, v, **options))
    close(flashinfer.single_prefill_with_kv_cache_return_lse(q, *given, kv_layout=layout, **options), got)


def test_single_masks_and_scales():
    q, k, v = torch.randn(5, HEADS, DIM), torch.randn(11, KV_HEADS, DIM), torch.randn(11, KV_HEADS, DIM)
    mask = torch.rand(5, 11) < 0.6
    want = reference(q, k, v, mask=mask)
    close(flashinfer.single_prefill_with_kv_cache(q, k, v, custom_mask=mask, causal=True, return_lse=True), want)
    bits = flashinfer.packbits(mask.reshape(-1), "little")
    close(flashinfer.single_prefill_with_kv_cache(q, k, v, packed_custom_mask=bits, return_lse=True), want)
    scaled = flashinfer.single_prefill_with_kv_cache(q, k, v, k_scale=0.5, v_scale=torch.tensor(3.0), return_lse=True)
    close(scaled, reference(q, k * 0.5, v * 3))
    heads = torch.rand(HEADS), torch.rand(KV_HEADS), torch.rand(KV_HEADS)
    got = flashinfer.single_prefill_with_kv_cache(q, k, v, *heads, return_lse=True)
    close(got, reference(*(x * scale[:, None] for x, scale in zip((q, k, v), heads, strict=True))))


def test_single_decode():
    q, k, v = torch.randn(HEADS, DIM), torch.randn(9, KV_HEADS, DIM), torch.randn(9, KV_HEADS, DIM)
    for options in ({}, {"window_left": 3}, {"pos_encoding_mode": "ROPE_LLAMA"}, {"logits_soft_cap": 2.0}):
        got = flashinfer.single_decode_with_kv_cache(q, k, v, return_lse=True, q_scale=0.5, k_scale=2.0, **options)
        close((x[None] for x in got), reference(q[None], k, v, **options))
    got = flashinfer.single_decode_with_kv_cache(q.half(), k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn))
    want = reference(q.half()[None], k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn))[0][0]
    torch.testing.assert_close(got.float(), want, atol=4e-3, rtol=4e-3)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("as_pair", [False, True])
def test_paged_prefill(options, layout, as_pair):
    batch = Paged(layout=layout)
    cache = (batch.cache[:, 0], batch.cache[:, 1]) if as_pair else batch.cache
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, layout)
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, **options, **HOW)
    want = batch.want(**options)
    close(wrapper.run(batch.q, cache, return_lse=True), want)
    out, lse = torch.empty_like(batch.q), torch.empty(batch.q.shape[:2])
    got = wrapper.run_return_lse(batch.q, cache, out=out, lse=lse)
    assert got[0] is out and got[1] is lse
    close(got, want)
    old = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, layout)
    old.begin_forward(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, **HOW)
    close(old.forward_return_lse(batch.q, cache, **options), want)
    close([old.forward(batch.q, cache, True, "NONE", False)], batch.want(causal=True)[:1])


@pytest.mark.parametrize("wrapper_of", ["paged", "ragged"])
def test_custom_masks(wrapper_of):
    batch = Paged()
    masks = [torch.rand(n, m) < 0.6 for n, m in LENS]
    flat = torch.cat([mask.reshape(-1) for mask in masks])
    sizes = ends(n * m for n, m in LENS)
    bits, at = flashinfer.segment_packbits(flat, sizes, "little")
    assert at.tolist() == ends(-(-n * m // 8) for n, m in LENS).tolist()
    rows = [batch.rows(request) for request in range(len(LENS))]
    found = [reference(*own, mask=mask) for own, mask in zip(rows, masks, strict=True)]
    want = tuple(torch.cat(parts) for parts in zip(*found, strict=True))
    for given in ({"custom_mask": flat, "causal": True}, {"packed_custom_mask": bits}):
        if wrapper_of == "paged":
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
            wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, **given, **HOW)
            got = wrapper.run(batch.q, batch.cache, return_lse=True)
        else:
            wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE)
            wrapper.plan(batch.qo, ends(m for _, m in LENS), HEADS, KV_HEADS, DIM, **given, **HOW)
            got = wrapper.run(batch.q, *(torch.cat(x) for x in list(zip(*rows, strict=True))[1:]), return_lse=True)
        close(got, want)


@pytest.mark.parametrize("options", OPTIONS)
def test_ragged_prefill(options):
    batch = Paged()
    rows = [batch.rows(request) for request in range(len(LENS))]
    k, v = (torch.cat(x) for x in list(zip(*rows, strict=True))[1:])
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE)
    wrapper.plan(batch.qo, ends(m for _, m in LENS), HEADS, KV_HEADS, DIM, **options, **HOW)
    close(wrapper.run(batch.q, k, v, return_lse=True), batch.want(**options))
    wrapper.begin_forward(batch.qo, ends(m for _, m in LENS), HEADS, KV_HEADS, DIM, **HOW)
    close(wrapper.forward_return_lse(batch.q, k, v, **options), batch.want(**options))


DECODE = [(1, 7), (1, 1), (1, 16), (1, 9)]


@pytest.mark.parametrize("options", [options for options in OPTIONS if "causal" not in options or len(options) > 1])
def test_decode(options):
    options = {name: value for name, value in options.items() if name != "causal"}
    batch = Paged(DECODE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, use_tensor_cores=True)
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **options, **HOW)
    want = batch.want(**options)
    close(wrapper.run(batch.q, batch.cache, return_lse=True), want)
    scaled = wrapper.run(batch.q, batch.cache, q_scale=0.5, k_scale=2.0, v_scale=2.0, return_lse=True)
    close(scaled, (2 * want[0], want[1]))
    tensors = wrapper.run(batch.q, batch.cache, k_scale=torch.tensor([1.0]), v_scale=torch.tensor(2.0))
    close([tensors], [2 * want[0]])
    wrapper.begin_forward(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    close([wrapper.forward(batch.q, batch.cache, **options)], want[:1])


def test_decode_of_several_queries():
    batch = Paged([(3, 7), (3, 3), (3, 18)])
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, use_tensor_cores=True)
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, q_len_per_req=3, **HOW)
    close(wrapper.run(batch.q, batch.cache, return_lse=True), batch.want(causal=True))
    with pytest.raises(ValueError, match="q has 8 "):
        wrapper.run(batch.q[:8], batch.cache)


def test_requests_may_have_more_pages_and_no_keys():
    batch = Paged(DECODE)
    # a page more, of which no slot is used, and a request without pages
    indptr = batch.indptr + ints(0, 1, 1, 1, 1)
    indices = torch.cat([batch.indices[: batch.indptr[1]], ints(0), batch.indices[batch.indptr[1] :]])
    indptr, last = torch.cat([indptr, indptr[-1:]]), torch.cat([batch.last, ints(PAGE)])
    last[0] = 0
    batch.lens = [(1, 8), *DECODE[1:]]
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    wrapper.plan(indptr, indices, last, HEADS, KV_HEADS, DIM, PAGE, **HOW)
    o, lse = wrapper.run(torch.cat([batch.q, batch.q[:1]]), batch.cache, return_lse=True)
    close((o[:4], lse[:4]), batch.want())
    assert (o[4] == 0).all() and (lse[4] == -math.inf).all()


def buffers(requests, pages):
    return torch.empty(requests + 1).int(), torch.zeros(pages).int(), torch.empty(requests).int()


@pytest.mark.parametrize("fast", [False, True])
def test_decode_wrappers_of_graphs(fast):
    indptr, indices, last = buffers(4, 40)
    wrapper = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, indptr, indices, last)
    assert wrapper.is_cuda_graph_enabled
    for step in range(4):
        batch = Paged([(1, m + 3 * step) for _, m in DECODE], extra=40 - sum(-(-(m + 3 * step) // 4) for _, m in DECODE))
        if fast and step:
            indptr.copy_(batch.indptr)
            indices[: len(batch.indices)] = batch.indices
            last.copy_(batch.last)
            host = {"global_override_indptr_cpu": batch.indptr}
            flashinfer.fast_decode_plan(
                wrapper, indptr, indices[: len(batch.indices)], last, HEADS, KV_HEADS, DIM, PAGE, **HOW, **host
            )
        else:
            wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
        close(wrapper.run(batch.q, batch.cache, return_lse=True), batch.want())
    assert len(wrapper._plans) == 1
    with pytest.raises(ValueError, match="batch size should be fixed"):
        wrapper.plan(batch.indptr[:4], batch.indices, batch.last[:3], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    with pytest.raises(ValueError, match="allocated buffer"):
        wrapper.plan(batch.indptr, torch.zeros(41).int(), batch.last, HEADS, KV_HEADS, DIM, PAGE, **HOW)


def test_prefill_wrappers_of_graphs():
    indptr, indices, last = buffers(4, 30)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
        WORKSPACE, "NHD", True, torch.empty(5).int(), indptr, indices, last
    )
    for step in range(3):
        lens = [(n, m + 2 * step) for n, m in LENS]
        batch = Paged(lens, extra=30 - sum(-(-m // PAGE) for _, m in lens))
        wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **HOW)
        close(wrapper.run(batch.q, batch.cache, return_lse=True), batch.want(causal=True))
    assert len(wrapper._plans) == 1
    with pytest.raises(attn_rs.Unsupported, match="`custom_mask`"):
        wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, custom_mask=torch.ones(1), **HOW)


def test_ragged_wrappers_of_graphs():
    wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
        WORKSPACE, "NHD", True, torch.empty(3).int(), torch.empty(3).int()
    )
    k, v = torch.randn(12, KV_HEADS, DIM), torch.randn(12, KV_HEADS, DIM)
    q = torch.randn(6, HEADS, DIM)
    for qo, kv in (([0, 2, 6], [0, 3, 12]), ([0, 3, 5], [0, 8, 11])):
        wrapper.plan(ints(*qo), ints(*kv), HEADS, KV_HEADS, DIM, causal=True, **HOW)
        o = wrapper.run(q, k, v)
        for i in range(2):
            own = slice(kv[i], kv[i + 1])
            close([o[qo[i] : qo[i + 1]]], reference(q[qo[i] : qo[i + 1]], k[own], v[own], causal=True)[:1])


def test_sinks():
    batch, sink = Paged(), torch.randn(HEADS)
    want = batch.want(causal=True, sink=sink)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    for _ in range(2):
        wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **HOW)
        close([wrapper.run(batch.q, batch.cache, sinks=sink)], want[:1])
    named = flashinfer.BatchAttentionWithAttentionSinkWrapper(WORKSPACE, "NHD", backend="fa2", head_dim_qk=DIM)
    named.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **HOW)
    close([named.run(batch.q, batch.cache, sink, 0.3)], batch.want(causal=True, sink=sink, sm_scale=0.3)[:1])
    jit_args = ["a name", torch.float32, ["sink"], ["float"], ["sm_scale"], ["double"], "AttentionSink", "struct {};"]
    by_name = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, jit_args=jit_args)
    by_name.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **HOW)
    close([by_name.run(batch.q, batch.cache, sink, 0.3)], batch.want(causal=True, sink=sink, sm_scale=0.3)[:1])


@pytest.mark.parametrize("name", ["plan", "begin_forward"])
def test_fast_decode_plan_as_a_method(name):
    batch = Paged(DECODE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    setattr(wrapper, name, functools.partial(flashinfer.fast_decode_plan, wrapper))
    getattr(wrapper, name)(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    close(wrapper.run(batch.q, batch.cache, return_lse=True), batch.want())


def test_prefill_beside_decode():
    batch, prefill = Paged(DECODE), Paged()
    q, k, v = torch.randn(5, HEADS, DIM), torch.randn(11, KV_HEADS, DIM), torch.randn(11, KV_HEADS, DIM)
    wrapper = flashinfer.PODWithPagedKVCacheWrapper(WORKSPACE)
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    of_both = wrapper.run(q, k, v, batch.q, batch.cache, causal_p=True, sm_scale_p=0.3, causal_d=True)
    close(of_both, (reference(q, k, v, causal=True, sm_scale=0.3)[0], batch.want()[0]))
    with pytest.raises(attn_rs.Unsupported, match="`7` of FlashInfer's private"):
        wrapper._plan_info[7]
    # options in FlashInfer's order, in which POD has no `logits_soft_cap`
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, "NONE", 2, *HOW.values())
    close(wrapper.run(q, k, v, batch.q, batch.cache)[1:], (batch.want(window_left=2)[0],))
    with pytest.raises(TypeError, match="logits_soft_cap"):
        wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, logits_soft_cap=30.0)
    with pytest.raises(attn_rs.Unsupported, match="custom_mask_d"):
        wrapper.run(q, k, v, batch.q, batch.cache, custom_mask_d=torch.ones(1))
    with pytest.raises(ValueError, match="window_left_d is 3 in run and 2 in plan"):
        wrapper.run(q, k, v, batch.q, batch.cache, window_left_d=3)
    with pytest.raises(TypeError, match="sm_scal_d"):
        wrapper.run(q, k, v, batch.q, batch.cache, sm_scal_d=0.3)
    batches = flashinfer.BatchPODWithPagedKVCacheWrapper(WORKSPACE)
    batches.plan(*prefill.arrays, *batch.arrays, HEADS, KV_HEADS, DIM, PAGE, **HOW)
    of_both = batches.run(prefill.q, prefill.cache, batch.q, batch.cache, causal_p=True)
    close(of_both, (prefill.want(causal=True)[0], batch.want()[0]))
    names = [f"{name}_{of}" for of in "pd" for name in ("qo_indptr", "kv_indptr", "kv_indices", "last_page_len")]
    arrays = dict(zip(names, (*prefill.arrays, *batch.arrays), strict=True))
    sizes = {"num_qo_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim": DIM, "page_size": PAGE}
    batches.plan(**arrays, **sizes, window_left=2, data_type=prefill.q.dtype, q_data_type=None)
    of_both = batches.run(prefill.q, prefill.cache, batch.q, batch.cache)
    close(of_both, (prefill.want(window_left=2)[0], batch.want(window_left=2)[0]))
    batches.plan(*arrays.values(), *sizes.values(), "NONE", 2, *HOW.values())
    close(batches.run(prefill.q, prefill.cache, batch.q, batch.cache), of_both)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_xqa(layout):
    lens, sink = [(2, 7), (2, 13), (2, 5)], torch.randn(HEADS)
    batch = Paged(lens, layout)
    table = torch.zeros(3, 4, dtype=torch.int32)
    for row, (first, end) in enumerate(itertools.pairwise(batch.indptr.tolist())):
        table[row, : end - first] = batch.indices[first:end]
    of = table, ints(*(m for _, m in lens)), 13, 0.3, 2.0
    cache = batch.cache.unbind(1)
    o = flashinfer.decode.xqa_batch_decode_with_kv_cache(
        batch.q, cache, WORKSPACE, *of, window_left=4, sinks=sink, kv_layout=layout, q_len_per_req=2
    )
    close([o], [2 * batch.want(causal=True, window_left=4, sm_scale=0.3, sink=sink)[0]])
    # the second draft does not see the first
    mask = torch.tensor([[1, 0], [0, 1]] * 3, dtype=torch.uint8) @ torch.tensor([1, 2], dtype=torch.uint8)
    o = flashinfer.xqa_batch_decode_with_kv_cache(
        batch.q, cache, WORKSPACE, *of, kv_layout=layout, mask=mask.reshape(6, 1), q_len_per_req=2
    )
    with pytest.raises(ValueError, match="6 rows"):
        flashinfer.xqa_batch_decode_with_kv_cache(batch.q, cache, WORKSPACE, *of, kv_layout=layout)
    for row, (_, m) in enumerate(lens):
        seen = torch.ones(2, m, dtype=torch.bool)
        seen[:, m - 2 :] = torch.eye(2, dtype=torch.bool)
        close([o[2 * row : 2 * row + 2]], [2 * reference(*batch.rows(row), mask=seen, sm_scale=0.3)[0]])


def table_of(batch):
    """The block table of a batch, and its numbers of keys."""
    rows = [batch.indices[first:end] for first, end in itertools.pairwise(batch.indptr.tolist())]
    table = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
    return table, ints(*(m for _, m in batch.lens))


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_decode_over_block_tables(layout):
    for step in range(3):  # later steps are planned where the tensors lie
        batch, sink = Paged([(2, 7 + step), (2, 13), (2, 5 + step)], layout), torch.randn(HEADS)
        table, lens = table_of(batch)
        of = batch.q, batch.cache, WORKSPACE, torch.nn.functional.pad(table, (0, 4 - table.shape[1])), lens, 20
        how = {"kv_layout": layout, "q_len_per_req": 2, "window_left": 4, "sinks": [sink]}
        scales = torch.tensor([0.3]), torch.tensor(2.0)
        got = flashinfer.decode.trtllm_batch_decode_with_kv_cache(*of, *scales, **how, return_lse=True)
        want = batch.want(causal=True, window_left=4, sm_scale=0.3, sink=sink)
        close(got, (2 * want[0], want[1]))
        log2 = {"bmm1_scale_log2": torch.tensor([0.3 * math.log2(math.e)]), "out": torch.empty_like(batch.q).half()}
        o = flashinfer.trtllm_batch_decode_with_kv_cache(*of, 1.0, 2.0, **how, **log2)
        assert o is log2["out"]
        close([o], [2 * want[0]], 4e-3)
    fp8 = flashinfer.trtllm_batch_decode_with_kv_cache(*of, 1.0, 1e6, **how, out_dtype=torch.float8_e4m3fn)
    assert fp8.dtype == torch.float8_e4m3fn and fp8.float().abs().max() == 448


@pytest.mark.parametrize("causal", [False, True])
def test_prefill_over_block_tables(causal):
    batch = Paged(layout="HND")
    table, lens = table_of(batch)
    sizes = 5, 13, 0.5, 1.0, len(LENS), batch.qo, ends(m for _, m in LENS)
    for _ in range(2):
        got = flashinfer.prefill.trtllm_batch_context_with_kv_cache(
            batch.q, batch.cache, WORKSPACE, table, lens, *sizes, causal=causal, return_lse=True
        )
        close(got, batch.want(causal=causal, sm_scale=0.5))


@pytest.mark.parametrize("four", [False, True])
def test_latent_decode_over_block_tables(four):
    latent, lens = torch.randn(12, PAGE, 48), [7, 9]
    table = torch.tensor([[3, 5, -1], [1, 0, 9]]).int()
    q = torch.randn(2, 2, HEADS, 48)
    pool = latent[:, None] if four else latent
    how = {"bmm1_scale": 0.2, "bmm2_scale": 3.0, "return_lse": True}
    of = q, pool, WORKSPACE, 128, 32, 16, table, ints(*lens), 12
    o, lse = flashinfer.mla.trtllm_batch_decode_with_kv_cache_mla(*of, **how)
    out, own = torch.empty(4, HEADS, 32).bfloat16(), torch.empty(4, HEADS)
    flat = q.flatten(0, 1), *of[1:]
    flashinfer.trtllm_batch_decode_with_kv_cache_mla(*flat, **how, cum_seq_lens_q=ints(0, 2, 4), out=out, lse=own)
    assert o.dtype == torch.bfloat16 and torch.equal(o.flatten(0, 1), out) and torch.equal(lse, own)
    for request, m in enumerate(lens):
        keys = latent[table[request, : -(-m // PAGE)].long()].flatten(0, 1)[:m, None]
        want = reference(q[request], keys, keys[..., :32], causal=True, sm_scale=0.2)
        close([o[request]], [3 * want[0]], 2e-2)
        close([lse[2 * request : 2 * request + 2]], [want[1] * math.log(2)])


def test_what_calls_over_block_tables_refuse():
    batch = Paged([(1, 7)])
    of = batch.q, batch.cache, WORKSPACE, *table_of(batch), 7
    call = functools.partial(flashinfer.trtllm_batch_decode_with_kv_cache, kv_layout="NHD")
    for given in ({"skip_softmax_threshold_scale_factor": 1.0}, {"uses_shared_paged_kv_idx": False},
                  {"enable_block_sparse_attention": True}):  # fmt: skip
        with pytest.raises(attn_rs.Unsupported, match=next(iter(given))):
            call(*of, **given)
    with pytest.raises(attn_rs.Unsupported, match="nvfp4"):
        call(*of, out_dtype="nvfp4")
    with pytest.raises(attn_rs.Unsupported, match="trtllm-gen"):
        call(*of, kv_cache_sf=batch.cache, backend="trtllm-gen")
    with pytest.raises(TypeError, match="unknown"):
        call(*of, unknown=1)
    assert call(*of, uses_shared_paged_kv_idx=True, max_q_len=1, enable_pdl=True).shape == batch.q.shape
    with pytest.raises(attn_rs.Unsupported, match="`sparse_mla_top_k`"):
        flashinfer.trtllm_batch_decode_with_kv_cache_mla(*of[:3], 128, 32, 16, *of[3:], sparse_mla_top_k=4)


def test_workspaces_of_any_size():
    batch = Paged(DECODE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    sizes = wrapper.workspace_size(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    wrapper.reset_workspace_buffer(*(torch.empty(size, dtype=torch.uint8) for size in sizes))
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    close([wrapper.run(batch.q, batch.cache)], batch.want()[:1])


def test_options_by_position():
    batch = Paged()
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, "NHD", False, None)
    # head_dim_vo, two masks, causal, positions, fp16, sm_scale, window_left, cap, rope scale, rope theta, types
    options = None, None, None, True, "NONE", False, 0.4, 2, 3.0, None, None, torch.float32, torch.float32
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, *options)
    want = batch.want(causal=True, sm_scale=0.4, window_left=2, logits_soft_cap=3.0)
    close(wrapper.run(batch.q, batch.cache, return_lse=True), want)
    for text, given, named in (
        ("multiple values", options, {"head_dim_vo": DIM}), ("too many positional", [None] * 40, {}),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, *given, **named)
    with pytest.raises(TypeError, match="missing a required argument: 'page_size'"):
        wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM)
    names = list(inspect.signature(type(wrapper).plan).parameters)
    assert names[:2] == ["self", "qo_indptr"] and names[-1] == "disable_split_kv"


def test_batch_attention():
    batch = Paged()
    wrapper = flashinfer.BatchAttention(device="cpu")
    lens = ints(*(m for _, m in LENS))
    sizes = HEADS, KV_HEADS, DIM, DIM, PAGE
    wrapper.plan(*batch.arrays[:3], lens, *sizes, causal=True, logits_soft_cap=5.0, **HOW)
    close(wrapper.run(batch.q, batch.cache, logits_soft_cap=5.0), batch.want(causal=True, logits_soft_cap=5.0))
    with pytest.raises(ValueError, match="logits_soft_cap is 6.0 in run and 5.0 in plan"):
        wrapper.run(batch.q, batch.cache, logits_soft_cap=6.0)


def test_types():
    batch = Paged(dtype=torch.bfloat16)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    fp8 = batch.pool.to(torch.float8_e4m3fn)
    types = {"q_data_type": torch.bfloat16, "kv_data_type": "float8_e4m3fn", "o_data_type": torch.float32}
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **types)
    o = wrapper.run(batch.q, fp8, v_scale=2.0)
    batch.pool = fp8
    assert o.dtype == torch.float32
    close([o], [2 * batch.want(causal=True)[0]], 2e-2)
    with pytest.raises(ValueError, match="dtype of q torch.float16 does not match"):
        wrapper.run(batch.q.half(), fp8)
    of_fp8 = {"q_data_type": torch.float8_e4m3fn, "o_data_type": torch.float16}
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **of_fp8)
    batch.q = batch.q.to(torch.float8_e4m3fn)
    o = wrapper.run(batch.q, fp8, 1.0, 1.0, 2.0)
    assert o.dtype == torch.float16
    close([o], [2 * batch.want(causal=True)[0]], 1e-2)
    of_fp8["o_data_type"] = torch.float8_e4m3fn
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **of_fp8)
    for out in (None, torch.empty(batch.q.shape).to(torch.float8_e4m3fn), torch.empty(batch.q.shape)):
        o = wrapper.run(batch.q, fp8, out=out)
        assert o.dtype == (torch.float8_e4m3fn if out is None else out.dtype)
        close([o], [batch.want(causal=True)[0]], 0.1)


def test_multi_item_scoring():
    # a prefix of 3 and items of 1, 2 and 3 tokens, which see the prefix and themselves, but for the delimiters before
    batch = Paged([(6, 9)])
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    given = {"prefix_len_ptr": torch.tensor([3]), "token_pos_in_items_len": 6}
    pos = torch.tensor([0, 0, 1, 0, 1, 2], dtype=torch.uint16)
    wrapper.plan(
        *batch.arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, token_pos_in_items_ptr=pos, **given, **HOW
    )
    keys, at = torch.arange(9), torch.arange(6) + 3
    starts = torch.tensor([3, 4, 4, 6, 6, 6])
    seen = (keys <= at[:, None]) & ((keys < 3) | (keys > starts[:, None]))
    close([wrapper.run(batch.q, batch.cache)], batch.want(mask=seen)[:1])


def test_merges():
    states = [(torch.randn(5, HEADS, DIM), torch.randn(5, HEADS)) for _ in range(3)]
    v, s = (torch.stack(x, 1) for x in zip(*states, strict=True))
    weights = (s * math.log(2)).softmax(1)
    want = (weights[..., None] * v).sum(1), (s * math.log(2)).logsumexp(1) / math.log(2)
    close(flashinfer.merge_states(v, s), want)
    two = flashinfer.merge_state(*states[0], *states[1])
    close(flashinfer.merge_state(*two, *states[2]), want)
    kept, mask = [x.clone() for x in states[0]], torch.tensor([True, False, True, True, False])
    flashinfer.merge_state_in_place(*kept, *states[1], mask)
    for got, merged, own in zip(kept, two, states[0], strict=True):
        close([got], [torch.where(mask.view(-1, *[1] * (own.dim() - 1)), merged, own)])


def test_cascades():
    own = Paged([(2, 5), (1, 3), (3, 9)])
    shared, last = torch.tensor([0, 1, 2]).int(), ints(3)
    pool = torch.randn(20, 2, PAGE, KV_HEADS, DIM)
    own.pool, own.indices = pool, own.indices + 4
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(2, WORKSPACE)
    wrapper.plan(
        [ints(0, 6), own.qo], [ints(0, 3), own.indptr], [shared, own.indices], [last, own.last], HEADS, KV_HEADS, DIM,
        PAGE, causal=True, **HOW,
    )  # fmt: skip
    o = wrapper.run(own.q, pool)
    prefix = [pool[:3, part].flatten(0, 1)[:11] for part in (0, 1)]
    for request in range(3):
        q, *rows = own.rows(request)
        k, v = (torch.cat(parts) for parts in zip(prefix, rows, strict=True))
        close([o[own.qo[request] : own.qo[request + 1]]], reference(q, k, v, causal=True)[:1])


def test_shared_prefixes():
    batch = Paged(DECODE, dtype=torch.float16)
    k, v = torch.randn(6, KV_HEADS, DIM).half(), torch.randn(6, KV_HEADS, DIM).half()
    for name in ("Decode", "Prefill"):
        wrapper = getattr(flashinfer, f"Batch{name}WithSharedPrefixPagedKVCacheWrapper")(WORKSPACE)
        wrapper.begin_forward(*batch.arrays[name == "Decode" :], HEADS, KV_HEADS, DIM, PAGE)
        o = wrapper.forward(batch.q, k, v, batch.cache)
        for request in range(4):
            q, *rows = batch.rows(request)
            both = (torch.cat(parts) for parts in zip((k, v), rows, strict=True))
            close([o[request : request + 1]], reference(q, *both)[:1], 4e-3)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_appends(layout, dtype):
    batch = Paged([(3, 7), (1, 9), (5, 5)], layout, dtype=dtype)
    cache, n = batch.cache, int(batch.qo[-1])
    k, v = torch.randn(n + 2, KV_HEADS, DIM).to(dtype), torch.randn(n + 2, KV_HEADS, DIM).to(dtype)
    lens = flashinfer.get_seq_lens(batch.indptr, batch.last, PAGE)
    assert lens.tolist() == [7, 9, 5]
    requests, positions = flashinfer.get_batch_indices_positions(batch.qo, lens, n + 2)
    assert requests.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2, -1, -1]
    assert positions.tolist() == [4, 5, 6, 8, 0, 1, 2, 3, 4, 0, 0]
    arrays = batch.indices, batch.indptr, batch.last
    flashinfer.append_paged_kv_cache(k, v, requests, positions, cache, *arrays, layout)
    batch.pool = cache if layout == "NHD" else cache.transpose(2, 3)
    for request, (count, _) in enumerate(batch.lens):
        _, keys, values = batch.rows(request)
        rows = slice(batch.qo[request], batch.qo[request + 1])
        assert torch.equal(keys[-count:], k[rows]) and torch.equal(values[-count:], v[rows])


def test_appends_of_mla():
    ckv, kpe = torch.zeros(6, PAGE, 32), torch.zeros(6, PAGE, 16)
    new, requests, positions = (torch.randn(3, 32), torch.randn(3, 16)), ints(0, 1, 1), ints(5, 0, 1)
    flashinfer.append_paged_mla_kv_cache(
        *new, requests, positions, ckv, kpe, ints(4, 2, 1), ints(0, 2, 3), ints(2, 2)
    )
    for pool, rows in zip((ckv, kpe), new, strict=True):
        assert torch.equal(pool[2, 1], rows[0]) and torch.equal(pool[1, :2], rows[1:])
        assert pool.any(-1).sum() == 3


CODES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def test_nvfp4():
    dim, batch = 64, Paged([(3, 7), (5, 5)], dim=64, dtype=torch.float16)
    pool = torch.zeros(*batch.pool.shape[:-1], dim // 2, dtype=torch.uint8)
    sf = torch.zeros(*batch.pool.shape[:-1], dim // 16, dtype=torch.float8_e4m3fn)
    new = [torch.randn(12, KV_HEADS, dim).half() for _ in range(2)]
    requests, positions = flashinfer.get_batch_indices_positions(ints(0, 7, 12), ints(7, 5), 12)
    arrays = batch.indices, batch.indptr, batch.last
    flashinfer.nvfp4_quantize_append_paged_kv_cache(*new, requests, positions, pool, sf, *arrays, 0.5, 0.25)
    others = torch.zeros_like(pool), torch.zeros_like(sf)
    slots = batch.indices[batch.indptr[requests.long()] + positions // PAGE] * PAGE + positions % PAGE
    flashinfer.nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(*new, slots, *others, 0.5, 0.25)
    assert torch.equal(pool, others[0]) and torch.equal(sf.byte(), others[1].byte())
    codes = torch.stack([pool & 15, pool >> 4], -1).flatten(-2)
    batch.pool = CODES[codes.long()] * sf.float().repeat_interleave(16, -1)
    batch.pool[:, 0] *= 0.5
    batch.pool[:, 1] *= 0.25
    for rows, part in zip(new, (1, 2), strict=True):
        stored = torch.cat([batch.rows(0)[part], batch.rows(1)[part]])
        assert ((stored - rows.float()).abs() <= 0.26 * rows.abs().amax()).all()
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    types = {"q_data_type": torch.float16, "kv_data_type": torch.uint8}
    wrapper.plan(*batch.arrays, HEADS, KV_HEADS, dim, PAGE, causal=True, **types)
    o = wrapper.run(batch.q, pool, kv_cache_sf=sf, k_scale=0.5, v_scale=0.25)
    close([o], batch.want(causal=True)[:1], 4e-3)
    with pytest.raises(ValueError, match="kv_cache_sf must be provided"):
        wrapper.run(batch.q, pool)
    # codes and scales side by side, at strides that kernels do not load from
    both = torch.cat([pool, sf.view(torch.uint8)], -1)
    parts = both[..., : dim // 2], both[..., dim // 2 :]
    assert parts[0].stride(-2) % 16
    assert torch.equal(wrapper.run(batch.q, parts[0], kv_cache_sf=parts[1], k_scale=0.5, v_scale=0.25), o)
    gaps = sf.view(torch.uint8).repeat_interleave(2, -1)[..., ::2]
    with pytest.raises(ValueError, match="innermost stride must be 1"):
        wrapper.run(batch.q, pool, kv_cache_sf=gaps)
    with pytest.raises(ValueError, match="positive finite global decode scale"):
        flashinfer.nvfp4_quantize_append_paged_kv_cache(*new, requests, positions, pool, sf, *arrays, 0.0, 0.25)


@pytest.mark.parametrize("interleave", [False, True])
@pytest.mark.parametrize("rotary", [None, 8])
def test_rope(interleave, rotary):
    q, k = torch.randn(6, HEADS, DIM), torch.randn(6, KV_HEADS, DIM)
    at = ints(5, 6, 7, 0, 1, 2)
    how = {"rotary_dim": rotary, "interleave": interleave, "rope_scale": 2.0, "rope_theta": 1e3}
    n = rotary or DIM

    def want(x):
        return torch.cat([rotated(x[..., :n], at, 1e3, 2.0, interleave), x[..., n:]], -1)

    close(flashinfer.apply_rope_pos_ids(q, k, at, **how), (want(q), want(k)), 1e-5)
    requests = ints(0, 3, 6), ints(5, 0)
    close(flashinfer.apply_rope(q, k, *requests, **how), (want(q), want(k)), 1e-5)
    for name, args in (("apply_rope_pos_ids_inplace", (at,)), ("apply_rope_inplace", requests)):
        rows = q.clone(), k.clone()
        getattr(flashinfer, name)(*rows, *args, **how)
        close(rows, (want(q), want(k)), 1e-5)


def test_llama31_rope():
    q, k, at = torch.randn(5, HEADS, 32), torch.randn(5, KV_HEADS, 32), ints(0, 9, 100, 9000, 3)
    frequency = 5e5 ** (-torch.arange(16).double() / 16)
    wavelength = 2 * math.pi / frequency
    smooth = ((8192 / wavelength - 1) / 3).clamp(0, 1)
    angle = at[:, None].double() * ((1 - smooth) * frequency / 8 + smooth * frequency)
    cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]

    def want(x):
        a, b = x[..., :16], x[..., 16:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    close(flashinfer.apply_llama31_rope_pos_ids(q, k, at), (want(q), want(k)), 1e-3)
    rows = q.clone(), k.clone()
    flashinfer.apply_llama31_rope_pos_ids_inplace(*rows, at)
    close(rows, (want(q), want(k)), 1e-3)
    got = flashinfer.apply_llama31_rope(q, k, ints(0, 5), ints(0))
    close(got, flashinfer.apply_llama31_rope_pos_ids(q, k, torch.arange(5).int()), 1e-6)


@pytest.mark.parametrize("is_neox", [False, True])
def test_rope_by_a_table(is_neox):
    angle = torch.arange(40)[:, None] * 1e3 ** (-torch.arange(4) / 4)
    table, at = torch.cat([angle.cos(), angle.sin()], -1), torch.tensor([3, 39, 0])
    q, k = torch.randn(3, HEADS * DIM), torch.randn(3, KV_HEADS * DIM)

    def want(x):
        x = x.reshape(3, -1, DIM)
        return torch.cat([rotated(x[..., :8], at, 1e3, 1.0, not is_neox), x[..., 8:]], -1)

    expected = want(q).flatten(1), want(k).flatten(1)
    close(flashinfer.apply_rope_with_cos_sin_cache(at, q, k, DIM, table, is_neox), expected, 1e-5)
    rows = q.clone(), k.clone()
    flashinfer.apply_rope_with_cos_sin_cache_inplace(
        positions=at, query=rows[0], key=rows[1], head_size=DIM, cos_sin_cache=table, is_neox=is_neox
    )
    close(rows, expected, 1e-5)
    # the values of the table are read anew where they change
    table[:, 4:] = 0
    table[:, :4] = 1
    close(flashinfer.apply_rope_with_cos_sin_cache(at, q, k, DIM, table, is_neox), (q, k), 1e-6)
    with pytest.raises(ValueError, match="cos_sin_cache should be float32"):
        flashinfer.apply_rope_with_cos_sin_cache(at, q, k, DIM, table.half())


@pytest.mark.parametrize("in_one_launch", [False, True])
@pytest.mark.parametrize("is_mla", [False, True])
def test_rope_to_fp8(is_mla, in_one_launch):
    angle = torch.arange(40)[:, None] * 1e3 ** (-torch.arange(4) / 4)
    table, at = torch.cat([angle.cos(), angle.sin()], -1), torch.tensor([3, 39, 0])
    q, q_rest = torch.randn(3, HEADS, 8), torch.randn(3, HEADS, 24)
    k, k_rest = (torch.randn(3, *([] if is_mla else [KV_HEADS]), dim) for dim in (8, 24))
    v = None if is_mla else torch.randn(3, KV_HEADS, 32)
    heads, dims = ([], (24, 8)) if is_mla else ([KV_HEADS], (32, 32))
    pools = tuple(torch.zeros(4, PAGE, *heads, dim).to(torch.float8_e4m3fn) for dim in dims)
    positions, outs = ints(5, 2, 0), {}
    if in_one_launch:
        at = positions
        outs = {name: torch.zeros(x.shape).to(pools[0].dtype) for name, x in (("q_rope_out", q), ("q_nope_out", q_rest))}
        q, q_rest = torch.cat([q, q_rest], -1).split((8, 24), -1)
    places = ints(2, 1), ints(0, 2), ints(0, 0, -1), positions
    given = q, k, q_rest, k_rest, v, table, at, pools, *places
    got = flashinfer.rope.rope_quantize_fp8_append_paged_kv_cache(
        *given, is_neox=False, quant_scale_q=2.0, quant_scale_kv=0.5, page_size=PAGE, **outs
    )
    assert all(x is y for x, y in zip(got, outs.values(), strict=False))

    def fp8(x, scale):
        return (x * scale).to(torch.float8_e4m3fn).float()

    turned = rotated(k if k.dim() == 3 else k[:, None], at, 1e3, 1.0, True).reshape(k.shape)
    close(got, (fp8(rotated(q, at, 1e3, 1.0, True), 2.0), fp8(q_rest, 2.0)), 0.1)
    rows = (k_rest, turned) if is_mla else (torch.cat([turned, k_rest], -1), v)
    for pool, row in zip(pools, rows, strict=True):
        # positions 5 and 2 of a request over the pages 2 and 1; the third token is left out
        close([pool[1, 1], pool[2, 2]], [fp8(row[0], 0.5), fp8(row[1], 0.5)], 0.1)
        assert int((pool.float() != 0).flatten(2).any(2).sum()) == 2


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_mla(beside, causal):
    latent = torch.randn(12, PAGE, 48)
    ckv, kpe = latent[..., :32], latent[..., 32:]
    if not beside:
        ckv, kpe = ckv.contiguous(), kpe.contiguous()
    lens = [(2, 7), (1, 9), (3, 3)]
    kv, indices = ends([3, 3, 1]), torch.randperm(12)[:7].int()  # a page more than the keys of the first need
    q = torch.randn(6, HEADS, 48)
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(WORKSPACE)
    arrays = ends(n for n, _ in lens), kv, indices, ints(*(m for _, m in lens))
    longer = arrays[0], torch.cat([kv, kv[-1:]]), *arrays[2:]  # of which no more is read
    wrapper.plan(*longer, HEADS, 32, 16, PAGE, causal, 0.2, torch.float32, torch.float32)
    o, lse = wrapper.run(q[..., :32], q[..., 32:], ckv, kpe, return_lse=True)
    for request, (_, m) in enumerate(lens):
        rows = slice(arrays[0][request], arrays[0][request + 1])
        keys = latent[indices[kv[request] : kv[request + 1]].long()].flatten(0, 1)[:m, None]
        want = reference(q[rows], keys, keys[..., :32], causal=causal, sm_scale=0.2)
        close((o[rows], lse[rows]), want)
    natural = wrapper.run(q[..., :32], q[..., 32:], ckv, kpe, return_lse=True, return_lse_base_on_e=True)[1]
    close([natural], [lse * math.log(2)])
    with pytest.raises(attn_rs.Unsupported, match="`page_table`"):
        wrapper.run(q[..., :32], q[..., 32:], ckv, kpe, page_table=torch.zeros(1))


def test_fp8_mla_with_scales_of_groups():
    ckv, kpe = torch.randn(6, PAGE, 256).to(torch.float8_e4m3fn), torch.randn(6, PAGE, 32).to(torch.float8_e4m3fn)
    scales, q = torch.rand(6, PAGE, 2) + 0.5, torch.randn(2, HEADS, 288).bfloat16()
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(WORKSPACE)
    types = torch.bfloat16, torch.float8_e4m3fn
    wrapper.plan(ints(0, 1, 2), ints(0, 2, 3), ints(4, 1, 2), ints(7, 3), HEADS, 256, 32, PAGE, False, 0.1, *types)
    parts = q[..., :256], q[..., 256:], ckv, kpe
    o = wrapper.run(*parts, ckv_scale_arr=scales, kpe_scale=0.5)
    rows = torch.cat([ckv.float() * scales.repeat_interleave(128, -1), kpe.float() * 0.5], -1)
    for request, (pages, m) in enumerate((([4, 1], 7), ([2], 3))):
        keys = rows[pages].flatten(0, 1)[:m, None]
        close([o[request : request + 1]], reference(q[request, None], keys, keys[..., :256], sm_scale=0.1)[:1], 3e-2)
    for given in ({}, {"ckv_scale": 1.0, "ckv_scale_arr": scales}):
        with pytest.raises(ValueError, match="Exactly one of ckv_scale or ckv_scale_arr"):
            wrapper.run(*parts, **given, kpe_scale=1.0)
    with pytest.raises(ValueError, match="Invalid shape of ckv_scale_arr"):
        wrapper.run(*parts, ckv_scale_arr=scales[..., :1], kpe_scale=1.0)


@pytest.mark.parametrize("in_graphs", [False, True])
def test_the_older_wrapper_of_mla(in_graphs):
    ckv, kpe, q = torch.randn(9, PAGE, 64), torch.randn(9, PAGE, 8), torch.randn(2, HEADS, 72)
    given = dict(zip(("paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"),
                     buffers(2, 9), strict=True)) if in_graphs else {}  # fmt: skip
    wrapper = flashinfer.BatchDecodeMlaWithPagedKVCacheWrapper(WORKSPACE, in_graphs, True, **given)
    how = {"logits_soft_cap": 3.0, "data_type": torch.float32, "rope_theta": 1e4}
    wrapper.plan(ints(0, 2, 3), ints(4, 1, 2), ints(3, 2), HEADS, 64, PAGE, 0.2, **how)
    o, lse = wrapper.run(q[..., :64], q[..., 64:], ckv, kpe, k_scale=2.0, v_scale=0.5, return_lse=True)
    for request, (pages, m) in enumerate((([4, 1], 7), ([2], 2))):
        keys = torch.cat([ckv, kpe], -1)[pages].flatten(0, 1)[:m, None]
        want = reference(q[request, None], keys, keys[..., :64], sm_scale=0.4, logits_soft_cap=3.0)
        close((o[request : request + 1], lse[request : request + 1]), (0.5 * want[0], want[1]))


@pytest.mark.parametrize("kind", ["plain", "mask", "packed"])
def test_block_sparse(kind):
    rows, columns, block = 3, 4, (2, 3)
    table = torch.rand(rows, columns) < 0.6
    table[0, 0] = True
    indptr, indices = ends(table.sum(1).tolist()), table.nonzero()[:, 1].int()
    q, k, v = torch.randn(6, HEADS, DIM), torch.randn(12, KV_HEADS, DIM), torch.randn(12, KV_HEADS, DIM)
    mask = torch.rand(len(indices), *block) < 0.7
    seen = torch.zeros(6, 12, dtype=torch.bool)
    for own, (row, column) in zip(mask, table.nonzero().tolist(), strict=True):
        seen[2 * row :, 3 * column :][:2, :3] = own if kind != "plain" else True
    given = {"plain": {}, "mask": {"mask": mask}}.get(kind)
    if given is None:
        lines = [own.transpose(0, 1).reshape(-1) for own in mask.split(indptr.diff().tolist())]
        given = {"packed_mask": torch.cat([flashinfer.packbits(line, "little") for line in lines])}
    wrapper = flashinfer.BlockSparseAttentionWrapper(WORKSPACE)
    wrapper.plan(indptr, indices, 6, 12, *block, HEADS, KV_HEADS, DIM, **given, **HOW)
    close(wrapper.run(q, k, v, return_lse=True), reference(q, k, v, mask=seen))
    close([wrapper.forward(q, k, v, sm_scale=0.5)], reference(q, k, v, mask=seen, sm_scale=0.5)[:1])
    with pytest.raises(attn_rs.Unsupported, match="`causal`"):
        wrapper.plan(indptr, indices, 6, 12, *block, HEADS, KV_HEADS, DIM, causal=True)


def test_variable_blocks():
    table = torch.rand(KV_HEADS, 3, 4) < 0.6
    rows, columns = ints(1, 3, 2).expand(KV_HEADS, 3), torch.stack([ints(5, 1, 2, 3), ints(2, 2, 4, 3)])
    q, k, v = torch.randn(HEADS, 6, DIM), torch.randn(KV_HEADS, 11, DIM), torch.randn(KV_HEADS, 11, DIM)
    wrapper = flashinfer.VariableBlockSparseAttentionWrapper(WORKSPACE)
    wrapper.plan(table, rows, columns, HEADS, KV_HEADS, DIM, **HOW)
    o, lse = wrapper.run(q, k, v, return_lse=True)
    for head in range(HEADS):
        of = head // 2
        seen = table[of].repeat_interleave(rows[of], 0).repeat_interleave(columns[of], 1)
        one = (x[i : i + 1].transpose(0, 1) for x, i in ((q, head), (k, of), (v, of)))
        want = reference(*one, mask=seen)
        close((o[head, :, None], lse[head, :, None]), want)


@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_packbits(bitorder):
    import numpy as np

    x = torch.rand(21) < 0.5
    want = np.packbits(x.numpy(), bitorder=bitorder)
    assert flashinfer.packbits(x, bitorder).tolist() == want.tolist()
    bits, at = flashinfer.segment_packbits(x, ints(0, 3, 3, 21), bitorder)
    assert at.tolist() == [0, 1, 1, 4]
    parts = [np.packbits(x[a:b].numpy(), bitorder=bitorder) for a, b in ((0, 3), (3, 21))]
    assert bits.tolist() == np.concatenate(parts).tolist()


def test_filters():
    logits = torch.randn(5, 33)
    probs = logits.softmax(-1)
    close([flashinfer.sampling.softmax(logits, 0.5)], [(logits / 0.5).softmax(-1)], 1e-6)
    each = torch.tensor([0.5, 1.0, 2.0, 0.7, 1.3])
    close([flashinfer.sampling.softmax(logits, each)], [(logits / each[:, None]).softmax(-1)], 1e-6)
    threshold = probs.sort(-1, descending=True).values[:, 6:7]
    kept = torch.where(probs >= threshold, probs, 0)
    close([flashinfer.top_k_renorm_probs(probs, 7)], [kept / kept.sum(-1, keepdim=True)], 1e-6)
    close([flashinfer.top_k_renorm_probs(probs, torch.full((5,), 7))], [kept / kept.sum(-1, keepdim=True)], 1e-6)
    masked = flashinfer.top_k_mask_logits(logits, 7)
    assert torch.equal(masked, torch.where(probs >= threshold, logits, -math.inf))
    order = probs.sort(-1, descending=True)
    keep = order.values.cumsum(-1) - order.values < 0.6
    nucleus = torch.zeros_like(probs).scatter(1, order.indices, torch.where(keep, order.values, 0))
    got = flashinfer.sampling.top_p_renorm_probs(probs, 0.6)
    close([got], [nucleus / nucleus.sum(-1, keepdim=True)], 1e-6)


def test_draws():
    probs = torch.randn(1, 20).softmax(-1)
    many, rows = torch.zeros(2000).int(), torch.zeros(200).int()
    sampling = flashinfer.sampling
    drawn = sampling.sampling_from_probs(probs, indices=many, seed=7, offset=0)
    assert drawn.dtype == torch.int32
    frequency = torch.bincount(drawn, minlength=20) / 2000
    assert (frequency - probs[0]).abs().max() < 0.05
    drawn = drawn[:200]
    assert torch.equal(drawn, sampling.sampling_from_probs(probs, rows, True, None, False, 7, 0))
    assert not torch.equal(drawn, sampling.sampling_from_probs(probs, rows, seed=7, offset=1))
    assert not torch.equal(drawn, sampling.sampling_from_probs(probs, rows, seed=8, offset=0))
    generator = torch.Generator().manual_seed(3)
    first = sampling.sampling_from_logits(probs.log().expand(50, -1), generator=generator)
    again = sampling.sampling_from_logits(probs.log().expand(50, -1), generator=generator.manual_seed(3))
    assert torch.equal(first, again)
    order = probs[0].argsort(descending=True)
    allowed = set(order[:3].tolist())
    assert set(sampling.top_k_sampling_from_probs(probs, 3, rows).tolist()) == allowed
    least = probs[0, order[3]] / probs[0, order[0]]
    below = float(least + probs[0, order[2]] / probs[0, order[0]]) / 2
    assert set(sampling.min_p_sampling_from_probs(probs, below, rows).tolist()) == allowed
    mass = float(probs[0, order[:3]].sum() - probs[0, order[2]] / 2)
    assert set(sampling.top_p_sampling_from_probs(probs, mass, rows).tolist()) == allowed
    for of_logits in (False, True):
        call = sampling.top_k_top_p_sampling_from_logits if of_logits else sampling.top_k_top_p_sampling_from_probs
        source = probs.log() if of_logits else probs
        joint = set(call(source, 5, mass, rows, "joint").tolist())
        assert joint == allowed
        assert set(call(source, 3, 0.9999, rows, filter_apply_order="top_k_first").tolist()) == allowed
    with pytest.raises(ValueError, match="Invalid filter_apply_order"):
        sampling.top_k_top_p_sampling_from_probs(probs, 5, 0.5, filter_apply_order="both")


def test_rows_without_a_token():
    probs = torch.full((3, 9), math.nan)
    probs[1] = 1 / 9
    tokens, valid = flashinfer.sampling.top_k_sampling_from_probs(probs, 4, return_valid=True)
    assert valid.tolist() == [False, True, False] and tokens[0] == 0 and tokens[2] == 0
    with pytest.raises(ValueError, match="contains NaN"):
        flashinfer.sampling.sampling_from_probs(probs, check_nan=True)
    for wrong, text in ((torch.tensor(0.5), "0-dimensional"), (torch.ones(2, 2), "2D tensor"), (torch.ones(2), "has 2")):
        with pytest.raises(ValueError, match=text):
            flashinfer.sampling.min_p_sampling_from_probs(probs, wrong)


def test_chains():
    drafts, ids = torch.rand(4, 3, 11).softmax(-1), torch.randint(11, (4, 3))
    target = torch.zeros(4, 4, 11)
    tokens = torch.cat([ids, torch.randint(11, (4, 1))], 1)
    target.scatter_(2, tokens[..., None], 1.0)
    counts = torch.ones(4).int(), torch.full((4,), 10).int()
    got = flashinfer.chain_speculative_sampling(drafts, ids, target, *counts)
    assert torch.equal(got[0], tokens.int())
    assert got[1] is counts[0] and got[1].tolist() == [4] * 4 and got[2].tolist() == [13] * 4


REFUSED = [
    ("jit_args", lambda: flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, jit_args=["name", "struct {};"])),
    ("_cached_module|private", lambda: flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)._cached_module.plan()),
    ("cudnn_batch_decode", lambda: flashinfer.decode.cudnn_batch_decode_with_kv_cache()),
    ("trtllm_fmha_v2_prefill", lambda: flashinfer.prefill.trtllm_fmha_v2_prefill()),
    ("trtllm_ragged_attention", lambda: flashinfer.prefill.trtllm_ragged_attention_deepseek()),
    ("with_jit_module", lambda: flashinfer.decode.single_decode_with_kv_cache_with_jit_module()),
    ("rotary dim of 12", lambda: flashinfer.apply_rope_pos_ids(*[torch.zeros(1, 1, 16)] * 2, ints(0), 12)),
]


@pytest.mark.parametrize(("text", "call"), REFUSED, ids=[text for text, _ in REFUSED])
def test_what_is_refused(text, call):
    with pytest.raises(attn_rs.Unsupported, match=text):
        call()


def test_what_a_run_refuses():
    batch = Paged(DECODE)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    with pytest.raises(attn_rs.Unsupported, match="`window_right`"):
        wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, window_right=1, **HOW)
    with pytest.raises(TypeError, match="unknown"):
        wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, unknown=1, **HOW)
    with pytest.raises(KeyError, match="Invalid pos_encoding_mode"):
        wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, pos_encoding_mode="other", **HOW)
    with pytest.raises(KeyError, match="Invalid kv_layout"):
        flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, "NDH")
    wrapper.plan(*batch.arrays[1:], HEADS, KV_HEADS, DIM, PAGE, **HOW)
    with pytest.raises(attn_rs.Unsupported, match="`skip_softmax_threshold_scale_factor`"):
        wrapper.run(batch.q, batch.cache, skip_softmax_threshold_scale_factor=1.0)
    with pytest.raises(attn_rs.Unsupported, match="4 more positional arguments"):
        wrapper.run(batch.q, batch.cache, 1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="window_left is 3 in run and -1 in plan"):
        wrapper.run(batch.q, batch.cache, window_left=3)
    with pytest.raises(ValueError, match="request 0 has 7 keys and 1 pages"):
        flashinfer.mla.BatchMLAPagedAttentionWrapper(WORKSPACE).plan(
            ints(0, 1), ints(0, 1), ints(0), ints(7), HEADS, 32, 16, PAGE, True, 1.0, torch.float32, torch.float32
        )
    with pytest.raises(AttributeError, match="has no `rmsnorm`.*FlashInfer itself"):
        flashinfer.rmsnorm  # noqa: B018


def test_install(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "flashinfer"]:
        monkeypatch.delitem(sys.modules, name)
    before, own = dict(sys.modules), sys.modules["attn_rs.flashinfer"]
    own.install()
    try:
        assert importlib.import_module("flashinfer") is own
        assert importlib.import_module("flashinfer.decode") is own.decode
        from flashinfer.cascade import merge_state

        assert merge_state is own.merge_state
    finally:
        for name in [name for name in sys.modules if name not in before]:
            del sys.modules[name]
    monkeypatch.setitem(sys.modules, "flashinfer", sys)
    with pytest.raises(attn_rs.InvalidArgument, match="imported already"):
        own.install()
