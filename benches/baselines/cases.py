"""Fields of a case: lengths, attended pairs, bytes.

Fields beside those of `attn bench`:

    "kv_layout": "cascade", "levels": [{"groups": [64], "kv_lens": [2048]}]
        keys that neighbouring requests share, outermost level first; `kv_lens` of the case is the last level
    "sparse": {"page": 16, "keep": 0.25, "heads": "shared"}
        each request reads this share of its pages; with "heads": "own" each KV head reads pages of its own
    "ours_also": ["flat"]
        run modes of attn-rs to be timed beside the case as it is
    "baselines_kv_dtype": "e4m3"
        the element type of keys and values of baselines, where attn-rs stores them in a KV format
"""

import re
import torch

import masks

DT = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def lens(x):
    return [x["repeat"][1]] * x["repeat"][0] if isinstance(x, dict) else list(x)


def indptr(n):
    return torch.tensor([0] + torch.tensor(n).cumsum(0).tolist(), dtype=torch.int32)


def kv_dtype(case):
    """The element type that baselines store keys and values in."""
    return DT[case.get("baselines_kv_dtype", case.get("kv_dtype", case["dtype"]))]


def value(text):
    """'30' -> 30.0, '[1, 2]' -> [1.0, 2.0]."""
    if text.startswith("["):
        return [float(x) for x in text.strip("[] ").split(",") if x.strip()]
    return float(text)


def parse(expr):
    """'causal + soft_cap(cap=30)' -> {'causal': {}, 'soft_cap': {'cap': 30.0}}."""
    out = {}
    for part in expr.split("+"):
        m = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", part)
        given = re.findall(r"(\w+)\s*=\s*(\[[^\]]*\]|[^,\s]+)", m.group(2) or "")
        out[m.group(1)] = {name: value(text) for name, text in given}
    out.pop("full", None)
    return out


def levels(case):
    """[(requests of each group, keys of each group)], outermost first; the last level has one request a group."""
    own = lens(case["kv_lens"])
    return [(lens(x["groups"]), lens(x["kv_lens"])) for x in case.get("levels", [])] + [([1] * len(own), own)]


def total_lens(case):
    """Keys of each request, over all levels."""
    each = [[n for group, n in zip(groups, kv) for _ in range(group)] for groups, kv in levels(case)]
    return [sum(request) for request in zip(*each)]


def kept_pages(pages, keep):
    """The number of pages that a sparse request reads."""
    return max(1, round(pages * keep)) if pages else 0


def kept_lens(case):
    """Keys of each request that are read."""
    s = case.get("sparse")
    if not s:
        return total_lens(case)
    return [min(n, kept_pages(-(-n // s["page"]), s["keep"]) * s["page"]) for n in total_lens(case)]


def kind(case):
    """plain, mixed, cascade, sparse or latent: the kind decides which baselines run."""
    if case.get("values", "").startswith("keys:"):
        return "latent"
    if case.get("kv_layout") == "cascade":
        return "cascade"
    if "sparse" in case:
        return "sparse"
    q = lens(case["qo_lens"])
    return "mixed" if case.get("kv_layout") == "paged" and 1 in q and max(q) > 16 else "plain"


def pairs(case):
    """The number of attended (query, key) pairs, for FLOPs. A mask of another form than intervals counts as full."""
    v, Q, K = parse(case["variant"]), lens(case["qo_lens"]), kept_lens(case)
    seen = masks.intervals({part: v[part] for part in v if part in masks.MASKS}, Q, K)
    if seen is None:
        return sum(q * k for q, k in zip(Q, K))
    first, start, end = seen
    return int((first + end - start).sum())


def figures(case, ms):
    """Bandwidth over K and V, and FLOP/s. Shared keys count once, pages that are not read do not count."""
    esz = kv_dtype(case).itemsize
    keys = sum(kept_lens(case)) if "sparse" in case else sum(sum(kv) for _, kv in levels(case))
    latent, dim = kind(case) == "latent", case["head_dim"]
    kvb = keys * case["kv_heads"] * (1 if latent else 2) * dim * esz
    products = 2 * (dim + int(case["values"].removeprefix("keys:")) if latent else 2 * dim)
    return dict(ms=ms, gbps=kvb / ms / 1e6, tflops=products * pairs(case) * case["qo_heads"] / ms / 1e9)
