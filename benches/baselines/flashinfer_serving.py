"""FlashInfer's wrappers for serving: mixed batches, cascades, block-sparse decode. Masks are `full` and `causal`."""

import torch

from cases import indptr, kept_pages, kind, parse, total_lens
from flashinfer_pool import Pool, Table, decode, prefill, workspace
from reference import Check
from timing import Runner, bench, ready


def serving(case):
    """The runners of a mixed, cascade or sparse case."""
    unknown = set(parse(case["variant"])) - {"causal"} - ({"page_list"} if "sparse" in case else set())
    if unknown:
        yield "flashinfer", None, f"these wrappers are timed without {sorted(unknown)}"
        return
    yield from {"mixed": mixed, "cascade": cascade, "sparse": sparse}[kind(case)](case)


def mixed(case):
    """Mixed batches, with prefill chunks before the decodes."""
    import flashinfer as fi

    causal, p = "causal" in parse(case["variant"]), Pool(case)
    n = p.Q.index(1)
    if set(p.Q[n:]) != {1}:
        yield "flashinfer", None, "chunks must come before decodes"
        return
    tokens, requests = sum(p.Q[:n]), p.flat()
    everything, chunks, rest = (Table(r, p.ps) for r in (requests, requests[:n], requests[n:]))
    qp, qd = p.q[:tokens], p.q[tokens:]
    check = Check(case, p.q, lambda i: p.keys(*requests[i]), causal)

    w = fi.BatchAttention(p.order)
    qi = indptr(p.Q)
    plan = lambda: w.plan(
        qi, everything.indptr, everything.indices, everything.lens, p.hq, p.hkv, p.d, p.d, p.ps, causal=causal, **p.kw
    )
    yield ready(
        "flashinfer-batch-attention", plan, lambda: w.run(p.q, p.kv)[0], (w, p), check, eager="a cooperative launch"
    )

    pod = fi.BatchPODWithPagedKVCacheWrapper(torch.cat([workspace(), workspace()]), p.order)
    qip, qid = indptr(p.Q[:n]), indptr(p.Q[n:])
    plan = lambda: pod.plan(
        qip,
        chunks.indptr,
        chunks.indices,
        chunks.last,
        qid,
        rest.indptr,
        rest.indices,
        rest.last,
        p.hq,
        p.hkv,
        p.d,
        p.ps,
        **p.kw,
    )
    yield ready("flashinfer-batch-pod", plan, lambda: pod.run(qp, p.kv, qd, p.kv, causal_p=causal), (pod, p), check)

    if n == 1:
        # the prefill part reads the contiguous keys of one request
        one, (k, v) = fi.PODWithPagedKVCacheWrapper(workspace(), p.order), (
            x.contiguous() for x in p.keys(*requests[0])
        )
        plan = lambda: one.plan(rest.indptr, rest.indices, rest.last, p.hq, p.hkv, p.d, p.ps, **p.kw)
        yield ready(
            "flashinfer-pod",
            plan,
            lambda: one.run(qp, k, v, qd, p.kv, causal_p=causal),
            (one, k, v),
            check,
            eager="it clears its counters on the default stream",
        )
    else:
        yield "flashinfer-pod", None, "one prefill request only"

    decodes = best_decode(p, rest, qd)
    for backend in ("fa3", "fa2"):
        first, (label, second) = prefill(p, chunks, p.Q[:n], backend, qp, causal), decodes
        plan = lambda a=first, b=second: (a[0](), b[0]())
        run = lambda a=first, b=second: (a[1](), b[1]())
        yield ready(f"flashinfer-sequential-{backend}", plan, run, (first, second), check, extra={"decode": label})
    for backend in ("fa3", "fa2"):
        plan, run, alive = prefill(p, everything, p.Q, backend, p.q, causal)
        yield ready(f"flashinfer-prefill-{backend}", plan, run, alive, check)


def best_decode(p, table, q):
    """The faster of the two decode kernels: (which, (plan, run, alive))."""
    found = []
    for label, tensor_cores in (("tc", True), ("cc", False)):
        one = decode(p, table, tensor_cores, q)
        try:
            one[0]()
            one[1]()
            found.append((bench(Runner(one[1]), 5), label, one))
        except Exception:
            continue  # the CUDA-core kernel does not support every group size
    _, label, one = min(found, key=lambda x: x[0])
    return label, one


def cascade(case):
    """The multi-level wrapper with each backend, and the same batch without levels."""
    import flashinfer as fi

    causal, p = "causal" in parse(case["variant"]), Pool(case)
    requests = p.flat()
    if requests is None or any(x.get("page_size", p.ps) != p.ps for x in case["levels"]):
        yield "flashinfer", None, "levels of whole pages of one size only"
        return
    check = Check(case, p.q, lambda i: p.keys(*requests[i]), causal)
    token, starts = indptr(p.Q).tolist(), [indptr(groups).tolist() for groups, _ in p.levels]
    qis = [torch.tensor([token[r] for r in s], dtype=torch.int32) for s in starts]
    tables = [Table(list(zip(t, kv)), p.ps) for t, (_, kv) in zip(p.tables, p.levels)]
    for name, backends in [("", "auto auto"), ("-fa2", "fa2 fa2"), ("-fa3-fa2", "fa3 fa2")]:
        shared, own = backends.split()
        w = fi.MultiLevelCascadeAttentionWrapper(len(tables), workspace(), p.order)
        if name:  # the wrapper takes no backend; its levels are these
            ws = workspace()
            of = [shared] * (len(tables) - 1) + [own]
            w._batch_prefill_wrappers = [fi.BatchPrefillWithPagedKVCacheWrapper(ws, p.order, backend=b) for b in of]
        plan = lambda w=w: w.plan(
            qis,
            [t.indptr for t in tables],
            [t.indices for t in tables],
            [t.last for t in tables],
            p.hq,
            p.hkv,
            p.d,
            p.ps,
            causal=causal,
            **p.kw,
        )
        yield ready(f"flashinfer-cascade{name}", plan, lambda w=w: w.run(p.q, p.kv), (w, tables, p), check)
    flat = Table(requests, p.ps)
    if set(p.Q) == {1}:
        for label, tensor_cores in (("tc", True), ("cc", False)):
            plan, run, alive = decode(p, flat, tensor_cores, p.q)
            yield ready(f"flashinfer-flat-{label}", plan, run, alive, check)
    else:
        for backend in ("fa3", "fa2"):
            plan, run, alive = prefill(p, flat, p.Q, backend, p.q, causal)
            yield ready(f"flashinfer-flat-{backend}", plan, run, alive, check)


def sparse(case):
    """Decode over selected pages: as a block-sparse matrix over the pool, and as a shorter page table.

    If each KV head has pages of its own, heads become requests: an HND pool is a pool of single-head pages.
    """
    s, p, K = case["sparse"], Pool(case), total_lens(case)
    if set(p.Q) != {1} or s["page"] != p.ps or any(n % p.ps for n in K):
        yield "flashinfer", None, "one query a request, and whole pages, as the pool's"
        return
    own = s.get("heads", "shared") == "own"
    if own and p.order != "HND":
        yield "flashinfer", None, "lists of each head need an HND pool"
        return
    gen = torch.Generator().manual_seed(case.get("seed", 0) + 1)
    heads = p.hkv if own else 1
    chosen = []  # the pages of each request and head, in order of position
    for pages, _ in p.flat():
        for _ in range(heads):
            kept = torch.randperm(len(pages), generator=gen)[: kept_pages(len(pages), s["keep"])].sort().values
            chosen.append(pages[kept])

    def keys(i):
        each = [p.keys(pages, len(pages) * p.ps) for pages in chosen[i * heads : (i + 1) * heads]]
        if not own:
            return each[0]
        return tuple(torch.stack([x[side][:, h] for h, x in enumerate(each)], 1) for side in (0, 1))

    check = Check(case, p.q, keys, False)
    if own:
        group = p.hq // p.hkv
        chosen = [pages * p.hkv + i % p.hkv for i, pages in enumerate(chosen)]
        # head h of page n is page n * kv_heads + h
        k, v = (p.kv[:, side].reshape(p.tot * p.hkv, 1, p.ps, p.d) for side in (0, 1))
        q, counts = p.q.view(-1, group, p.d), (group, 1)
        restore = lambda o: o.view(p.q.shape)
    else:
        (k, v), q, counts, restore = (
            p.separate() if p.order == "NHD" else p.kv.unbind(1),
            p.q,
            (p.hq, p.hkv),
            lambda o: o,
        )
    table = Table([(pages, len(pages) * p.ps) for pages in chosen], p.ps)
    for label, tensor_cores in (("tc", True), ("cc", False)):
        plan, run, alive = decode(p, table, tensor_cores, q, (k, v), counts)
        yield ready(f"flashinfer-pages-{label}", plan, lambda run=run: restore(run()), alive, check)
    yield from block_sparse(p, table, q, k, v, counts, restore, check)


def block_sparse(p, table, q, k, v, counts, restore, check):
    """Block rows of one query, block columns of one page.

    With fewer than 4 query heads a KV head the wrapper uses CUDA cores, whatever the backend.
    """
    import flashinfer as fi

    hq, hkv = counts
    # (keys, heads, dim); for one head and for an NHD pool this is a view of the pool
    k, v = (x.transpose(1, 2) if p.order == "HND" else x for x in (k, v))
    k, v = (x.reshape(-1, hkv, p.d) for x in (k, v))
    indices = table.indices.cpu()
    for name, backend in [("", "auto"), ("-fa2", "fa2")] if hq // hkv >= 4 else [("", "auto")]:
        w = fi.BlockSparseAttentionWrapper(workspace(), backend=backend)
        plan = lambda w=w: w.plan(
            table.indptr, indices, q.shape[0], k.shape[0], 1, p.ps, hq, hkv, p.d, o_data_type=p.dt, **p.kw
        )
        yield ready(f"flashinfer-bsr{name}", plan, lambda w=w: restore(w.run(q, k, v)), (w, q, k, v), check)
