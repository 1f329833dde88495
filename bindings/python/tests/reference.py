"""Attention by its definition, in float64."""

import numpy as np


def attention(q, k, v, keep=None, scale=None, cap=None, bias=None, sink=None):
    """`q` (queries, heads, dim), `k` and `v` (keys, KV heads, dim); `keep(qo_pos, kv_pos)` is the mask, with the last
    query at the last key. Returns o and lse."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    queries, heads, dim = q.shape
    keys, group = k.shape[0], heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    logits = np.einsum("qhd,khd->hqk", q, k) * (dim**-0.5 if scale is None else scale)
    if cap is not None:
        logits = cap * np.tanh(logits / cap)
    if bias is not None:
        logits = logits + bias
    qo_pos, kv_pos = np.arange(queries)[:, None] + keys - queries, np.arange(keys)[None]
    if keep is not None:
        logits = np.where(keep(qo_pos, kv_pos), logits, -np.inf)
    if sink is not None:
        logits = np.concatenate([logits, np.broadcast_to(sink[:, None, None], (heads, queries, 1))], axis=2)
        v = np.concatenate([v, np.zeros((1, *v.shape[1:]))])
    with np.errstate(divide="ignore", invalid="ignore"):
        most = logits.max(axis=2, initial=-np.inf, keepdims=True)
        weights = np.exp(logits - np.where(np.isfinite(most), most, 0.0))
        total = weights.sum(axis=2, keepdims=True)
        o = np.einsum("hqk,khd->qhd", np.where(total > 0, weights / total, 0.0), v)
        lse = np.where(np.isfinite(most), most, 0.0) + np.log(total)
    return o, lse[..., 0].T


def causal(qo_pos, kv_pos):
    return kv_pos <= qo_pos


def window(size):
    return lambda qo_pos, kv_pos: (kv_pos <= qo_pos) & (qo_pos - kv_pos < size)
