"""200 random cases against SDPA and FlexAttention."""

import random

import pytest

import attn_rs

torch = pytest.importorskip("torch")
CASES = range(100)


def case(seed):
    of = random.Random(seed)
    group = of.choice([1, 2, 4, 8])
    kv_heads = of.choice([1, 2, 4])
    keys = of.choice([1, 7, 64, 129, 300, 1024])
    return {
        "requests": of.choice([1, 2, 5]),
        "queries": of.choice([1, 2, min(keys, 17), keys]),
        "keys": keys,
        "heads": group * kv_heads,
        "kv_heads": kv_heads,
        # each pair is a set of kernels that are compiled
        **of.choice([{"dim": 64, "dtype": torch.float16}, {"dim": 128, "dtype": torch.bfloat16}]),
        "layout": of.choice(["bshd", "bhsd"]),
        "window": of.choice([None, 1, 5, 100]),
        "cap": of.choice([None, 2.0, 30.0]),
        "is_causal": of.choice([True, True, False]),
    }


def tensors(c, device):
    shape = lambda tokens, heads: (  # noqa: E731
        (c["requests"], tokens, heads, c["dim"]) if c["layout"] == "bshd" else (c["requests"], heads, tokens, c["dim"])
    )
    q, k, v = (
        torch.randn(shape(tokens, heads), device=device).to(c["dtype"])
        for tokens, heads in [(c["queries"], c["heads"])] + 2 * [(c["keys"], c["kv_heads"])]
    )
    return q, k, v


def keep(c, qo, kv):
    """The mask, with the last query at the last key."""
    at = qo + c["keys"] - c["queries"]
    seen = kv >= 0
    if c["is_causal"]:
        seen = seen & (kv <= at)
    if c["window"] is not None:
        seen = seen & (at - kv < c["window"])
    return seen


def variant(c, cap):
    parts = ["causal"] if c["is_causal"] else []
    parts += [f"sliding_window(window={c['window']})"] if c["window"] is not None else []
    parts += [f"soft_cap(cap={cap})"] if cap is not None else []
    return " + ".join(parts) or "full"


def heads_first(c, x):
    return x.swapaxes(1, 2) if c["layout"] == "bshd" else x


def check(c, got, want):
    """The want is of float32: a case is wrong by the rounding of its elements."""
    step = 2**-10 if c["dtype"] == torch.float16 else 2**-7
    got, want = got.float(), torch.nan_to_num(want)
    assert got.isfinite().all()
    worst = ((got - want).abs() - step * want.abs()).max().item()
    assert worst < step, f"{c}: {worst}"


@pytest.mark.parametrize("seed", CASES)
def test_sdpa(device, seed):
    c = case(seed)
    q, k, v = tensors(c, device)
    got = heads_first(c, attn_rs.attention(q, k, v, variant(c, None), layout=c["layout"]))
    qo, kv = torch.arange(c["queries"], device=device)[:, None], torch.arange(c["keys"], device=device)[None]
    of = (heads_first(c, x).float() for x in (q, k, v))
    want = torch.nn.functional.scaled_dot_product_attention(*of, attn_mask=keep(c, qo, kv), enable_gqa=True)
    check(c, got, want)


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention(device, seed):
    from torch.nn.attention.flex_attention import flex_attention

    c = case(1000 + seed)
    q, k, v = tensors(c, device)
    got = heads_first(c, attn_rs.attention(q, k, v, variant(c, c["cap"]), layout=c["layout"]))

    def score_mod(score, batch, head, qo, kv):
        if c["cap"] is not None:
            score = c["cap"] * torch.tanh(score / c["cap"])
        return torch.where(keep(c, qo, kv), score, -float("inf"))

    want = flex_attention(*(heads_first(c, x).float() for x in (q, k, v)), score_mod=score_mod, enable_gqa=True)
    check(c, got, want)


@pytest.mark.parametrize("seed", range(30))
def test_pages_against_ragged(device, seed):
    """A paged batch against the same requests, one after the other, to the rounding of its type."""
    of = random.Random(seed)
    lens = [of.choice([1, 5, 16, 100, 777]) for _ in range(of.choice([1, 3, 8]))]
    queries = [of.choice([1, min(n, 9)]) for n in lens]
    page_size, dtype = of.choice([16, 64, 128]), of.choice([torch.float16, torch.bfloat16])
    order = of.choice(["NHD", "HND"])
    tables = [-(-n // page_size) for n in lens]
    num_pages = sum(tables) + 3
    pages = torch.randperm(num_pages)[: sum(tables)].tolist()
    k, v = (torch.randn(sum(lens), 2, 128, device=device).to(dtype) for _ in range(2))
    k_pool, v_pool = (
        torch.full((num_pages, page_size, 2, 128), float("nan"), device=device).to(dtype) for _ in range(2)
    )
    slots, table, first = [], [], 0
    for n, count in zip(lens, tables):
        own = pages[first : first + count]
        table.append(own + [0] * (max(tables) - count))
        slots += [own[i // page_size] * page_size + i % page_size for i in range(n)]
        first += count
    attn_rs.append(k, v, k_pool, v_pool, torch.tensor(slots, device=device))
    if order == "HND":
        k_pool, v_pool = (pool.swapaxes(1, 2).contiguous() for pool in (k_pool, v_pool))
    ends = [[sum(of[:i]) for i in range(len(of) + 1)] for of in (queries, lens)]
    how = {"qo_heads": 8, "kv_heads": 2, "head_dim": 128, "dtype": dtype, "device": device}
    paged = attn_rs.Batch.block_table(ends[0], table, lens, page_size=page_size, num_pages=num_pages)
    q = torch.randn(sum(queries), 8, 128, device=device).to(dtype)
    got, lse = attn_rs.Plan(paged, "causal", kv_layout=order, **how).run(q, k_pool, v_pool, return_lse=True)
    ragged = attn_rs.Plan(attn_rs.Batch.ragged(*ends), "causal", **how)
    want, want_lse = ragged.run(q, k, v, return_lse=True)
    step = 2**-10 if dtype == torch.float16 else 2**-7
    torch.testing.assert_close(got.float(), want.float(), atol=2 * step, rtol=2 * step)
    torch.testing.assert_close(lse, want_lse, atol=1e-3, rtol=1e-3)
