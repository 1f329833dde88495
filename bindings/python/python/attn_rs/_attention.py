"""One call that plans by itself. Attentions and plans are kept by what they are made of."""

import math
import operator
import sys
import threading
from typing import Any
from collections import OrderedDict

from . import _masks, _native
from ._arrays import (
    check_tensor,
    device_name,
    dtype_name,
    empty,
    is_base_2,
    is_capturing,
    is_compiling,
    is_torch,
    listed,
    merges,
    needs_grad,
    type_name,
)
from ._errors import AttnError, InvalidArgument, InvalidTensor, InvalidVariant, WrongType

_LIMIT = 64
# types of queries, and of keys and values
_QUERIES = ("float16", "bfloat16", "float32")
_KEYS = (*_QUERIES, "float8_e4m3fn", "float8_e5m2")
_lock = threading.Lock()
_attentions: OrderedDict[Any, Any] = OrderedDict()
_entries: OrderedDict[Any, Any] = OrderedDict()
# parameter tensors that cannot be replaced in place, by variant and name: their values are part of the key
_fixed: set[tuple[str, str]] = set()
# how often variants of Rust text were registered or costs were loaded: what was made before is of earlier ones
_changes = 0


class _Bound:
    """An attention, and the lock of what has to happen between its parameters and a run."""

    def __init__(self, attention: Any) -> None:
        self.attention, self.lock = attention, threading.Lock()


class _Entry:
    """A plan of an attention. It is not kept once its memory is that of another plan."""

    def __init__(self, bound: Any, plan: Any) -> None:
        self.attention, self.lock, self.plan, self.is_kept = bound.attention, bound.lock, plan, True


def forget_plans() -> None:
    """From now on, attentions are of the variants that are registered now, and of the costs that are loaded now."""
    global _changes
    with _lock:
        _changes += 1


def clear_cache() -> None:
    """Forgets all attentions and plans of `attention`. CUDA graphs that captured some must not be replayed then."""
    with _lock:
        _attentions.clear()
        entries = list(_entries.values())
        _entries.clear()
    for entry in entries:
        entry.plan.release_captured()


def attention(
    q: Any,
    k: Any,
    v: Any,
    variant: str = "full",
    *,
    scale: float | None = None,
    params: dict[str, Any] | None = None,
    layout: str = "bshd",
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    out: Any = None,
    return_lse: bool = False,
    stream: int | None = None,
    lse_base: str | int = "e",
) -> Any:
    """Attention of a variant, in one call.

    Args:
        q: queries, (batch, queries, query heads, head dim) with `layout="bshd"`, (batch, query heads, queries, head
            dim) with `layout="bhsd"`; (query tokens, query heads, head dim) where `cu_seqlens_q` is given. float16,
            bfloat16 or float32.
        k: keys, likewise, with KV heads, of which there may be fewer. Also float8_e4m3fn and float8_e5m2.
        v: values, as the keys; their head dim may be another.
        variant: an expression, such as `"causal + soft_cap(cap=30)"`. The last query of a request is at the position of
            its last key, also where there are fewer queries than keys.
        scale: what products of queries and keys are multiplied by; 1 / sqrt(head dim) by default.
        params: parameters by name, `{"sink.logits": tensor}`: numbers, lists, or arrays. Arrays of the kind of `q` are
            read anew by every call, on their device; where a mask depends on them, the call waits for their values.
        layout: `"bshd"` or `"bhsd"`.
        cu_seqlens_q, cu_seqlens_k: for requests of different lengths: where the tokens of each begin, and their number
            in all, (requests + 1). Read on the host: on a GPU the call waits for it. `cu_seqlens_k` is `cu_seqlens_q`
            if it is not given.
        out: where the output goes, else new memory.
        return_lse: whether to return the log-sum-exp of each row of logits, too.
        lse_base: `"e"`, or 2 for log-sum-exps in base 2, as FlashInfer has them: one more launch.
        stream: the address of the CUDA stream; by default the current one of torch, else the default stream.

    Returns:
        The output, of the shape of `q` with the head dim of `v`, or a pair of it and the log-sum-exps: float32 of that
        shape without the last dimension.

    Keys and values of any strides are read where they are, as long as the last dimension has none. Queries of `bhsd`
    memory with more than one request and more than one query are copied.

    The call plans the batch if no call before had the same shapes and variant, and that compiles a kernel if none is
    cached. The last 64 plans are kept. A CUDA graph may capture a call that was made before with the same shapes.

    Raises:
        InvalidVariant, InvalidTensor, InvalidBatch, InvalidArgument: all are `ValueError`s.
        Unsupported: heads or element types that no kernel has.
    """
    base_2 = is_base_2(lse_base)
    if is_torch(q) and (is_compiling(q) or needs_grad(q, k, v)):
        from . import _torch

        if out is not None or stream is not None:
            raise InvalidArgument("`out` and `stream` cannot be given under torch.compile or with gradients")
        o, lse = _torch.attention(
            q, k, v, variant, scale, params, layout, cu_seqlens_q, cu_seqlens_k, return_lse=return_lse
        )
        lse = lse * math.log2(math.e) if base_2 else lse
    else:
        cu_seqlens = (cu_seqlens_q, cu_seqlens_k)
        o, lse = run(q, k, v, variant, scale, params, layout, *cu_seqlens, None, out, return_lse, stream, base_2)
    return (o, lse) if return_lse else o


def run(
    q: Any,
    k: Any,
    v: Any,
    variant: str,
    scale: float | None,
    params: dict[str, Any] | None,
    layout: str,
    cu_q: Any,
    cu_k: Any,
    mask: Any,
    out: Any,
    return_lse: bool,
    stream: int | None = None,
    base_2: bool = False,
) -> Any:
    """As `attention`, with a mask of Transformers; the log-sum-exps are None unless they are wanted."""
    if layout not in ("bshd", "bhsd"):
        raise InvalidArgument(f"layout is `{layout}`; there are `bshd` and `bhsd`")
    if cu_q is None and cu_k is not None:
        raise InvalidArgument("cu_seqlens_k is given without cu_seqlens_q; give both, or neither for a padded batch")
    if cu_q is not None and layout != "bshd":
        raise InvalidArgument("layout is `bhsd` beside cu_seqlens_q; tensors are (tokens, heads, head dim) then")
    if not isinstance(variant, str):
        of = type_name(variant)
        raise InvalidVariant(
            f"the variant is of the type `{of}`; it is an expression, such as `causal + soft_cap(cap=30)`"
        )
    if not (params is None or isinstance(params, dict)):
        raise WrongType(f"params is of the type `{type_name(params)}`; it is a dict of parameters by name")
    for name, x, types in (("q", q, _QUERIES), ("k", k, _KEYS), ("v", v, _KEYS)):
        check_tensor(name, x, 4 if cu_q is None else 3)
        if (dtype := dtype_name(x)) not in types:
            raise InvalidTensor(f"{name} is of {dtype}; it is one of {', '.join(types)}")
    if out is not None:
        check_tensor("out", out, len(q.shape))
    if cu_q is None:
        call = _dense(q, k, v, layout, out, return_lse)
    else:
        call = _ragged(q, k, v, cu_q, cu_q if cu_k is None else cu_k, out, return_lse)
    q, k, v, o, lse, batch_key, batch = call[:7]
    variant, params, masked = _masks.apply(variant, params, mask, batch_key)
    fixed, tensors = _split(q, variant, params)
    key = _key(q, k, v, variant, scale, fixed, tensors, masked)
    while True:
        entry = _entry(key, batch_key, batch, (q, k, v, variant, scale, fixed, tensors, masked), stream)
        with entry.lock:
            if not entry.is_kept:
                continue
            for name, values in tensors.items():
                entry.attention.set_tensor(name, _numbers(q, values), stream)
            entry.plan.run(q, k, v, o, lse, stream=stream, lse_base_2=base_2)
            return call[7], call[8]


def _dense(q: Any, k: Any, v: Any, layout: str, out: Any, return_lse: bool) -> Any:
    """The tokens of a padded batch, memory for the outputs, the batch, and what is returned."""
    if layout == "bhsd":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        out = None if out is None else out.swapaxes(1, 2)
    (requests, queries, heads, _), (of_k, keys, kv_heads, _) = q.shape, k.shape
    if of_k != requests or tuple(v.shape[:3]) != (requests, keys, kv_heads):
        raise InvalidTensor(
            f"q, k and v have the shapes {tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)} of (batch, tokens, "
            "heads, head dim); the batch is that of q, and v has the tokens and heads of k"
        )
    o = empty(q, (requests, queries, heads, v.shape[3])) if out is None else out
    if tuple(o.shape) != (requests, queries, heads, v.shape[3]) or not merges(o):
        raise InvalidTensor(f"out has the shape {tuple(o.shape)}; it is (batch, queries, heads, head dim) of one piece")
    lse = empty(q, (requests, queries, heads), "float32") if return_lse else None
    flat = tuple(x.reshape((requests * queries, heads, x.shape[3])) for x in (q, o))
    flat_lse = None if lse is None else lse.reshape((requests * queries, heads))
    in_pages = not (merges(k) and merges(v)) and keys > 0
    qo_indptr = range(0, requests * queries + 1, queries) if queries else [0] * (requests + 1)
    if in_pages:
        # a request's keys are one page, so that requests may be any distance apart

        def batch() -> Any:
            table, lens = [[request] for request in range(requests)], [keys] * requests
            return _native.Batch.block_table(list(qo_indptr), table, lens, page_size=keys, num_pages=requests)

    else:
        k, v = (x.reshape((requests * keys, kv_heads, x.shape[3])) for x in (k, v))

        def batch() -> Any:
            kv_indptr = range(0, requests * keys + 1, keys) if keys else [0] * (requests + 1)
            return _native.Batch.ragged(list(qo_indptr), list(kv_indptr))

    if layout == "bhsd":
        o, lse = o.swapaxes(1, 2), None if lse is None else lse.swapaxes(1, 2)
    return flat[0], k, v, flat[1], flat_lse, ("dense", requests, queries, keys, in_pages), batch, o, lse


def _ragged(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, out: Any, return_lse: bool) -> Any:
    """As `_dense`, for requests of different lengths."""
    cu_q, cu_k = _begins("cu_seqlens_q", cu_q), _begins("cu_seqlens_k", cu_k)
    o = empty(q, (*q.shape[:2], v.shape[2])) if out is None else out
    lse = empty(q, q.shape[:2], "float32") if return_lse else None

    def batch() -> Any:
        return _native.Batch.ragged(list(cu_q), list(cu_k))

    return q, k, v, o, lse, ("ragged", cu_q, cu_k), batch, o, lse


def _begins(name: str, x: Any) -> Any:
    """The numbers of a `cu_seqlens`."""
    try:
        numbers = tuple(listed(name, x))
        if any(isinstance(number, bool) for number in numbers):
            raise TypeError("it has bools")
        return tuple(map(operator.index, numbers))
    except TypeError as error:
        raise WrongType(f"{name} is a list or an array of whole numbers, of one dimension: {error}") from None


def _split(q: Any, variant: str, params: dict[str, Any] | None) -> Any:
    """The parameters by value, and those that are tensors beside `q`, which each call reads anew."""
    fixed, tensors = {}, {}
    for name, value in (params or {}).items():
        is_tensor = type(value) is type(q) or (is_torch(q) and is_torch(value))
        if is_tensor and len(value.shape) > 0 and (variant, name) not in _fixed:
            tensors[name] = value
        else:
            fixed[name] = listed(name, value)
    return fixed, tensors


def _numbers(q: Any, values: Any) -> Any:
    """Values of a parameter as kernels read them: float32 or int32, one after the other, beside `q`."""
    if is_torch(values):
        torch = sys.modules["torch"]
        dtype = torch.float32 if values.is_floating_point() else torch.int32
        return values.detach().to(device=q.device, dtype=dtype).contiguous()
    root = sys.modules[type(values).__module__.partition(".")[0]]
    return root.ascontiguousarray(values, dtype="float32" if values.dtype.kind == "f" else "int32")


def _key(
    q: Any,
    k: Any,
    v: Any,
    variant: str,
    scale: float | None,
    fixed: dict[str, Any],
    tensors: dict[str, Any],
    masked: Any,
) -> Any:
    shapes = tuple((name, tuple(values.shape), dtype_name(values)) for name, values in tensors.items())
    values = tuple((name, repr(value)) for name, value in fixed.items())
    heads = (q.shape[1], k.shape[-2], q.shape[-1], v.shape[-1])
    return (device_name(q), dtype_name(q), dtype_name(k), heads, variant, scale, values, shapes, masked, _changes)


def _entry(key: Any, batch_key: tuple[Any, ...], batch: Any, made_of: Any, stream: int | None) -> Any:
    """The plan of a key, made if there is none, in place of the one that was not used for the longest time."""
    full, tensors = (key, batch_key), made_of[6]
    count = len(tensors)
    with _lock:
        entry = _entries.get(full)
        if entry is not None:
            _entries.move_to_end(full)
            return entry
    if is_capturing(made_of[0], stream):
        raise AttnError(
            "a CUDA graph captures a call of `attention` that was not planned: make the same call once before the "
            "capture, or use an `attn_rs.Plan`"
        )
    bound = _bound(key, made_of, stream)
    unused = None
    with _lock:
        if len(_entries) >= _LIMIT:
            unused = _entries.popitem(last=False)[1]
    if unused is not None:
        with unused.lock:
            unused.is_kept = False
    reuse = None if unused is None else unused.plan
    plan = _native.Plan(bound.attention, batch(), "NHD", reuse=reuse, stream=stream)
    entry = _Entry(bound, plan)
    with _lock:
        return _entries.setdefault(full, entry) if len(tensors) == count else entry


def _bound(key: Any, made_of: Any, stream: int | None) -> Any:
    """The attention of a key, made if there is none."""
    q, k, v, variant, scale, fixed, tensors, masked = made_of
    with _lock:
        if (bound := _attentions.get(key)) is not None:
            _attentions.move_to_end(key)
            return bound
    first = {name: listed(name, values) for name, values in tensors.items()}
    heads = (q.shape[1], k.shape[-2], q.shape[-1], v.shape[-1])
    attention = _native.Attention(
        variant, {**fixed, **first}, key[0], *heads, dtype_name(q), dtype_name(k), scale=scale, mask=masked
    )
    bound = _Bound(attention)
    for name, values in list(tensors.items()):
        try:
            attention.set_tensor(name, _numbers(q, values), stream)
        except InvalidTensor:
            # a mask depends on it: this attention has its values, and from now on they are part of the key
            _fixed.add((variant, name))
            del tensors[name]
    with _lock:
        if len(_attentions) >= _LIMIT:
            _attentions.popitem(last=False)
        # the key of a call to come has the values
        is_found_again = len(first) == len(tensors)
        return _attentions.setdefault(key, bound) if is_found_again else bound
