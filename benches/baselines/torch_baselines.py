"""cuDNN and FlashAttention-2 through torch SDPA, FlexAttention: equal lengths, contiguous."""

import time
import torch

from cases import DT, kind, lens, parse
import masks
from reference import Check
import shared_tensors
from timing import DEV, Runner


class Rows(Runner):
    """A runner whose output is (batch, heads, queries, head_dim); `rows` makes (tokens, heads, head_dim) of it.

    It is not captured: torch checks guards and chooses a backend in each call, behind which the device sleeps.
    """

    def __init__(self, f, rows, name):
        super().__init__(f, eager=True, name=name)
        self.rows = rows

    def output(self):
        return self.rows(super().output())


def torch_baseline(case, which):
    v, Q, K = parse(case["variant"]), lens(case["qo_lens"]), lens(case["kv_lens"])
    can = {"causal"} if which != "flex" else masks.MASKS | {"soft_cap", "alibi"}
    if kind(case) != "plain" or len(set(Q)) != 1 or Q != K or case.get("kv_layout", "ragged") == "paged":
        yield which, None, "equal lengths and contiguous only"
        return
    if set(v) - can:
        yield which, None, f"no {sorted(set(v) - can)}"
        return
    b, s, hq, hkv, d = len(Q), Q[0], case["qo_heads"], case["kv_heads"], case["head_dim"]
    mk = lambda name, h: shared_tensors.rows(name, (b * s, h, d), DT[case["dtype"]]).view(b, s, h, d).transpose(1, 2)
    q, k, vv = (x.contiguous() for x in (mk("q", hq), mk("k", hkv), mk("v", hkv)))
    rows = lambda o: o.transpose(1, 2).reshape(b * s, hq, d)
    in_rows = lambda x, i: x[i].transpose(0, 1)
    try:
        if which != "flex":
            from torch.nn.attention import sdpa_kernel, SDPBackend

            be = SDPBackend.CUDNN_ATTENTION if which == "cudnn" else SDPBackend.FLASH_ATTENTION

            def f():
                with sdpa_kernel(be):
                    return torch.nn.functional.scaled_dot_product_attention(
                        q, k, vv, is_causal="causal" in v, enable_gqa=hq != hkv
                    )

            f = Rows(f, rows, which)

            f()
            torch.cuda.synchronize()
            yield which, f, {}
            return
        from torch.nn.attention.flex_attention import flex_attention, create_block_mask

        torch._dynamo.reset()
        cap = v.get("soft_cap", {}).get("cap")
        slopes = torch.exp2(-8.0 * (torch.arange(hq, device=DEV) + 1) / hq)
        smod = (
            (lambda x, b_, h, i, j: cap * torch.tanh(x / cap))
            if cap
            else ((lambda x, b_, h, i, j: x + slopes[h] * (j - i)) if "alibi" in v else None)
        )
        mmod, per_request = masks.mask_mod(v, b, DEV)
        t = time.time()
        bm = create_block_mask(mmod, b if per_request else None, None, s, s, device=DEV) if mmod else None
        fl = torch.compile(flex_attention)
        f = Rows(lambda: fl(q, k, vv, score_mod=smod, block_mask=bm, enable_gqa=hq != hkv), rows, which)
        f()
        torch.cuda.synchronize()
        info = {"first_s": round(time.time() - t, 2)}
        seen = masks.intervals({part: v[part] for part in v if part in masks.MASKS}, Q, K)
        if seen is not None and "alibi" not in v:
            keys = lambda i: (in_rows(k, i), in_rows(vv, i))
            info["err"], most = Check(case, rows(q), keys, "causal" in v, seen)(f.output())
            if info["err"] > most:
                yield which, None, f"wrong results: off by {info['err']:.2g}, at most {most:.2g} is rounding"
                return
        yield which, f, info
    except Exception as e:
        yield which, None, f"{type(e).__name__}: {str(e)[:160]}"
