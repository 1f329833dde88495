"""`flashinfer.rope`: queries and keys, (tokens, heads, head dim), rotated by positions.

Rows are rotated as an append rotates keys, into new memory. What `inplace` rotates is copied back, a pass more.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from ._bindings import Kind, Maybe, Tensor, append, kept, refuse

__all__ = [
    "apply_llama31_rope", "apply_llama31_rope_inplace", "apply_llama31_rope_pos_ids",
    "apply_llama31_rope_pos_ids_inplace", "apply_rope", "apply_rope_inplace", "apply_rope_pos_ids",
    "apply_rope_pos_ids_inplace", "apply_rope_with_cos_sin_cache", "apply_rope_with_cos_sin_cache_inplace",
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
