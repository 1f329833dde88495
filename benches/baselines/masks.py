"""Masks of cases in the forms that baselines take: intervals of keys, and functions of two positions.

Positions count within a request; a query's position counts from the end of its keys, as in attn-rs.
"""

import torch

MASKS = {
    "causal",
    "sliding_window",
    "prefix_lm",
    "documents",
    "causal_documents",
    "document_spans",
    "chunked",
    "streaming",
}


def positions(Q, K):
    """The position of each query, and the keys of its request, over all queries."""
    pos = torch.cat([torch.arange(k - q, k) for q, k in zip(Q, K)])
    return pos, torch.cat([torch.full((q,), k) for q, k in zip(Q, K)])


def document_bounds(of_query, of_key, Q, K):
    """The first key of the document of each query, and one past its last key."""
    ids = [x.split(n) for x, n in ((of_query, Q), (of_key, K))]
    return (
        torch.cat([torch.searchsorted(k.contiguous(), q.contiguous(), right=right) for q, k in zip(*ids)])
        for right in (False, True)
    )


def intervals(v, Q, K):
    """(first, start, end) of each query, which sees the keys below `first` and those in `start..end`.

    `first <= start <= end <= keys`. `v` is a parsed variant of masks alone. None if its keys are not of this form.
    """
    pos, keys = positions(Q, K)
    first, start, end = torch.zeros_like(pos), torch.zeros_like(pos), keys.clone()
    ints = lambda part, name: torch.tensor(v[part][name], dtype=torch.int64)
    if {"prefix_lm", "streaming"} & set(v):
        if len(set(v) - {"causal"}) > 1:
            return None
        if "streaming" in v:
            first = torch.full_like(pos, int(v["streaming"]["sink"]))
            start, end = pos + 1 - int(v["streaming"]["window"]), pos + 1
        else:
            prefix = ints("prefix_lm", "prefix").expand(len(Q)).repeat_interleave(torch.tensor(Q))
            end = torch.maximum(prefix, pos + 1)
    if "sliding_window" in v:
        start = torch.maximum(start, pos + 1 - int(v["sliding_window"]["window"]))
    if "chunked" in v:
        chunk = int(v["chunked"]["chunk"])
        start = torch.maximum(start, pos // chunk * chunk)
        end = torch.minimum(end, (pos // chunk + 1) * chunk)
    if "documents" in v:
        first_key, last_key = document_bounds(ints("documents", "of_query"), ints("documents", "of_key"), Q, K)
        start, end = torch.maximum(start, first_key), torch.minimum(end, last_key)
    for part in {"causal_documents", "document_spans"} & set(v):
        start = torch.maximum(start, ints(part, "start"))
        end = torch.minimum(end, pos + 1 if part == "causal_documents" else ints(part, "end"))
    if "causal" in v:
        end = torch.minimum(end, pos + 1)
    end = torch.minimum(end, keys).clamp(min=0)
    first = torch.minimum(first, end)
    return first, torch.minimum(torch.maximum(start, first), end), end


def mask_mod(v, batch, device):
    """The mask as FlexAttention takes it, for requests of equal lengths, and whether it depends on the request."""
    mods, per_request = [], False

    def table(part, name, rows=-1):
        return torch.tensor(v[part][name], dtype=torch.int32, device=device).view(batch, rows)

    if "causal" in v:
        mods.append(lambda b, h, i, j: i >= j)
    if "sliding_window" in v:
        window = int(v["sliding_window"]["window"])
        mods.append(lambda b, h, i, j: i - j < window)
    if "chunked" in v:
        chunk = int(v["chunked"]["chunk"])
        mods.append(lambda b, h, i, j: i // chunk == j // chunk)
    if "streaming" in v:
        sink, near = int(v["streaming"]["sink"]), int(v["streaming"]["window"])
        mods.append(lambda b, h, i, j: (i >= j) & ((j < sink) | (i - j < near)))
    if "prefix_lm" in v:
        prefix = v["prefix_lm"]["prefix"]
        lengths = set(prefix if isinstance(prefix, list) else [prefix])
        if len(lengths) == 1:
            prefix = int(*lengths)
            mods.append(lambda b, h, i, j: (j < prefix) | (i >= j))
        else:
            prefixes, per_request = table("prefix_lm", "prefix", 1), True
            mods.append(lambda b, h, i, j: (j < prefixes[b, 0]) | (i >= j))
    if "documents" in v:
        of_query, of_key, per_request = table("documents", "of_query"), table("documents", "of_key"), batch > 1
        mods.append(lambda b, h, i, j: of_query[b, i] == of_key[b, j])
    if "causal_documents" in v:
        from_key, per_request = table("causal_documents", "start"), batch > 1
        mods.append(lambda b, h, i, j: (from_key[b, i] <= j) & (i >= j))
    if "document_spans" in v:
        first, past, per_request = table("document_spans", "start"), table("document_spans", "end"), batch > 1
        mods.append(lambda b, h, i, j: (first[b, i] <= j) & (j < past[b, i]))
    if not mods:
        return None, False
    if len(mods) == 1:
        return mods[0], per_request
    from torch.nn.attention.flex_attention import and_masks

    return and_masks(*mods), per_request
