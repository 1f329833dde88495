"""Rotations of queries and keys by their positions."""

import functools
import sys
from typing import Any

from ._append import append
from ._arrays import check_tensor, device_name, dtype_name, empty, is_torch, version_of
from ._errors import Unsupported
from ._plans import AttentionKey

# attentions with tables, and the tables whose values they have
_of_tables: dict[AttentionKey, tuple[Any, dict[str, Any], Any]] = {}
_kept = functools.lru_cache(maxsize=64)(AttentionKey.attention)


def rotate(
    x: Any, positions: Any, expression: str, *, dim: int | None = None, tables: dict[str, Any] | None = None
) -> Any:
    """Rotates the heads of queries or keys by their positions, as the transforms of a variant do, in one launch.

    Args:
        x: (tokens, heads, head dim) in float16, bfloat16 or float32.
        positions: int32 of tokens.
        expression: a rotation, such as `"rope(theta=10000.0)"`, `"llama3_rope(..)"` or `"rope_table(..)"`.
        dim: how many elements of each head are rotated, the first ones: a multiple of 8. By default all; others stay as
            they are.
        tables: the parameter tensors of the expression by name. Their values are copied where they are other tensors
            than those of the call before, or have changed.

    Returns:
        The rotated rows, in new memory.
    """
    check_tensor("x", x, 3)
    tokens, heads, head_dim = x.shape
    dim = head_dim if dim is None else dim
    if dim % 8:
        raise Unsupported(f"a rotary dim of {dim}; it is a multiple of 8")
    out = empty(x, (tokens, 1, heads, head_dim))
    how = heads, heads, dim, dim, dtype_name(x), dtype_name(x), None, None, True, True
    key = AttentionKey(expression, None, device_name(x), *how)
    made = _kept(key) if tables is None else _with_tables(key, tables)
    pool = out[..., :dim]
    append(x[..., :dim], None, pool, None, _slots(x), kv_layout="latent", positions=positions, attention=made)
    if dim < head_dim:
        out[:, 0, :, dim:] = x[..., dim:]
    return out[:, 0]


def _with_tables(key: AttentionKey, tables: dict[str, Any]) -> Any:
    made, last, versions = _of_tables.get(key, (None, {}, None))
    now = [version_of(table) for table in tables.values()]
    if made is None:
        made = key.attention({name: table.cpu() if is_torch(table) else table for name, table in tables.items()})
    elif versions != now or None in now or any(last[name] is not table for name, table in tables.items()):
        for name, table in tables.items():
            made.set_tensor(name, table)
    _of_tables[key] = made, tables, now
    return made


def _slots(x: Any) -> Any:
    """A place of its own for each token."""
    if is_torch(x):
        torch = sys.modules["torch"]
        return torch.arange(x.shape[0], device=x.device)
    return sys.modules[type(x).__module__.partition(".")[0]].arange(x.shape[0], dtype="int64")
