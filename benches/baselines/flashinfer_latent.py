"""FlashInfer's latent attention (MLA) on fa3 and fa2, over pages whose keys hold the values."""

import torch

from cases import DT, indptr, lens, parse
from reference import Check
import shared_tensors
from timing import DEV, ready

VALUES, ROPE = 512, 64  # elements of a key: those that are values, and the rotated ones


def latent(case):
    variant = parse(case["variant"])
    causal, unknown = "causal" in variant, set(variant) - {"causal"}
    Q, K, heads, page = lens(case["qo_lens"]), lens(case["kv_lens"]), case["qo_heads"], case.get("page_size", 16)
    if unknown or case["head_dim"] != VALUES + ROPE or case.get("kv_layout") != "paged" or "sparse" in case:
        why = f"no built-in for {sorted(unknown)}" if unknown else "dense pages of 512 + 64 elements alone"
        yield "flashinfer-mla", None, why
        return
    import flashinfer as fi

    dt = DT[case["dtype"]]
    q = shared_tensors.rows("q", (sum(Q), heads, VALUES + ROPE), dt)
    pages = indptr([-(-n // page) for n in K])
    order = torch.randperm(int(pages[-1]), generator=torch.Generator().manual_seed(0), dtype=torch.int32).to(DEV)
    tables = [order[a:b].long() for a, b in zip(pages.tolist(), pages.tolist()[1:])]
    pool = torch.randn(int(pages[-1]), page, VALUES + ROPE, device=DEV, dtype=dt)
    shared_tensors.fill_latent(pool, list(zip(tables, K)))
    ckv, kpe = pool[..., :VALUES].contiguous(), pool[..., VALUES:].contiguous()
    q_nope, q_pe = q[..., :VALUES].contiguous(), q[..., VALUES:].contiguous()

    def keys(request):
        k = pool[tables[request]].flatten(0, 1)[: K[request], None]
        return k, k[..., :VALUES]

    check, scale = Check(case, q, keys, causal), (VALUES + ROPE) ** -0.5
    for backend in ("fa3", "fa2"):
        workspace = torch.empty(256 << 20, dtype=torch.uint8, device=DEV)
        wrapper = fi.mla.BatchMLAPagedAttentionWrapper(workspace, backend=backend)
        sizes = heads, VALUES, ROPE, page, causal, scale, dt, dt
        plan = lambda w=wrapper: w.plan(
            indptr(Q).to(DEV), pages.to(DEV), order, torch.tensor(K, dtype=torch.int32, device=DEV), *sizes
        )
        out = torch.empty(sum(Q), heads, VALUES, device=DEV, dtype=dt)
        run = lambda w=wrapper, o=out: w.run(q_nope, q_pe, ckv, kpe, out=o)
        yield ready(f"flashinfer-mla-{backend}", plan, run, (workspace, wrapper, q_nope, q_pe, ckv, kpe), check)
