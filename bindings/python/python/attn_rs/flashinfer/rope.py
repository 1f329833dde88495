"""`flashinfer.rope`: queries and keys, (tokens, heads, head dim), rotated by positions by `attn_rs.ops.rotate`, into
new memory. What `inplace` rotates is copied back, a pass more."""

from collections.abc import Callable
from typing import Any

import torch

from .._arrays import joined
from .._append import places
from ..ops import rotate, rotate_append
from ._bindings import Maybe, Tensor, bind, store, unpack

__all__ = ["apply_llama31_rope", "apply_llama31_rope_inplace", "apply_llama31_rope_pos_ids",
    "apply_llama31_rope_pos_ids_inplace", "apply_rope", "apply_rope_inplace", "apply_rope_pos_ids",
    "apply_rope_pos_ids_inplace", "apply_rope_with_cos_sin_cache", "apply_rope_with_cos_sin_cache_inplace",
    "mla_rope_quantize_fp8", "rope_quantize_fp8", "rope_quantize_fp8_append_paged_kv_cache"]  # fmt: skip

Pair = tuple[Tensor, Tensor]


def _in_place(rotated: Callable[..., Pair]) -> Callable[..., None]:
    def call(q: Tensor, k: Tensor, *args: Any, **options: Any) -> None:
        for x, new in zip((q, k), rotated(q, k, *args, **options), strict=True):
            x.copy_(new)

    return call


def _rotations(part: str, numbers: dict[str, tuple[str, float]]) -> tuple[Callable[..., Any], ...]:
    """The functions of a rotation by the positions of tokens, and by those of the first tokens of requests, each into
    new memory and in place. `numbers` are FlashInfer's arguments, their names in attn_rs and defaults."""

    def by_pos_ids(q: Tensor, k: Tensor, pos_ids: Tensor, *args: Any, **options: Any) -> Pair:
        given = bind("rotary_dim interleave " + " ".join(numbers), args, options)
        words = [f"{own}={type(default)(given.get(name, default))!r}" for name, (own, default) in numbers.items()]
        words.append(f"interleaved={str(bool(given.get('interleave'))).lower()}")
        how = pos_ids.int().contiguous(), f"{part}({', '.join(words)})"
        return rotate(q, *how, dim=given.get("rotary_dim")), rotate(k, *how, dim=given.get("rotary_dim"))

    def by_requests(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
        counts, at = indptr.diff().long(), torch.arange(len(q), device=indptr.device)
        which = torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts, output_size=len(q))
        return by_pos_ids(q, k, at - indptr[which] + offsets[which], *args, **options)

    return by_pos_ids, _in_place(by_pos_ids), by_requests, _in_place(by_requests)


apply_rope_pos_ids, apply_rope_pos_ids_inplace, apply_rope, apply_rope_inplace = _rotations(
    "rope", {"rope_scale": ("scale", 1.0), "rope_theta": ("theta", 1e4)}
)
_LLAMA = {"rope_scale": ("factor", 8.0), "rope_theta": ("theta", 5e5), "low_freq_factor": ("low_freq_factor", 1.0)}
_LLAMA |= {"high_freq_factor": ("high_freq_factor", 4.0), "old_context_len": ("original_len", 8192)}
(
    apply_llama31_rope_pos_ids, apply_llama31_rope_pos_ids_inplace, apply_llama31_rope, apply_llama31_rope_inplace,
) = _rotations("llama3_rope", _LLAMA)  # fmt: skip


def _by(table: Tensor, is_neox: bool) -> dict[str, Any]:
    if table.dtype != torch.float32:
        raise ValueError("cos_sin_cache should be float32")
    return {"cos_sin": table, "interleaved": not is_neox}


def apply_rope_with_cos_sin_cache(positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor,
        is_neox: bool = True) -> Pair:  # fmt: skip
    """Rotates by a table, (positions, rotary dim), of cosines and then sines, in float32. Rows are (tokens, heads *
    head size). A table's values are copied where it is another tensor than in the last call, or has changed."""
    rows = (x.reshape(x.shape[0], -1, head_size) for x in (query, key))
    q, k = (rotate(x, positions.int().contiguous(), **_by(cos_sin_cache, is_neox)) for x in rows)
    return q.reshape(query.shape), k.reshape(key.shape)


def apply_rope_with_cos_sin_cache_inplace(positions: Tensor, query: Tensor, key: Tensor, *by: Any, **how: Any) -> None:
    for x, new in zip((query, key), apply_rope_with_cos_sin_cache(positions, query, key, *by, **how), strict=True):
        x.copy_(new)


def rope_quantize_fp8(q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, cos_sin_cache: Tensor,
        pos_ids: Tensor, is_neox: bool = True, quantize_dtype: torch.dtype | None = None, quant_scale_q: float = 1.0,
        quant_scale_kv: float = 1.0, q_rope_out: Maybe = None, k_rope_out: Maybe = None, q_nope_out: Maybe = None,
        k_nope_out: Maybe = None, enable_pdl: bool = False,
        backend: str = "cuda") -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Rotates the rotary parts, and rounds all parts times their scales to FP8: passes of torch over them."""
    outs = q_rope_out, k_rope_out, q_nope_out, k_nope_out
    dtype = quantize_dtype or next((out.dtype for out in outs if out is not None), torch.float8_e4m3fn)
    rows = (x if x.dim() == 3 else x[:, None] for x in (q_rope.float(), k_rope.float()))
    q, k = (rotate(x, pos_ids.int().contiguous(), **_by(cos_sin_cache, is_neox)) for x in rows)
    rests = (of[..., :0] if x is None else x for of, x in ((q_rope, q_nope), (k_rope, k_nope)))
    parts = zip((q, k.reshape(k_rope.shape), *rests), outs, (quant_scale_q, quant_scale_kv) * 2, strict=True)
    a, b, c, d = (store(x.float() * scale, out, dtype) for x, out, scale in parts)
    return a, b, c, d


mla_rope_quantize_fp8 = rope_quantize_fp8


def rope_quantize_fp8_append_paged_kv_cache(q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, v: Maybe,
        cos_sin_cache: Tensor, pos_ids: Tensor, paged_kv_cache: tuple[Tensor, Tensor], kv_indices: Tensor,
        kv_indptr: Tensor, batch_indices: Tensor, positions: Tensor, *args: Any, **options: Any) -> Any:  # fmt: skip
    """In one launch, after passes that join parts of GQA that lie apart, or find slots: not for `pos_ids=positions`."""
    if (v is None) != (k_rope.dim() == 2):
        raise ValueError("v is given for GQA and MHA, and None for MLA, whose keys have two dimensions")
    order = "is_neox quantize_dtype quant_scale_q quant_scale_kv page_size kv_layout q_rope_out q_nope_out enable_pdl"
    how = bind(order, args, options)
    outs, layout = (how.get("q_rope_out"), how.get("q_nope_out")), how.get("kv_layout", "NHD")
    dtype = how.get("quantize_dtype") or next((x.dtype for x in outs if x is not None), torch.float8_e4m3fn)
    q_rest, k_rest = (x[..., :0] if rest is None else rest for x, rest in ((q_rope, q_nope), (k_rope, k_nope)))
    if v is None:
        q, k, values, pools = q_rope, k_rope[:, None], k_rest[:, None], [x[:, :, None] for x in paged_kv_cache[::-1]]
        made = [torch.empty_like(x, dtype=dtype) if y is None else y for x, y in zip((q, q_rest), outs, strict=True)]
        to: dict[str, Any] = {"q_out": made[0], "q_rest": q_rest, "q_rest_out": made[1]}
    else:
        q, k, values, pools = joined(q_rope, q_rest), joined(k_rope, k_rest), v, [*unpack(paged_kv_cache, layout)]
        to = {"q_out": torch.empty_like(q, dtype=dtype), "kv_layout": layout}
        made = list(to["q_out"].split((q_rope.shape[-1], q_rest.shape[-1]), -1))
    to |= {name: 1 / how.get("quant_scale_kv", 1.0) for name in ("k_scale", "v_scale")}
    to |= places(pos_ids, batch_indices, positions, kv_indptr, kv_indices, pools[0], to.get("kv_layout"))
    to |= _by(cos_sin_cache, how.get("is_neox", True)) | {"q_scale": 1 / how.get("quant_scale_q", 1.0)}
    rotate_append(q, k, values, pools[0], pools[1], **to)
    return tuple(x if y is None or y is x else y.copy_(x) for x, y in zip(made, outs, strict=True))
