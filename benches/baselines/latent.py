"""Latent attention (MLA) over pages whose keys hold the values: FlashInfer on fa3 and fa2, and FlashMLA."""

import os
import torch

from cases import DT, indptr, lens, parse
from reference import Check
import shared_tensors
from timing import DEV, ready

VALUES, ROPE = 512, 64  # elements of a key: those that are values, and the rotated ones
SCALE = (VALUES + ROPE) ** -0.5
#: names FlashMLA's library, which is `vllm/_flashmla_C.abi3.so` in vLLM's wheel
LIBRARY = "ATTN_FLASHMLA"


def refusal(case):
    """Why the peers have no kernel for a case, if they have none."""
    unknown = set(parse(case["variant"])) - {"causal"}
    if unknown:
        return f"no built-in for {sorted(unknown)}"
    if case["head_dim"] != VALUES + ROPE or case.get("kv_layout") != "paged" or "sparse" in case:
        return "dense pages of 512 + 64 elements alone"


class Latent:
    """The tensors of a case, in pages in random order."""

    def __init__(self, case):
        self.causal, self.dtype = "causal" in parse(case["variant"]), DT[case["dtype"]]
        self.queries, self.keys, self.heads = lens(case["qo_lens"]), lens(case["kv_lens"]), case["qo_heads"]
        self.page = case.get("page_size", 16)
        self.q = shared_tensors.rows("q", (sum(self.queries), self.heads, VALUES + ROPE), self.dtype)
        self.pages = indptr([-(-n // self.page) for n in self.keys])
        count = int(self.pages[-1])
        numbers = torch.Generator().manual_seed(0)
        self.order = torch.randperm(count, generator=numbers, dtype=torch.int32).to(DEV)
        bounds = self.pages.tolist()
        self.tables = [self.order[a:b] for a, b in zip(bounds, bounds[1:])]
        self.pool = torch.randn(count, self.page, VALUES + ROPE, device=DEV, dtype=self.dtype)
        shared_tensors.fill_latent(self.pool, [(table.long(), n) for table, n in zip(self.tables, self.keys)])
        self.kv_lens = torch.tensor(self.keys, dtype=torch.int32, device=DEV)
        self.check = Check(case, self.q, self.rows, self.causal)

    def rows(self, request):
        k = self.pool[self.tables[request].long()].flatten(0, 1)[: self.keys[request], None]
        return k, k[..., :VALUES]

    def output(self):
        return torch.empty(sum(self.queries), self.heads, VALUES, device=DEV, dtype=self.dtype)


def flashinfer(case):
    if why := refusal(case):
        yield "flashinfer-mla", None, why
        return
    import flashinfer as fi

    of = Latent(case)
    halves = [x[..., part].contiguous() for x in (of.q, of.pool) for part in (slice(VALUES), slice(VALUES, None))]
    for backend in ("fa3", "fa2"):
        workspace = torch.empty(256 << 20, dtype=torch.uint8, device=DEV)
        wrapper = fi.mla.BatchMLAPagedAttentionWrapper(workspace, backend=backend)
        sizes = of.heads, VALUES, ROPE, of.page, of.causal, SCALE, of.dtype, of.dtype
        rows = indptr(of.queries).to(DEV), of.pages.to(DEV), of.order, of.kv_lens
        plan = lambda w=wrapper, rows=rows, sizes=sizes: w.plan(*rows, *sizes)
        run = lambda w=wrapper, o=of.output(): w.run(*halves, out=o)
        yield ready(f"flashinfer-mla-{backend}", plan, run, (workspace, wrapper, halves), of.check)


def flashmla(case):
    why = refusal(case) or (LIBRARY not in os.environ and f"{LIBRARY} does not name its library")
    alike = len(set(lens(case["qo_lens"]))) == 1
    if not why and not (alike and case.get("page_size") == 64):
        why = "pages of 64, and as many queries of each request"
    if why:
        yield "flashmla", None, why
        return
    torch.ops.load_library(os.environ[LIBRARY])
    of = Latent(case)
    count = len(of.keys)
    table = torch.zeros(count, max(len(t) for t in of.tables), dtype=torch.int32, device=DEV)
    for row, pages in zip(table, of.tables):
        row[: len(pages)] = pages
    q, k, o = of.q.view(count, -1, of.heads, VALUES + ROPE), of.pool[:, :, None], of.output()
    o_of_requests = o.view(count, -1, of.heads, VALUES)
    schedule = [None, None]

    def call():
        return torch.ops._flashmla_C.dense_decode_fwd(
            q, k, VALUES, of.kv_lens, table, SCALE, of.causal, *schedule, o_of_requests
        )

    def plan():
        # the first call makes the metadata of the tile scheduler, and later ones take it
        schedule[:] = None, None
        schedule[:] = call()[2:]

    def run():
        call()
        return o

    yield ready("flashmla", plan, run, (q, k, table, schedule), of.check)
