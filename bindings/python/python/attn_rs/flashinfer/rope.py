"""`flashinfer.rope`: queries and keys, (tokens, heads, head dim), rotated by positions.

Rows are rotated as an append rotates keys, into new memory. What `inplace` rotates is copied back, a pass more.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ._bindings import Kind, Maybe, Tensor, append, kept, refuse
from .page import append_paged_kv_cache, append_paged_mla_kv_cache

__all__ = [
    "apply_llama31_rope", "apply_llama31_rope_inplace", "apply_llama31_rope_pos_ids",
    "apply_llama31_rope_pos_ids_inplace", "apply_rope", "apply_rope_inplace", "apply_rope_pos_ids",
    "apply_rope_pos_ids_inplace", "apply_rope_with_cos_sin_cache", "apply_rope_with_cos_sin_cache_inplace",
    "mla_rope_quantize_fp8", "rope_quantize_fp8", "rope_quantize_fp8_append_paged_kv_cache",
]  # fmt: skip

Pair = tuple[Tensor, Tensor]
# attentions of tables of cosines and sines, and the table whose values each has
_tables: dict[Kind, tuple[Any, Maybe, int]] = {}


def _rotated(x: Tensor, positions: Tensor, part: str, rotary_dim: int, table: Maybe = None) -> Tensor:
    """The first `rotary_dim` elements of each head rotated, and the others as they are."""
    tokens, heads, dim = x.shape
    if rotary_dim % 8:
        refuse(f"a rotary dim of {rotary_dim}", "it is a multiple of 8")
    out = torch.empty((tokens, 1, heads, dim), dtype=x.dtype, device=x.device)
    kind = Kind(part, None, str(x.device), heads, heads, rotary_dim, rotary_dim, x.dtype, x.dtype)
    kind = kind._replace(values_in_keys=True, stores_transformed=True)
    made = kept(kind) if table is None else _of_table(kind, table)
    places = {"slots": torch.arange(tokens, device=x.device), "positions": positions.int().contiguous()}
    append(x[..., :rotary_dim], None, out[..., :rotary_dim], None, kv_layout="latent", attention=made, **places)
    out[:, 0, :, rotary_dim:] = x[..., rotary_dim:]
    return out[:, 0]


def _of_table(kind: Kind, table: Tensor) -> Any:
    """An attention with the values of a table, which are written anew where it is another or has changed."""
    made, last, version = _tables.get(kind, (None, None, -1))
    if made is None or last is not table or version != table._version:
        cos, sin = (half.contiguous() for half in table.chunk(2, -1))
        if made is None:
            made = kind.attention({"rope_table.cos": cos.cpu(), "rope_table.sin": sin.cpu()})
        else:
            made.set_tensor("rope_table.cos", cos)
            made.set_tensor("rope_table.sin", sin)
        _tables[kind] = made, table, table._version
    return made


def _positions(indptr: Tensor, offsets: Tensor, nnz: int) -> Tensor:
    counts = indptr.diff().long()
    which = torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts, output_size=nnz)
    return torch.arange(nnz, device=indptr.device) - indptr[which] + offsets[which]


def apply_rope_pos_ids(
    q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None, interleave: bool = False,
    rope_scale: float = 1, rope_theta: float = 1e4,
) -> Pair:  # fmt: skip
    numbers = f"theta={float(rope_theta)!r}, scale={float(rope_scale)!r}, interleaved={_word(interleave)}"
    rotary = rotary_dim or q.shape[-1]
    return _rotated(q, pos_ids, f"rope({numbers})", rotary), _rotated(k, pos_ids, f"rope({numbers})", rotary)


def apply_llama31_rope_pos_ids(
    q: Tensor, k: Tensor, pos_ids: Tensor, rotary_dim: int | None = None, interleave: bool = False,
    rope_scale: float = 8, rope_theta: float = 5e5, low_freq_factor: float = 1, high_freq_factor: float = 4,
    old_context_len: int = 8192,
) -> Pair:  # fmt: skip
    factors = f"low_freq_factor={float(low_freq_factor)!r}, high_freq_factor={float(high_freq_factor)!r}"
    numbers = f"theta={float(rope_theta)!r}, factor={float(rope_scale)!r}, {factors}, original_len={old_context_len}"
    part, rotary = f"llama3_rope({numbers}, interleaved={_word(interleave)})", rotary_dim or q.shape[-1]
    return _rotated(q, pos_ids, part, rotary), _rotated(k, pos_ids, part, rotary)


def _word(interleave: bool) -> str:
    return str(bool(interleave)).lower()


def apply_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
    """`apply_rope_pos_ids`, of requests whose first tokens are at `offsets`."""
    return apply_rope_pos_ids(q, k, _positions(indptr, offsets, q.shape[0]), *args, **options)


def apply_llama31_rope(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
    """`apply_llama31_rope_pos_ids`, of requests whose first tokens are at `offsets`."""
    return apply_llama31_rope_pos_ids(q, k, _positions(indptr, offsets, q.shape[0]), *args, **options)


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


def _by_table(x: Tensor, positions: Tensor, table: Tensor, is_neox: bool) -> Tensor:
    if table.dtype != torch.float32:
        raise ValueError("cos_sin_cache should be float32")
    rows, rotary = table.shape
    part = f"rope_table(positions={rows}, rotary_dim={rotary}, interleaved={_word(not is_neox)})"
    return _rotated(x, positions, part, rotary, table)


def apply_rope_with_cos_sin_cache(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool = True
) -> Pair:
    """Rotates by a table, (positions, rotary dim), of cosines and then sines, in float32. Rows are (tokens, heads *
    head size). A table's values are copied where it is another tensor than in the last call, or has changed."""
    heads = (x.reshape(x.shape[0], -1, head_size) for x in (query, key))
    q, k = (_by_table(x, positions, cos_sin_cache, is_neox) for x in heads)
    return q.reshape(query.shape), k.reshape(key.shape)


apply_rope_with_cos_sin_cache_inplace = _in_place(apply_rope_with_cos_sin_cache, "query", "key")


def _fp8(x: Tensor, scale: float, dtype: torch.dtype, out: Maybe = None) -> Tensor:
    most = torch.finfo(dtype).max
    x = (x.float() * scale).clamp(-most, most).to(dtype)
    return x if out is None else out.copy_(x)


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
    q_rest, k_rest = q_rope[..., :0] if q_nope is None else q_nope, k_rope[..., :0] if k_nope is None else k_nope
    return (
        _fp8(q, quant_scale_q, dtype, q_rope_out),
        _fp8(k.reshape(k_rope.shape), quant_scale_kv, dtype, k_rope_out),
        _fp8(q_rest, quant_scale_q, dtype, q_nope_out),
        _fp8(k_rest, quant_scale_kv, dtype, k_nope_out),
    )


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
    places, pages = (batch_indices.int(), positions.int()), (kv_indices.int(), kv_indptr.int(), kv_indptr)
    if v is None:
        append_paged_mla_kv_cache(k_rest, k, *places, *paged_kv_cache, *pages)
    else:
        keys = torch.cat([k.view(torch.uint8), k_rest.view(torch.uint8)], -1).view(k.dtype)
        append_paged_kv_cache(keys, _fp8(v, quant_scale_kv, k.dtype), *places, paged_kv_cache, *pages, kv_layout)
    return q, q_rest
