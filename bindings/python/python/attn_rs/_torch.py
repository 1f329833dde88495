"""Custom ops of torch, so that `torch.compile` passes through. Imported where torch is used."""

import ast
import weakref
from typing import Any

import torch

from . import _attention
from ._arrays import listed
from ._errors import InvalidArgument, Unsupported

# plans that a compiled program may name
plans: Any = weakref.WeakValueDictionary()


def attention(
    q: Any,
    k: Any,
    v: Any,
    variant: str,
    scale: float | None,
    params: dict[str, Any] | None,
    layout: str,
    cu_q: Any,
    cu_k: Any,
    *,
    mask: Any = None,
    return_lse: bool = False,
) -> Any:
    """As `attn_rs.attention`, as an op: traced by `torch.compile`, and a backward pass through it raises."""
    names: list[str] = []
    tensors: list[torch.Tensor] = []
    scalars: list[str] = []
    for name, value in (params or {}).items():
        if isinstance(value, torch.Tensor):
            names.append(name)
            tensors.append(value)
        else:
            value = listed(name, value)
            scalars.append(f"{name}={value!r}")
    texts = "\n".join(scalars), "\n".join(names)
    return torch.ops.attn_rs.attention(q, k, v, variant, scale, *texts, tensors, layout, cu_q, cu_k, mask, return_lse)


@torch.library.custom_op("attn_rs::attention", mutates_args=())
def _op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    variant: str,
    scale: float | None,
    scalars: str,
    names: str,
    tensors: list[torch.Tensor],
    layout: str,
    cu_q: torch.Tensor | None,
    cu_k: torch.Tensor | None,
    mask: torch.Tensor | None,
    return_lse: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    params = dict(zip(names.splitlines(), tensors, strict=True))
    for scalar in scalars.splitlines():
        name, _, value = scalar.partition("=")
        params[name] = ast.literal_eval(value)
    o, lse = _attention.run(q, k, v, variant, scale, params, layout, cu_q, cu_k, mask, None, return_lse)
    return o, q.new_empty(0, dtype=torch.float32) if lse is None else lse


@_op.register_fake
def _(
    q: Any,
    k: Any,
    v: Any,
    variant: str,
    scale: float | None,
    scalars: Any,
    names: Any,
    tensors: dict[str, Any],
    layout: str,
    cu_q: Any,
    cu_k: Any,
    mask: Any,
    return_lse: bool,
) -> Any:
    def memory(shape: Any, dtype: Any, last: Any) -> Any:
        # `bhsd` is a view of `bshd`
        if layout == "bhsd":
            batch, heads, tokens = shape
            x = q.new_empty((batch, tokens, heads, *last), dtype=dtype)
            return x.swapaxes(1, 2)
        return q.new_empty((*shape, *last), dtype=dtype)

    o = memory(q.shape[:-1], q.dtype, (v.shape[-1],))
    return o, memory(q.shape[:-1], torch.float32, ()) if return_lse else q.new_empty(0, dtype=torch.float32)


@torch.library.custom_op("attn_rs::run_plan", mutates_args=())
def run_plan(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor | None, plan: int, value_dim: int, k_scale: float, v_scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs the plan of a number, with its log-sum-exps."""
    if (found := plans.get(plan)) is None:
        raise InvalidArgument("the plan of a compiled program is gone; keep it while the program runs")
    new = q.new_zeros if found._leaves_rows(q) else q.new_empty
    o, lse = new((*q.shape[:2], value_dim)), new(q.shape[:2], dtype=torch.float32)
    found.native.run(q, k, v, o, lse, k_scale=k_scale, v_scale=v_scale)
    return o, lse


@run_plan.register_fake
def _(q: Any, k: Any, v: Any, plan: Any, value_dim: Any, k_scale: Any, v_scale: Any) -> Any:
    return q.new_empty((*q.shape[:2], value_dim)), q.new_empty(q.shape[:2], dtype=torch.float32)


def _backward(ctx: Any, *grads: Any) -> None:
    raise Unsupported(
        "attn_rs computes the forward pass alone, and autograd asks for a backward pass through it: use "
        "torch.no_grad(), or another attention for training"
    )


for _of in (_op, run_plan):
    _of.register_autograd(_backward)
