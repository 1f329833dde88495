"""The calls that SGLang's FlashInfer backend makes, over attn_rs.flashinfer on the CPU: pools of slots (pages of one
key), `begin_forward` without options, options in `forward`, prefixes merged with new keys, decode in buffers of graphs.
Skipped without torch."""

import functools

import pytest

torch = pytest.importorskip("torch")
import attn_rs.flashinfer as flashinfer  # noqa: E402
from test_flashinfer import DIM, HEADS, KV_HEADS, WORKSPACE, close, ends, ints, reference  # noqa: E402

SLOTS = 300
#: keys that are stored, and new queries with their keys
STORED, NEW = (30, 45, 5, 0), (10, 2, 5, 7)
ONES = ints(*(1 for _ in STORED))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def pool():
    return tuple(torch.randn(SLOTS, KV_HEADS, DIM) for _ in range(2))


def slots(counts):
    """Prefix sums, and slots with 256 more behind them, as the engine keeps them."""
    return ends(counts), torch.cat([torch.randperm(SLOTS)[: sum(counts)], torch.zeros(256)]).int()


@pytest.mark.parametrize(
    "options", [{"sm_scale": 0.1}, {"sm_scale": 0.2, "logits_soft_cap": 20.0}, {"sm_scale": 0.1, "window_left": 7}]
)
def test_extend_over_a_pool(options):
    (k, v), lens = pool(), [a + b for a, b in zip(STORED, NEW, strict=True)]
    indptr, indices = slots(lens)
    qo = ends(NEW)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, "NHD", backend="fa2")
    wrapper.begin_forward(
        qo, indptr, indices, ONES, HEADS, KV_HEADS, DIM, 1, q_data_type=torch.float32, kv_data_type=torch.float32,
        custom_mask=None, non_blocking=True, fixed_split_size=None,
    )  # fmt: skip
    q = torch.randn(sum(NEW), HEADS, DIM)
    o = wrapper.forward(q, (k, v), causal=True, **options)
    for i in range(len(NEW)):
        own, of = indices[indptr[i] : indptr[i + 1]].long(), slice(qo[i], qo[i + 1])
        close([o[of]], reference(q[of], k[own], v[own], causal=True, **options)[:1])


def test_extend_merges_new_keys_with_a_prefix():
    k_pool, v_pool = pool()
    indptr, indices = slots(STORED)
    qo, q = ends(NEW), torch.randn(sum(NEW), HEADS, DIM)
    k, v = (torch.randn(sum(NEW), KV_HEADS, DIM) for _ in range(2))
    types = {"q_data_type": torch.float32}
    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(WORKSPACE, "NHD")
    ragged.begin_forward(qo, qo, HEADS, KV_HEADS, DIM, **types)
    paged = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE, "NHD")
    paged.begin_forward(qo, indptr, indices, ONES, HEADS, KV_HEADS, DIM, 1, **types)
    new = ragged.forward_return_lse(q, k, v, causal=True, sm_scale=0.3)
    stored = paged.forward_return_lse(q, (k_pool, v_pool), causal=False, sm_scale=0.3)
    o, _ = flashinfer.merge_state(*new, *stored)
    for i in range(len(NEW)):
        rows, of = indices[indptr[i] : indptr[i + 1]].long(), slice(qo[i], qo[i + 1])
        keys, values = torch.cat([k_pool[rows], k[of]]), torch.cat([v_pool[rows], v[of]])
        close([o[of]], reference(q[of], keys, values, causal=True, sm_scale=0.3)[:1])


def test_decode_in_buffers_of_graphs():
    k, v = pool()
    indptr, indices, last = torch.empty(5).int(), torch.zeros(280).int(), torch.ones(4).int()
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        WORKSPACE, "NHD", use_cuda_graph=True, use_tensor_cores=True, paged_kv_indptr_buffer=indptr,
        paged_kv_indices_buffer=indices, paged_kv_last_page_len_buffer=last,
    )  # fmt: skip
    how = {"data_type": torch.float32, "q_data_type": torch.float32, "non_blocking": True}
    for step in range(4):
        lens = [n + step + 1 for n in STORED]
        rows, found = slots(lens)
        if step == 1:
            wrapper.begin_forward = functools.partial(flashinfer.fast_decode_plan, wrapper)
        of_host = {"global_override_indptr_cpu": rows} if step else {}
        indptr.copy_(rows)
        indices[: sum(lens)] = found[: sum(lens)]
        wrapper.begin_forward(indptr, indices[: sum(lens)], last, HEADS, KV_HEADS, DIM, 1, **how, **of_host)
        q = torch.randn(4, HEADS, DIM)
        o = wrapper.forward(q, (k, v), sm_scale=0.3, logits_soft_cap=0.0, k_scale=None, v_scale=None)
        for i in range(4):
            own = found[rows[i] : rows[i + 1]].long()
            close([o[i : i + 1]], reference(q[i : i + 1], k[own], v[own], sm_scale=0.3)[:1])
