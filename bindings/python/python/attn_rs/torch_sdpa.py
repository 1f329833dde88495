"""attn_rs as a flash attention of `torch.nn.attention`.

    attn_rs.torch_sdpa.register()
    torch.nn.attention.activate_flash_attention_impl("attn_rs")

From then on `torch.nn.functional.scaled_dot_product_attention` of CUDA tensors runs here wherever torch chooses its
flash attention (float16 or bfloat16, no mask but `is_causal`), until `restore_flash_attention_impl()`. Torch 2.11 and
later have that registry. It has one entry for all calls, so a variant is given to `register` and not to a call. With a
variant, calls that torch would send elsewhere (float32, a mask, nested tensors) are refused, since they would be
without it. The backward pass stays torch's own, which is right for plain attention alone: with a variant it raises.
Dropout is refused.
"""

from typing import Any, cast

from ._errors import InvalidArgument, Unsupported

_NAME = "attn_rs"
# torch's attentions beside the flash attention; the last four are those of nested tensors, of variable lengths and of
# `nn.MultiheadAttention` without gradients
_OTHERS = (
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_flash_attention_forward",
    "_efficient_attention_forward",
    "_cudnn_attention_forward",
    "_native_multi_head_attention",
)


def register(name: str = _NAME, variant: str | None = None) -> None:
    """Adds a flash attention called `name` to those of torch: plain attention, or with the parts of a variant, such as
    `"soft_cap(cap=30)"`, beside the `causal` of the call."""
    try:
        from torch.nn.attention import register_flash_attention_impl
    except ImportError as error:
        raise Unsupported("this torch has no registry of flash attentions; torch 2.11 has") from error
    register_flash_attention_impl(name, register_fn=lambda: _Handle(variant))


class _Handle:
    """What keeps the kernels of torch's dispatcher replaced."""

    def __init__(self, variant: str | None, device: str = "CUDA") -> None:
        from torch.library import Library

        forward = _forward(variant)
        # torch has no types of it
        self._library: Any = cast(Any, Library)("aten", "IMPL", device)
        self._library.impl("_scaled_dot_product_flash_attention", forward, device)
        if variant is not None:
            self._library.impl("_scaled_dot_product_flash_attention_backward", _no_backward, device)
            for other in _OTHERS:
                self._library.impl(other, _without(variant), device)

    def remove(self) -> None:
        """Gives the dispatcher its own kernels back."""
        self._library._destroy()
        self._library = None


def _no_backward(*args: Any, **kwargs: Any) -> None:
    raise Unsupported("a variant of attn_rs has no backward pass")


def _without(variant: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise Unsupported(
            f"`{variant}` is registered for all calls, and torch sends this one to another attention than its flash "
            "attention: give float16 or bfloat16 and no mask but `is_causal`, or call restore_flash_attention_impl()"
        )

    return refuse


def _forward(variant: str | None) -> Any:
    import torch

    from . import _attention

    def forward(
        query: Any,
        key: Any,
        value: Any,
        dropout_p: Any = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: float | None = None,
    ) -> Any:
        if dropout_p:
            raise Unsupported(f"dropout_p is {dropout_p}; there is no dropout")
        if return_debug_mask:
            raise Unsupported("return_debug_mask is True; there is no mask of dropout to return")
        queries, keys = query.shape[2], key.shape[2]
        if is_causal and queries != keys:
            # torch aligns the first query and the first key, a variant the last ones
            raise InvalidArgument(f"is_causal with {queries} queries and {keys} keys; they are as many here")
        parts = " + ".join(part for part in ("causal" if is_causal else "", variant or "") if part) or "full"
        o, lse = _attention.run(query, key, value, parts, scale, None, "bhsd", None, None, None, None, True)
        seed = torch.zeros(2, dtype=torch.uint64, device=query.device)
        offset = torch.zeros((), dtype=torch.uint64, device=query.device)
        debug = query.new_empty(0)
        return o, lse.contiguous(), None, None, queries, keys, seed, offset, debug

    return forward
