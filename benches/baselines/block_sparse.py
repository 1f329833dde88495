"""Times block-sparse attention of attn-rs and FlashInfer in turns, with a cold L2, beside our dense attention.

    python3 block_sparse.py OUT.jsonl [--rounds 7] [--match REGEX]

Blocks are drawn at random, the same for all heads. Both libraries replay graphs; without FlashInfer ours alone is
timed. Outputs are compared with attention in f64 over the rows of a few blocks. The output is one JSON line a case:
medians in microseconds, the ratio of ours to FlashInfer's best, and that to the density times our dense time.
"""

import argparse, importlib.util, json, random, re
from statistics import median

import torch

from timing import DEV, bench, ready

HEAD_DIM = 128
# queries, keys, query heads, KV heads, block of queries and of keys, density
CASES = {
    f"{n} x {n}, {hq}/{hkv} heads, blocks of {b}, density {density}": (n, n, hq, hkv, b, density)
    for n, hq, hkv in [(8192, 32, 8), (8192, 16, 16), (4096, 32, 32)]
    for b in (64, 128)
    for density in (0.5, 0.25)
}


class Case:
    def __init__(self, queries, keys, qo_heads, kv_heads, block, density):
        self.sizes, self.block, self.heads = (queries, keys), block, (qo_heads, kv_heads)
        numbers = torch.Generator().manual_seed(1)
        rows, columns = queries // block, keys // block
        count = int(columns * density)
        chosen = torch.stack([torch.randperm(columns, generator=numbers)[:count].sort().values for _ in range(rows)])
        self.indptr = torch.arange(rows + 1, dtype=torch.int32) * count
        self.chosen, self.indices = chosen, chosen.flatten().int()
        shape = (queries, qo_heads), (keys, kv_heads), (keys, kv_heads)
        self.q, self.k, self.v = (torch.randn(*s, HEAD_DIM, device=DEV, dtype=torch.bfloat16) for s in shape)

    def check(self, dense):
        """Compares the first, the middle and the last block of queries; f64 and bf16 differ by 4e-3 or less."""
        group, b = self.heads[0] // self.heads[1], self.block

        def of(o):
            worst = 0.0
            for row in {0, len(self.chosen) // 2, len(self.chosen) - 1}:
                keys = torch.arange(b) + self.chosen[row][:, None] * b
                at = torch.arange(self.sizes[1]) if dense else keys.flatten()
                q = self.q[row * b : (row + 1) * b].double().transpose(0, 1)
                k, v = (x[at.to(DEV)].double().repeat_interleave(group, 1).transpose(0, 1) for x in (self.k, self.v))
                want = ((q @ k.transpose(1, 2)) * HEAD_DIM**-0.5).softmax(-1) @ v
                got = o[row * b : (row + 1) * b].double().transpose(0, 1)
                worst = max(worst, ((got - want).norm() / want.norm()).item())
            return worst, 8e-3

        return of


def ours(case, name, variant, params):
    import attn_rs

    q_ptr, kv_ptr = (torch.tensor([0, n], dtype=torch.int32) for n in case.sizes)
    hq, hkv = case.heads
    how = dict(qo_heads=hq, kv_heads=hkv, head_dim=HEAD_DIM, dtype="bfloat16", device=DEV, params=params)
    made = attn_rs.Plan(attn_rs.Batch.ragged(q_ptr, kv_ptr), variant, **how)
    o = torch.empty_like(case.q)
    run = lambda: made.run(case.q, case.k, case.v, out=o)
    return ready(name, lambda: None, run, (made, o), case.check(dense=params is None))


def flashinfer(case, backend):
    import flashinfer as fi

    w = fi.BlockSparseAttentionWrapper(torch.empty(256 << 20, dtype=torch.uint8, device=DEV), backend=backend)
    sizes = *case.sizes, case.block, case.block, *case.heads, HEAD_DIM
    plan = lambda: w.plan(case.indptr.to(DEV), case.indices.to(DEV), *sizes, q_data_type=torch.bfloat16)
    run = lambda: w.run(case.q, case.k, case.v)
    return ready(f"flashinfer-{backend}", plan, run, w, case.check(dense=False))


def raced(name, rounds):
    import attn_rs

    case = Case(*CASES[name])
    columns = case.sizes[1] // case.block
    blocks = attn_rs.sparse.bsr([[(case.indptr, case.indices)]], block=(case.block, case.block), columns=columns)
    sides = [ours(case, "ours", *blocks), ours(case, "dense", "full", None)]
    if importlib.util.find_spec("flashinfer"):
        sides += [flashinfer(case, backend) for backend in ("fa3", "fa2")]
    cannot = {side: why for side, runner, why in sides if runner is None}
    times = {side: [] for side, runner, _ in sides if runner}
    for _ in range(rounds):
        for side, runner, _ in random.sample(sides, len(sides)):
            if runner:
                times[side].append(bench(runner, 3) * 1e3)
    us = {side: round(median(taken), 1) for side, taken in times.items()}
    row = {"case": name, "us": us, "errors": {side: info["err"] for side, runner, info in sides if runner}}
    peers = [taken for side, taken in us.items() if side.startswith("flashinfer")]
    if "ours" in us and peers:
        row["ratio"] = round(us["ours"] / min(peers), 3)
    if "ours" in us and "dense" in us:
        row["of_dense"] = round(us["ours"] / (us["dense"] * CASES[name][-1]), 3)
    return row | ({"cannot": cannot} if cannot else {})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--match", default="")
    a = arguments.parse_args()
    with open(a.out, "w") as out:
        for name in CASES:
            if re.search(a.match, name):
                row = json.dumps(raced(name, a.rounds))
                print(row, flush=True)
                print(row, file=out, flush=True)
                torch.cuda.empty_cache()


main()
