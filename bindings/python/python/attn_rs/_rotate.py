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
    if (expression is None) == (cos_sin is None):
        raise InvalidArgument("a rotation is an `expression` or a table `cos_sin`, and one of them is given")
    if cos_sin is not None:
        check_tensor("cos_sin", cos_sin, 2)
        rows, dim = cos_sin.shape
        expression = f"rope_table(positions={rows}, rotary_dim={dim}, interleaved={str(bool(interleaved)).lower()})"
    tokens, heads, head_dim = x.shape
    dim = head_dim if dim is None else dim
    if dim % 8:
        raise Unsupported(f"a rotary dim of {dim}; it is a multiple of 8")
    out = empty(x, (tokens, 1, heads, head_dim))
    how = heads, heads, dim, dim, dtype_name(x), dtype_name(x), None, None, True, True
    key = AttentionKey(str(expression), None, device_name(x), *how)
    made = _kept(key) if cos_sin is None else _of_table(key, cos_sin)
    pool = out[..., :dim]
    append(x[..., :dim], None, pool, None, _slots(x), kv_layout="latent", positions=positions, attention=made)
    if dim < head_dim:
        out[:, 0, :, dim:] = x[..., dim:]
    return out[:, 0]


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
