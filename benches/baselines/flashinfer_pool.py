"""A paged pool in random order, and FlashInfer's decode and prefill wrappers over a page table of it."""

import torch

from cases import DT, indptr, kv_dtype, lens, levels
import shared_tensors
from timing import DEV


class Pool:
    """Queries, one pool for all levels, and the pages of each group of keys."""

    def __init__(self, case):
        self.hq, self.hkv, self.d = case["qo_heads"], case["kv_heads"], case["head_dim"]
        self.ps, self.order = case.get("page_size", 16), case.get("page_order", "NHD")
        self.dt, self.kdt = DT[case["dtype"]], kv_dtype(case)
        self.kw = dict(q_data_type=self.dt, kv_data_type=self.kdt)
        self.Q, self.levels = lens(case["qo_lens"]), levels(case)
        gen = torch.Generator().manual_seed(case.get("seed", 0))
        counts = [[-(-n // self.ps) for n in kv] for _, kv in self.levels]
        self.tot = sum(sum(c) for c in counts)
        pages = torch.randperm(self.tot, generator=gen, dtype=torch.int32)
        # tables[level][group]: pages in order of keys
        self.tables, at = [], 0
        for c in counts:
            self.tables.append([])
            for n in c:
                self.tables[-1].append(pages[at : at + n])
                at += n
        self.q = shared_tensors.rows("q", (sum(self.Q), self.hq, self.d), self.dt)
        shape = (
            (self.tot, 2, self.ps, self.hkv, self.d)
            if self.order == "NHD"
            else (self.tot, 2, self.hkv, self.ps, self.d)
        )
        self.kv = torch.randn(shape, device=DEV, dtype=self.dt).to(self.kdt)
        if shared_tensors.folder:
            shared_tensors.fill(self.kv, self.order, self.flat())

    def flat(self):
        """Pages and length of each request, over all levels; None if a level before the last ends inside a page."""
        if any(n % self.ps for _, kv in self.levels[:-1] for n in kv):
            return None
        each = []
        for (groups, kv), tables in zip(self.levels, self.tables):
            each.append([(table, n) for group, table, n in zip(groups, tables, kv) for _ in range(group)])
        return [(torch.cat([t for t, _ in runs]), sum(n for _, n in runs)) for runs in zip(*each)]

    def keys(self, pages, n):
        """k and v of the first n keys in these pages: (keys, kv_heads, head_dim) each."""
        x = self.kv[pages.long().to(DEV)]
        if self.order == "HND":
            x = x.transpose(2, 3)
        return x[:, 0].reshape(-1, self.hkv, self.d)[:n], x[:, 1].reshape(-1, self.hkv, self.d)[:n]

    def separate(self):
        """Separate contiguous pools of k and v, NHD."""
        x = self.kv if self.order == "NHD" else self.kv.transpose(2, 3)
        return x[:, 0].contiguous(), x[:, 1].contiguous()


class Table:
    """The page table of some requests, [(pages, keys)], as the wrappers take it."""

    def __init__(self, requests, ps):
        self.indptr = indptr([len(pages) for pages, _ in requests])
        self.indices = torch.cat([pages for pages, _ in requests]).to(DEV)
        self.last = torch.tensor([(n - 1) % ps + 1 if n else 0 for _, n in requests], dtype=torch.int32)
        self.lens = torch.tensor([n for _, n in requests], dtype=torch.int32)


def workspace():
    return torch.empty(256 << 20, dtype=torch.uint8, device=DEV)


def decode(pool, table, tensor_cores, q, kv=None, heads=None):
    """(plan, run, alive) of the decode wrapper, with one query a request."""
    import flashinfer as fi

    kv = pool.kv if kv is None else kv
    hq, hkv = heads or (pool.hq, pool.hkv)
    w = fi.BatchDecodeWithPagedKVCacheWrapper(workspace(), pool.order, use_tensor_cores=tensor_cores)
    plan = lambda: w.plan(table.indptr, table.indices, table.last, hq, hkv, pool.d, pool.ps, **pool.kw)
    return plan, lambda: w.run(q, kv), (w, table, q, kv)


def prefill(pool, table, Q, backend, q, causal):
    """(plan, run, alive) of the paged prefill wrapper."""
    import flashinfer as fi

    w, qi = fi.BatchPrefillWithPagedKVCacheWrapper(workspace(), pool.order, backend=backend), indptr(Q)
    plan = lambda: w.plan(
        qi, table.indptr, table.indices, table.last, pool.hq, pool.hkv, pool.d, pool.ps, causal=causal, **pool.kw
    )
    return plan, lambda: w.run(q, pool.kv), (w, table, q, pool)
