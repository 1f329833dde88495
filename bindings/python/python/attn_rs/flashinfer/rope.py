"""`flashinfer.rope`: queries and keys, (tokens, heads, head dim), rotated by positions by `attn_rs.ops.rotate`, into
new memory. What `inplace` rotates is copied back, a pass more."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ..ops import rotate
from ._bindings import Maybe, Tensor, store
from .page import append_paged_kv_cache, append_paged_mla_kv_cache

__all__ = [
    "apply_llama31_rope", "apply_llama31_rope_inplace", "apply_llama31_rope_pos_ids",
    "apply_llama31_rope_pos_ids_inplace", "apply_rope", "apply_rope_inplace", "apply_rope_pos_ids",
    "apply_rope_pos_ids_inplace", "apply_rope_with_cos_sin_cache", "apply_rope_with_cos_sin_cache_inplace",
    "mla_rope_quantize_fp8", "rope_quantize_fp8", "rope_quantize_fp8_append_paged_kv_cache",
]  # fmt: skip

Pair = tuple[Tensor, Tensor]


def _both(q: Tensor, k: Tensor, at: Tensor, part: str, rotary: int | None, interleave: bool, **numbers: Any) -> Pair:
    words = ", ".join(f"{name}={value!r}" for name, value in numbers.items())
    part, at = f"{part}({words}, interleaved={str(bool(interleave)).lower()})", at.int().contiguous()
    return rotate(q, at, part, dim=rotary), rotate(k, at, part, dim=rotary)


def apply_rope_pos_ids(
    q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None, interleave: bool = False,
    rope_scale: float = 1, rope_theta: float = 1e4,
) -> Pair:  # fmt: skip
    numbers = {"theta": float(rope_theta), "scale": float(rope_scale)}
    return _both(q, k, pos_ids, "rope", rotary_dim, interleave, **numbers)


def apply_llama31_rope_pos_ids(
    q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None, interleave: bool = False,
    rope_scale: float = 8, rope_theta: float = 5e5, low_freq_factor: float = 1, high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> Pair:  # fmt: skip
    numbers = {"theta": rope_theta, "factor": rope_scale, "low_freq_factor": low_freq_factor}
    numbers = {name: float(value) for name, value in {**numbers, "high_freq_factor": high_freq_factor}.items()}
    return _both(q, k, pos_ids, "llama3_rope", rotary_dim, interleave, **numbers, original_len=old_context_len)


def _positions(indptr: Tensor, offsets: Tensor, nnz: int) -> Tensor:
    """Those of requests whose first tokens are at `offsets`."""
    counts = indptr.diff().long()
    which = torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts, output_size=nnz)
    return torch.arange(nnz, device=indptr.device) - indptr[which] + offsets[which]


def apply_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
    """`apply_rope_pos_ids`, of requests whose first tokens are at `offsets`."""
    return apply_rope_pos_ids(q, k, _positions(indptr, offsets, q.shape[0]), *args, **options)


def apply_llama31_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
    """`apply_llama31_rope_pos_ids`, of requests whose first tokens are at `offsets`."""
    return apply_llama31_rope_pos_ids(q, k, _positions(indptr, offsets, q.shape[0]), *args, **options)


def _by_table(x: Tensor, positions: Tensor, table: Tensor, is_neox: bool) -> Tensor:
    if table.dtype != torch.float32:
        raise ValueError("cos_sin_cache should be float32")
    rotated: Tensor = rotate(x, positions.int().contiguous(), cos_sin=table, interleaved=not is_neox)
    return rotated


def apply_rope_with_cos_sin_cache(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool = True
) -> Pair:
    """Rotates by a table, (positions, rotary dim), of cosines and then sines, in float32. Rows are (tokens, heads *
    head size). A table's values are copied where it is another tensor than in the last call, or has changed."""
    rows = (x.reshape(x.shape[0], -1, head_size) for x in (query, key))
    q, k = (_by_table(x, positions, cos_sin_cache, is_neox) for x in rows)
    return q.reshape(query.shape), k.reshape(key.shape)


def _in_place(rotate: Callable[..., Pair], *names: str) -> Callable[..., None]:
    """A function that writes the rows that `rotate` returns back into these arguments."""
    signature = inspect.signature(rotate)

    def call(*args: Any, **options: Any) -> None:
        rows = signature.bind(*args, **options).arguments
        for name, rotated in zip(names, rotate(*args, **options), strict=True):
            rows[name].copy_(rotated.reshape(rows[name].shape))

    return call


apply_rope_inplace, apply_rope_pos_ids_inplace = (_in_place(of, "q", "k") for of in (apply_rope, apply_rope_pos_ids))
apply_llama31_rope_inplace = _in_place(apply_llama31_rope, "q", "k")
apply_llama31_rope_pos_ids_inplace = _in_place(apply_llama31_rope_pos_ids, "q", "k")
apply_rope_with_cos_sin_cache_inplace = _in_place(apply_rope_with_cos_sin_cache, "query", "key")


def rope_quantize_fp8(
    q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, cos_sin_cache: Tensor, pos_ids: Tensor,
    is_neox: bool = True, quantize_dtype: torch.dtype | None = None, quant_scale_q: float = 1.0,
    quant_scale_kv: float = 1.0, q_rope_out: Maybe = None, k_rope_out: Maybe = None, q_nope_out: Maybe = None,
    k_nope_out: Maybe = None, enable_pdl: bool = False, backend: str = "cuda",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Rotates the rotary parts, and rounds all parts times their scales to FP8: passes of torch over them."""
    outs = q_rope_out, k_rope_out, q_nope_out, k_nope_out
    dtype = quantize_dtype or next((out.dtype for out in outs if out is not None), torch.float8_e4m3fn)
    rows = (x if x.dim() == 3 else x[:, None] for x in (q_rope.float(), k_rope.float()))
    q, k = (_by_table(x, pos_ids, cos_sin_cache, is_neox) for x in rows)
    rests = (of[..., :0] if x is None else x for of, x in ((q_rope, q_nope), (k_rope, k_nope)))
    parts = zip((q, k.reshape(k_rope.shape), *rests), outs, (quant_scale_q, quant_scale_kv) * 2, strict=True)
    a, b, c, d = (store(x.float() * scale, out, dtype) for x, out, scale in parts)
    return a, b, c, d


mla_rope_quantize_fp8 = rope_quantize_fp8


def rope_quantize_fp8_append_paged_kv_cache(
    q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, v: Maybe, cos_sin_cache: Tensor, pos_ids: Tensor,
    paged_kv_cache: tuple[Tensor, Tensor], kv_indices: Tensor, kv_indptr: Tensor, batch_indices: Tensor,
    positions: Tensor, is_neox: bool = True, quantize_dtype: torch.dtype | None = None, quant_scale_q: float = 1.0,
    quant_scale_kv: float = 1.0, page_size: int = 16, kv_layout: str = "NHD", q_rope_out: Maybe = None,
    q_nope_out: Maybe = None, enable_pdl: bool = False,
) -> Pair:  # fmt: skip
    """`rope_quantize_fp8`, and an append of keys and values; keys of two dimensions are those of MLA."""
    if (v is None) != (k_rope.dim() == 2):
        raise ValueError("v is given for GQA and MHA, and None for MLA, whose keys have two dimensions")
    how = is_neox, quantize_dtype, quant_scale_q, quant_scale_kv, q_rope_out, None, q_nope_out
    q, k, q_rest, k_rest = rope_quantize_fp8(q_rope, k_rope, q_nope, k_nope, cos_sin_cache, pos_ids, *how)
    places, pages = (batch_indices, positions), (kv_indices, kv_indptr, kv_indptr)
    if v is None:
        append_paged_mla_kv_cache(k_rest, k, *places, *paged_kv_cache, *pages)
    else:
        keys = torch.cat([k.view(torch.uint8), k_rest.view(torch.uint8)], -1).view(k.dtype)
        values = store(v.float() * quant_scale_kv, None, k.dtype)
        append_paged_kv_cache(keys, values, *places, paged_kv_cache, *pages, kv_layout)
    return q, q_rest
