"""Attention of a few rows in f32, to check that a baseline is called correctly."""

import torch

from cases import lens, parse

# tolerance relative to the largest output: rounding to bf16 stays below 0.01, a wrong key or mask gives about 1
ROUNDING = 0.05


class Check:
    """Compares sampled rows of an output.

    `keys(i)` returns k and v of request i, each (keys, kv_heads, head_dim), in order of position. `seen` holds the
    intervals of keys that queries see (masks.py), where the mask is more than `causal`.
    """

    def __init__(self, case, q, keys, causal, seen=None):
        Q, hkv = lens(case["qo_lens"]), case["kv_heads"]
        cap = parse(case["variant"]).get("soft_cap", {}).get("cap")
        some = sorted({0, len(Q) // 2, len(Q) - 1} | {i for i in (Q.index(1) if 1 in Q else 0,)})
        rows, want, first = [], [], 0
        for i, n in enumerate(Q):
            if i in some and n:
                k, v = (x.float() for x in keys(i))
                for r in sorted({0, n // 2, n - 1}):
                    end = k.shape[0] - n + r + 1 if causal else k.shape[0]
                    x = q[first + r].float().view(hkv, -1, q.shape[-1])
                    logits = torch.einsum("hgd,nhd->hgn", x, k[:end]) * q.shape[-1] ** -0.5
                    if cap:
                        logits = cap * torch.tanh(logits / cap)
                    if seen is not None:
                        below, start, past = (int(bound[first + r]) for bound in seen)
                        at = torch.arange(end, device=q.device)
                        logits[..., ~((at < below) | ((at >= start) & (at < past)))] = float("-inf")
                    want.append(torch.einsum("hgn,nhd->hgd", logits.softmax(-1), v[:end]).reshape(-1, v.shape[-1]))
                    rows.append(first + r)
            first += n
        self.rows, self.want = torch.tensor(rows, device=q.device), torch.stack(want)

    def __call__(self, o):
        """The largest difference, and its tolerance. A tuple holds the outputs of consecutive requests."""
        o = torch.cat(o) if isinstance(o, (tuple, list)) else o
        off = (o[self.rows].reshape(self.want.shape).float() - self.want).abs()
        return float(off.max().nan_to_num(nan=float("inf"))), ROUNDING * float(self.want.abs().max())
