"""FlashInfer's options as expressions of attn_rs, and what the package asks of attn_rs beside batches and plans."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from .. import _attention, _native, ops
from .._append import append as _append
from .._arrays import is_capturing, per_head
from .._errors import Unsupported
from .utils import PosEncodingMode

Tensor = torch.Tensor
Maybe = Tensor | None
Dtype = torch.dtype | str
Cache = Tensor | tuple[Tensor, Tensor]
Number = float | Tensor
# a number of pages, whether there are no splits, and the page size
Split = tuple[int | None, bool, int]

LOG2E = math.log2(math.e)
# the last arguments of every `forward`
TAIL = " logits_soft_cap sm_scale rope_scale rope_theta"
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def refuse(what: str, way: str) -> NoReturn:
    """Says what was asked, and the way out."""
    raise Unsupported(f"attn_rs.flashinfer: {what} is not supported; {way}")


def refuse_given(way: str, **arguments: object) -> None:
    """Refuses arguments that were given, by their names."""
    if named := [name for name, value in arguments.items() if value is not None and value is not False]:
        refuse(" and ".join(f"`{name}`" for name in named), way)


def refusing(name: str, way: str) -> Callable[..., NoReturn]:
    """A function of FlashInfer that is not possible: it can be imported."""
    return lambda *_, **__: refuse(name, way)


class Options(NamedTuple):
    """Mask, logits and positions."""

    causal: bool = False
    window_left: int = -1
    logits_soft_cap: float | None = None
    pos_encoding_mode: str = "NONE"
    sm_scale: float | None = None
    rope_scale: float | None = None
    rope_theta: float | None = None


@functools.lru_cache(maxsize=1024)
def expression(options: Options, mask: str | None, extras: tuple[str, ...]) -> str:
    """The variant. `mask` is the part in place of `causal`, empty where packed bits are; `extras` come beside it."""
    causal = "causal" if options.causal and mask is None else ""
    # FlashInfer counts the keys before a query's own
    window = f"sliding_window(window={options.window_left + 1})" if options.window_left >= 0 else ""
    cap = f"soft_cap(cap={float(options.logits_soft_cap)!r})" if options.logits_soft_cap else ""
    theta, scale = float(options.rope_theta or 1e4), float(options.rope_scale or 1)
    positions = {"NONE": "", "ROPE_LLAMA": f"rope(theta={theta!r}, scale={scale!r})", "ALIBI": "alibi"}
    if options.pos_encoding_mode not in positions:
        raise KeyError(f"Invalid pos_encoding_mode {options.pos_encoding_mode}: {[*PosEncodingMode.__members__]}")
    parts = (*extras, mask, causal, window, positions[options.pos_encoding_mode], cap)
    return " + ".join(part for part in parts if part) or "full"


def q_type(dtype: torch.dtype, o_dtype: torch.dtype) -> torch.dtype:
    """The type that kernels read queries in. Those of FP8 are converted, which is a pass over them."""
    return dtype if dtype not in FP8 else o_dtype if o_dtype in (torch.float16, torch.bfloat16) else torch.bfloat16


def unpack(cache: Cache, kv_layout: str) -> tuple[Tensor, Tensor]:
    """Keys and values of a pair, or of one tensor with both in dimension 1: views. Pages of one key may come without
    their dimension."""
    at = -3 if kv_layout == "NHD" else -2
    if isinstance(cache, (tuple, list)):
        k, v = (x.unsqueeze(at) if x.dim() == 3 else x for x in cache)
        return k, v
    cache = cache.unsqueeze(at) if cache.dim() == 4 and cache.shape[1] == 2 else cache
    if cache.dim() != 5 or cache.shape[1] != 2:
        raise ValueError(f"paged_kv_cache has the shape {tuple(cache.shape)}; it has 5 dimensions, the second of 2")
    return cache[:, 0], cache[:, 1]


def product(*scales: Number | None) -> Any:
    """Scales multiplied. Tensors stay on the device."""
    return math.prod(scale for scale in scales if scale is not None)


def store(o: Tensor, out: Maybe, dtype: torch.dtype) -> Tensor:
    """The output in the tensor or the type that was asked for, which costs a pass where it is another."""
    return o.to(dtype) if out is None else o if o is out else out.copy_(o)

# packed bits and where those of each request begin, in bytes
Mask = tuple[Tensor, list[int]]
# the bits of a mask, or else its part of the variant and its parameters, by `qo_indptr` and numbers of keys
MaskOf = Callable[[Tensor, Tensor], tuple[Mask | None, str | None, dict[str, Any]]]
# `attn_rs.attention` with a mask, `attn_rs.append`, a scale as one of each KV head, whether a CUDA graph captures
attend: Any = _attention.run
append: Any = _append
of_heads: Any = per_head
capturing: Any = is_capturing


class Kind(NamedTuple):
    """What an attention is made of. Keys of uint8 are of `nvfp4`."""

    variant: str
    scale: float | None
    device: str
    heads: int
    kv_heads: int
    dim: int
    value_dim: int
    dtype: torch.dtype
    kv_dtype: torch.dtype
    fixed_split: int | None = None
    masked: bool = False
    values_in_keys: bool = False
    stores_transformed: bool = False

    def attention(self, params: dict[str, Any], mask: Mask | None = None) -> _native.Attention:
        of_format = self.kv_dtype == torch.uint8
        dtypes = (str(dtype).rpartition(".")[2] for dtype in (self.dtype, self.dtype if of_format else self.kv_dtype))
        return _native.Attention(
            self.variant, params or None, *self[2:7], *dtypes, scale=self.scale, fixed_split_size=self.fixed_split,
            values_in_keys=self.values_in_keys, stores_transformed=self.stores_transformed,
            mask=mask if self.masked else None, kv_format="nvfp4" if of_format else None,
        )  # fmt: skip


@functools.lru_cache(maxsize=64)
def kept(kind: Kind) -> _native.Attention:
    """An attention without tensors of parameters, for appends."""
    return kind.attention({})


def host(x: Tensor | Sequence[int]) -> Tensor:
    """Whole numbers in host memory; of a CUDA device this waits for the stream."""
    return torch.as_tensor(x).detach().to("cpu", torch.int32).contiguous()


def pages_of(indptr: Tensor, indices: Tensor, lens: Tensor, page_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compressed rows in host memory with as many pages as the keys need, and the slots of the last ones. A request of
    FlashInfer may have more pages."""
    counts, need = indptr.diff(), (lens + page_size - 1) // page_size
    if bool((need > counts).any()):
        request = int((need > counts).nonzero()[0])
        raise ValueError(f"request {request} has {lens[request]} keys and {counts[request]} pages of {page_size}")
    last = torch.where(lens > 0, (lens - 1) % page_size + 1, 1)
    if torch.equal(need, counts) and int(indptr[0]) == 0:
        return indptr, indices, last
    begin = torch.cat([need.new_zeros(1), need.cumsum(0, dtype=torch.int32)])
    row = torch.repeat_interleave(torch.arange(len(need)), need.long())
    return begin, indices[indptr[row] + torch.arange(len(row)) - begin[row]], last


def packed(custom_mask: Maybe, packed_mask: Maybe, sizes: Tensor) -> Mask | None:
    """The bits of requests of these sizes, which begin at bytes, on the host."""
    if custom_mask is not None:
        ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).to(custom_mask.device, torch.int32)
        packed_mask = ops.segment_packbits(custom_mask.reshape(-1).bool(), ends)[0]
    begins = [0, *((sizes.long() + 7) // 8).cumsum(0).tolist()]
    return None if packed_mask is None else (packed_mask.reshape(-1)[: begins[-1]].cpu(), begins)


def mask_of_plan(
    in_graph: bool, custom: Maybe, bits: Maybe, prefix_len: Maybe, token_pos: Maybe, width: int
) -> MaskOf | None:
    """The mask of a plan, if it has one."""
    if in_graph:
        way = "give a wrapper without `use_cuda_graph`, or `attn_rs.Plan` a variant with `#[mutable]` bits"
        refuse_given(way, custom_mask=custom, packed_custom_mask=bits, prefix_len_ptr=prefix_len)
    if prefix_len is not None and token_pos is not None:
        prefix, pos = prefix_len.reshape(-1).cpu().long(), token_pos.reshape(-1).cpu().long()
        return lambda qo, lens: (None, "multi_item", _items(qo, lens, prefix, pos, width))
    if custom is None and bits is None:
        return None
    return lambda qo, lens: (packed(custom, bits, qo.diff().long() * lens), None, {})


def _items(qo: Tensor, lens: Tensor, prefix: Tensor, pos: Tensor, width: int) -> dict[str, Any]:
    """Where the item of each query begins, of positions within items (a row of `width` a request)."""
    counts = qo.diff().long()
    request = torch.repeat_interleave(torch.arange(len(counts)), counts)
    at = torch.arange(len(request)) - qo[request] + (lens - counts)[request]
    entry = at - prefix[request]
    flat = request * width + entry
    inside = (entry >= 0) & (flat < len(pos))
    start = torch.where(inside, at - pos[flat.clamp(0, max(len(pos) - 1, 0))], 0)
    return {"multi_item.prefix_len": prefix.tolist(), "multi_item.item_start": start.tolist()}
