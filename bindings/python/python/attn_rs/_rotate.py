"""Rotations of queries and keys by their positions."""

import functools
import sys
from typing import Any

from ._append import append
from ._arrays import check_tensor, device_name, dtype_name, empty, is_torch, version_of
from ._errors import InvalidArgument, Unsupported
from ._plans import AttentionKey

# attentions by a table, the table whose values each has, and how often that was changed
_by_table: dict[AttentionKey, tuple[Any, Any, int | None]] = {}
_kept = functools.lru_cache(maxsize=64)(AttentionKey.attention)


def rotate(
    x: Any,
    positions: Any,
    expression: str | None = None,
    *,
    dim: int | None = None,
    cos_sin: Any = None,
    interleaved: bool = False,
) -> Any:
    """Rotates the heads of queries or keys by their positions, as the transforms of a variant do, in one launch.

    Args:
        x: (tokens, heads, head dim) in float16, bfloat16 or float32.
        positions: int32 of tokens.
        expression: a rotation, such as `"rope(theta=10000.0)"` or `"llama3_rope(..)"`.
        dim: how many elements of each head are rotated, the first ones: a multiple of 8. By default all; others stay as
            they are.
        cos_sin: in place of an expression, a table of cosines and then sines, (positions, dim) in float32. Its values
            are copied where it is another array than in the call before, or has changed.
        interleaved: whether the elements of a pair are neighbours in `x`, for a table.

    Returns:
        The rotated rows, in new memory.
    """
    check_tensor("x", x, 3)
    expression = _rotation(expression, cos_sin, interleaved)
    dim = dim if cos_sin is None else cos_sin.shape[1]
    tokens, heads, head_dim = x.shape
    dim = head_dim if dim is None else dim
    if dim % 8:
        raise Unsupported(f"a rotary dim of {dim}; it is a multiple of 8")
    out = empty(x, (tokens, 1, heads, head_dim))
    how = heads, heads, dim, dim, dtype_name(x), dtype_name(x), None, None, True, True
    key = AttentionKey(expression, None, device_name(x), *how)
    made = _kept(key) if cos_sin is None else _of_table(key, cos_sin)
    pool = out[..., :dim]
    append(x[..., :dim], None, pool, None, _slots(x), kv_layout="latent", positions=positions, attention=made)
    if dim < head_dim:
        out[:, 0, :, dim:] = x[..., dim:]
    return out[:, 0]


def _rotation(expression: str | None, cos_sin: Any, interleaved: bool) -> str:
    """The expression of a rotation that is given by itself or as a table."""
    if (expression is None) == (cos_sin is None):
        raise InvalidArgument("a rotation is an `expression` or a table `cos_sin`, and one of them is given")
    if cos_sin is None:
        return str(expression)
    check_tensor("cos_sin", cos_sin, 2)
    rows, dim = cos_sin.shape
    return f"rope_table(positions={rows}, rotary_dim={dim}, interleaved={str(bool(interleaved)).lower()})"


def rotate_append(
    q: Any,
    k: Any,
    v: Any,
    k_pool: Any,
    v_pool: Any,
    slots: Any = None,
    *,
    positions: Any,
    expression: str | None = None,
    cos_sin: Any = None,
    interleaved: bool = False,
    kv_format: str | None = None,
    **places: Any,
) -> Any:
    """Rotates queries and keys, and appends keys and values to pools of pages, in one launch.

    Args:
        q: (tokens, query heads, head dim), of the type of `k` and `v`.
        k, v, k_pool, v_pool, slots: as `attn_rs.append` takes them, as well as every other keyword: `q_out` (by default
            queries are rotated in place), `q_rest`, `q_scale`, `k_scale`, `kv_layout`, `batch_indices`, ..
        positions: int32 of tokens.
        expression, cos_sin, interleaved: the rotation, as `rotate` takes it. A head's elements from the rotary dim on,
            such as `rope(rotary_dim=64)` has, stay as they are.
        kv_format: the format of the pools by its name.

    Returns:
        The queries: `q_out`, or `q`.
    """
    check_tensor("q", q, 3)
    check_tensor("k", k, 3)
    # a table leaves values as they are, in whatever width
    of_values = k if v is None or (kv_format is None and cos_sin is not None) else v
    dims, dtype = (k.shape[2], of_values.shape[2]), dtype_name(k)
    part = _rotation(expression, cos_sin, interleaved)
    key = AttentionKey(part, None, device_name(q), q.shape[1], k.shape[1], *dims, dtype, dtype, kv_format)
    key = key._replace(values_in_keys=v is None, stores_transformed=True)
    made = _kept(key) if cos_sin is None else _of_table(key, cos_sin)
    append(k, v, k_pool, v_pool, slots, positions=positions, attention=made, q=q, **places)
    return q if places.get("q_out") is None else places["q_out"]


def _of_table(key: AttentionKey, table: Any) -> Any:
    made, last, version = _by_table.get(key, (None, None, None))
    now = version_of(table)
    if made is None or last is not table or version != now or now is None:
        half = table.shape[1] // 2
        parts = {"rope_table.cos": table[:, :half], "rope_table.sin": table[:, half:]}
        if made is None:
            made = key.attention({name: part.cpu() if is_torch(part) else part for name, part in parts.items()})
        else:
            for name, part in parts.items():
                made.set_tensor(name, part.contiguous() if is_torch(part) else part.copy())
        _by_table[key] = made, table, now
    return made


def _slots(x: Any) -> Any:
    """A place of its own for each token."""
    if is_torch(x):
        torch = sys.modules["torch"]
        return torch.arange(x.shape[0], device=x.device)
    return sys.modules[type(x).__module__.partition(".")[0]].arange(x.shape[0], dtype="int64")
