"""What torch and numpy do differently. Torch is used only where the caller has imported it."""

import contextlib
import functools
import math
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ._errors import InvalidArgument, InvalidTensor, WrongType


def is_torch(x: Any) -> bool:
    """Whether `x` is a tensor of torch."""
    # not by `sys.modules`: torch.compile guards what a traced call reads, and that changes while it traces
    return hasattr(x, "requires_grad") and hasattr(x, "data_ptr")


def dtype_name(x: Any) -> str:
    """The name of the element type, such as `float16`."""
    return str(x.dtype).rpartition(".")[2]


def named(dtype: Any) -> str:
    """The name of an element type that is given as a name, or as a dtype of torch or numpy."""
    return str(getattr(dtype, "__name__", None) or dtype).rpartition(".")[2]


def device_name(x: Any) -> str:
    """`cpu` or `cuda:N`."""
    if is_torch(x):
        return str(x.device)
    try:
        kind, index = x.__dlpack_device__()
    except AttributeError:
        raise InvalidTensor(f"a {type(x).__name__} is no tensor of torch and has no `__dlpack__`") from None
    return f"cuda:{index}" if kind == 2 else "cpu"


def check_tensor(name: str, x: Any, rank: int) -> None:
    """Refuses what is no tensor of so many dimensions."""
    shape = getattr(x, "shape", None)
    if shape is None:
        raise InvalidTensor(
            f"{name} is a {type(x).__name__}; it must be a tensor of torch, or one that has `__dlpack__`"
        )
    if len(shape) != rank:
        raise InvalidTensor(f"{name} has the shape {tuple(shape)}; it has {rank} dimensions")


def check_count(name: str, count: Any, least: int = 0) -> int:
    """A length that the caller gives."""
    try:
        number = operator.index(count)
    except TypeError:
        raise WrongType(f"{name} is {count!r}; it is a whole number from {least} on") from None
    if number < least:
        raise InvalidArgument(f"{name} is {number}; it is {least} or more")
    return number


def empty(like: Any, shape: Sequence[int], dtype: str | None = None, *, zero: bool = False) -> Any:
    """Memory of the library and the device of `like`; `dtype` is a name."""
    if is_torch(like):
        import torch

        make = torch.zeros if zero else torch.empty
        return make(shape, dtype=getattr(torch, dtype) if dtype else like.dtype, device=like.device)
    library = _library(like)
    if library not in ("numpy", "cupy"):
        raise InvalidTensor(f"outputs are made for torch, numpy and cupy, not for {library}: give `out` and `lse`")
    make = sys.modules[library].zeros if zero else sys.modules[library].empty
    return make(shape, dtype=dtype or like.dtype)


def strides(x: Any) -> Any:
    """Distances of neighbours, in elements or bytes."""
    return x.stride() if is_torch(x) else x.strides


def merges(x: Any) -> Any:
    """Whether the first two dimensions are one without a copy."""
    rows, columns = x.shape[:2]
    of_rows, of_columns = strides(x)[:2]
    return 0 in x.shape or rows <= 1 or columns == 1 or of_rows == columns * of_columns


def is_base_2(lse_base: Any) -> bool:
    """Whether log-sum-exps are of base 2, and not natural."""
    if lse_base in (2, "e"):
        return bool(lse_base == 2)
    raise InvalidArgument(f'lse_base is {lse_base!r}; it is 2 or "e"')


def joined(a: Any, b: Any) -> Any:
    """Tensors of torch beside each other in the last dimension: a view where both are so in one tensor, else a copy."""
    dim = a.shape[-1] + b.shape[-1]
    behind = a.data_ptr() + a.shape[-1] * a.element_size() == b.data_ptr()
    if not b.shape[-1]:
        return a
    if behind and a.dtype == b.dtype and a.stride() == b.stride() and a.stride(-2) >= dim:
        return a.as_strided((*a.shape[:-1], dim), a.stride())
    return sys.modules["torch"].cat([a, b], -1)


def needs_grad(*tensors: Any) -> bool:
    """Whether torch would record the call for a backward pass, which there is none of."""
    if not is_torch(tensors[0]):
        return False
    import torch

    return torch.is_grad_enabled() and any(is_torch(x) and x.requires_grad for x in tensors)


def on_stream(x: Any, stream: int | None) -> Any:
    """Makes the stream of an address the current one of the library of `x`; of None, nothing."""
    if stream is None or device_name(x) == "cpu":
        return contextlib.nullcontext()
    if is_torch(x):
        cuda = sys.modules["torch"].cuda
        return cuda.stream(cuda.ExternalStream(stream, device=x.device))
    return sys.modules["cupy"].cuda.ExternalStream(stream)


def run_op(native: Callable[..., None], **keywords: Any) -> None:
    """Runs an op of the native module; the first keyword is a tensor. There is no backward pass."""
    if needs_grad(*keywords.values()):
        raise InvalidArgument("a tensor requires gradients, and there is no backward pass: use torch.no_grad()")
    native(**keywords)


def is_capturing(x: Any, stream: int | None = None) -> Any:
    """Whether a CUDA graph of torch captures the stream, by default the current one."""
    if not is_torch(x) or not x.is_cuda:
        return False
    with on_stream(x, stream):
        return sys.modules["torch"].cuda.is_current_stream_capturing()


def as_int64(x: Any, stream: int | None) -> Any:
    """An array of int32 as one of int64: a copy, on its device in the order of the stream."""
    if not _copies(x) or dtype_name(x) != "int32":
        return x
    with on_stream(x, stream):
        return x.long() if is_torch(x) else x.astype("int64")


def per_head(scale: Any, heads: int, stream: int | None) -> Any:
    """A scale as it is, but an array of one element as one of each KV head: a copy, as `as_int64`."""
    if isinstance(scale, (int, float)) or not _copies(scale) or math.prod(scale.shape) != 1:
        return scale
    with on_stream(scale, stream):
        scale = scale.reshape(1)
        return scale.expand(heads).contiguous() if is_torch(scale) else scale.repeat(heads)


def _library(x: Any) -> Any:
    """The package of an array."""
    return type(x).__module__.partition(".")[0]


def _copies(x: Any) -> Any:
    """Whether `x` is an array that is copied here where that is needed."""
    return hasattr(x, "__dlpack__") and (is_torch(x) or _library(x) in ("numpy", "cupy"))


def listed(name: str, x: Any, most: int = 1 << 26) -> Any:
    """The numbers of an array or a list, as lists: not more than `most`, which an array that repeats its elements may
    have without any memory."""
    shape = getattr(x, "shape", None)
    try:
        count = math.prod(shape) if shape is not None else len(x)
    except TypeError:
        count = 1
    if count > most:
        raise InvalidArgument(f"{name} has {count} numbers; there may be {most} on the host")
    return x.tolist() if hasattr(x, "tolist") else x


def version_of(x: Any) -> int | None:
    """How often a tensor of torch was changed in place; None where nobody counts."""
    return x._version if is_torch(x) and not x.is_inference() else None


def type_name(x: Any) -> Any:
    """The name of the type of an argument."""
    return type(x).__name__


def is_compiling(x: Any) -> Any:
    """Whether `torch.compile` traces a call with this tensor."""
    if not is_torch(x):
        return False
    import torch

    return torch.compiler.is_compiling()


def host(x: Any) -> Any:
    """Whole numbers as a tensor of PyTorch in host memory; of a CUDA device this waits for the stream."""
    import torch

    return torch.as_tensor(x).detach().to("cpu", torch.int32).contiguous()


@functools.cache
def range_of(count: int, device: Any, step: int = 1) -> Any:
    """0, `step`, .. on a device, made once."""
    import torch

    return torch.arange(0, count * step, step, device=device, dtype=torch.int32)


class KeptViews:
    """Views of tensors, made once for each while it lives."""

    def __init__(self, make: Callable[[Any], tuple[Any, Any]]) -> None:
        self._make, self._kept = make, dict[int, tuple[Any, int, tuple[Any, Any]]]()

    def of(self, tensor: Any) -> tuple[Any, Any]:
        number = id(tensor)
        kept = self._kept.get(number)
        if kept is not None and kept[0]() is tensor and kept[1] == tensor.data_ptr():
            return kept[2]
        views = self._make(tensor)
        if not isinstance(tensor, (tuple, list)):
            forget = functools.partial(self._kept.pop, number, None)
            self._kept[number] = weakref.ref(tensor, lambda _: forget()), tensor.data_ptr(), views
        return views
