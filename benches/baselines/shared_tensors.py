"""Queries, keys and values: random, or those of the folder to which attn-rs wrote its own (interleave.py --verify)."""

import os
import torch

from timing import DEV

folder = None  # where attn-rs wrote q.bin, k.bin and v.bin, as tests/testing/src/harness/peer.rs says


def rows(name, shape, dtype):
    """(tokens, heads, head_dim) in the order of requests and positions. `name` is q, k or v."""
    if folder is None:
        return torch.randn(shape, device=DEV, dtype=torch.bfloat16 if dtype.itemsize == 1 else dtype).to(dtype)
    data = bytearray(open(os.path.join(folder, f"{name}.bin"), "rb").read())
    return torch.frombuffer(data, dtype=torch.uint8).to(DEV).view(dtype).view(shape)


def fill(pool, order, requests):
    """Writes shared keys and values to a pool (pages, 2, ..). `requests` are (pages, keys) each."""
    if folder is None:
        return
    slots = pool if order == "NHD" else pool.transpose(2, 3)
    pages, size, heads, dim = slots.shape[0], *slots.shape[2:]
    total = sum(n for _, n in requests)
    raw = slots.view(torch.uint8) if pool.element_size() == 1 else slots
    for side, name in enumerate("kv"):
        all_rows = rows(name, (total, heads, dim), pool.dtype)
        all_rows = all_rows.view(torch.uint8) if pool.element_size() == 1 else all_rows
        first = 0
        for table, n in requests:
            at = torch.arange(n, device=DEV)
            raw[table.to(DEV).long()[at // size], side, at % size] = all_rows[first : first + n]
            first += n


def fill_latent(pool, requests):
    """Writes shared keys to a pool (pages, slots, elements). `requests` are (page table, keys) each."""
    if folder is None:
        return
    shared, size, first = rows("k", (sum(n for _, n in requests), pool.shape[-1]), pool.dtype), pool.shape[1], 0
    for table, n in requests:
        at = torch.arange(n, device=DEV)
        pool[table[at // size], at % size] = shared[first : first + n]
        first += n


def write(o, shape, dtype, path):
    """Writes an output as attn-rs compares it."""
    o = o.reshape(shape).to(dtype).contiguous()
    with open(path, "wb") as file:
        file.write(o.view(torch.uint8).cpu().numpy().tobytes())
