"""What the modules share: types, FlashInfer's options as expressions of attn_rs, masks, and what is refused."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import torch

from .. import ops, sparse
from .._arrays import host as host, range_of as range_of
from .._errors import Unsupported
from .utils import PosEncodingMode

Tensor = torch.Tensor
Maybe = Tensor | None
Dtype = torch.dtype | str
Cache = Tensor | tuple[Tensor, Tensor]
Number = float | Tensor
Result = Tensor | tuple[Tensor, Tensor]
# packed bits, and where those of each request begin, in bytes
Mask = tuple[Any, list[int]]

LOG2E = math.log2(math.e)
TAIL = " logits_soft_cap sm_scale rope_scale rope_theta"
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)

# arguments that are refused where they are given, and the way out
_REFUSED = {
    "block_mask": "name the blocks by `indptr` and `indices`",
    "causal_seqlens_kv_global enable_dcp": "merge the states of ranks by `merge_states`",
    "custom_mask_d packed_custom_mask_d": "decode sees every key",
    "enable_block_sparse_attention": "`page_list` is a variant for `attn_rs.Plan`",
    "kv_len page_table": "call `plan` with indptr, indices and lengths",
    "o_scale o_sf_scale o_sf_vec_size": "divide or quantise the output",
    "skip_softmax_threshold_scale_factor": "every key that the mask keeps is computed",
    "sparse_mla_top_k sparse_mla_top_k_lens": "`token_list` is a variant for `attn_rs.Plan`",
    "uses_shared_paged_kv_idx": "keys and values have one table",
    "use_profiler profiler_buffer": "a profiler of CUDA shows launches",
    "v_indptr o_indptr": "values and outputs are where keys and queries are",
    "window_right": "keys behind a query are not seen in decode",
}
_WAYS = {name: way for names, way in _REFUSED.items() for name in names.split()}


def refuse(what: str, way: str, *_: Any, **__: Any) -> NoReturn:
    """Says what was asked, and the way out."""
    raise Unsupported(f"attn_rs.flashinfer: {what} is not supported; {way}")


def refuse_given(named: Mapping[str, Any]) -> None:
    """Refuses the arguments among these that are not supported."""
    for name in named.keys() & _WAYS.keys():
        # one table for keys and values is the default of FlashInfer
        value = not named[name] if name == "uses_shared_paged_kv_idx" else named[name]
        if isinstance(value, Tensor) or value:
            refuse(f"`{name}`", _WAYS[name])


# FlashInfer's defaults that are not None
_DEFAULTS = {"backend": "auto", "causal": False, "disable_split_kv": False, "kv_layout": "NHD", "non_blocking": True,
    "pos_encoding_mode": "NONE", "q_data_type": "float16", "q_len_per_req": 1, "return_lse": False, "window_left": -1,
    "token_pos_in_items_len": 0, "use_fp16_qk_reduction": False, "use_tensor_cores": False,
    "window_right": 0}  # fmt: skip


@functools.cache
def signature(order: str) -> inspect.Signature:
    """Of a function of FlashInfer: its arguments, and behind `|` those that have defaults."""
    needed, _, others = order.partition("|") if "|" in order else ("", "", order)
    parameter = functools.partial(inspect.Parameter, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [parameter(name) for name in needed.split()]
    return inspect.Signature([*parameters, *(parameter(name, default=_DEFAULTS.get(name)) for name in others.split())])


def bind(order: str, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given by their names. What is missing has FlashInfer's default."""
    given = signature(order).bind(*args, **named).arguments
    refuse_given(given)
    return {**given}


def shown(order: str) -> Callable[[Callable[..., Any]], Any]:
    """Gives a function this signature, for help and tools."""

    def of(function: Callable[..., Any]) -> Any:
        call: Any = functools.wraps(function)(lambda *args, **named: function(*args, **named))
        call.__signature__ = signature(order)
        return call

    return of


class Options(NamedTuple):
    """Mask, logits and positions."""

    causal: bool = False
    window_left: int = -1
    logits_soft_cap: float = 0.0
    pos_encoding_mode: str = "NONE"
    sm_scale: float | None = None
    rope_scale: float | None = None
    rope_theta: float | None = None


def options_of(named: Mapping[str, Any]) -> Options:
    given = {name: named[name] for name in Options._fields if name in named}
    return Options(**{**given, "logits_soft_cap": given.get("logits_soft_cap") or 0.0})


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


def unpack(cache: Cache, kv_layout: str) -> tuple[Tensor, Tensor]:
    """Views of keys and values: a pair, or a tensor with both in dimension 1. Pages of one key may lack a dimension."""
    at = -3 if kv_layout == "NHD" else -2
    if isinstance(cache, (tuple, list)):
        k, v = (x.unsqueeze(at) if x.dim() == 3 else x for x in cache)
        return k, v
    cache = cache.unsqueeze(at) if cache.dim() == 4 and cache.shape[1] == 2 else cache
    if cache.dim() != 5 or cache.shape[1] != 2:
        raise ValueError(f"paged_kv_cache has the shape {tuple(cache.shape)}; it has 5 dimensions, the second of 2")
    return cache[:, 0], cache[:, 1]


def nvfp4_of(k: Tensor, v: Tensor, sides: Any) -> list[Tensor]:
    """Codes and side data of NVFP4. What kernels cannot load at its address or strides is copied, all of the pool."""
    if sides is None:
        raise ValueError("kv_cache_sf must be provided for NVFP4 KV cache.")
    rows = [k, v, *(side.view(torch.uint8) for side in sides)]
    if any(x.stride(-1) != 1 for x in rows):
        raise ValueError("rows of NVFP4 and of kv_cache_sf have gaps: the innermost stride must be 1")
    fits = [not any(at % math.gcd(16, x.shape[-1]) for at in (x.data_ptr(), *x.stride()[:-1])) for x in rows]
    return [x if fit else x.contiguous() for x, fit in zip(rows, fits, strict=True)]


def product(*scales: Number | None) -> Any:
    """Scales multiplied. Tensors stay on the device."""
    return math.prod(scale for scale in scales if scale is not None)


def q_type(dtype: torch.dtype, o_dtype: torch.dtype) -> torch.dtype:
    """The type that kernels compute in. What they do not read is converted to it, which is a pass over queries."""
    return dtype if dtype not in FP8 else o_dtype if o_dtype in (torch.float16, torch.bfloat16) else torch.bfloat16


def store(o: Tensor, out: Maybe, dtype: torch.dtype) -> Tensor:
    """The output in the tensor or of the type that was asked for, a pass where it is another. FP8 saturates."""
    dtype = dtype if out is None else out.dtype
    if dtype in FP8 and o.dtype != dtype:
        o = o.clamp(-(most := torch.finfo(dtype).max), most)
    return o.to(dtype) if out is None else o if o is out else out.copy_(o)


MASKS = "custom_mask", "packed_custom_mask", "prefix_len_ptr", "token_pos_in_items_ptr", "token_pos_in_items_len"


def packed(named: Mapping[str, Any], sizes: Tensor) -> Mask | None:
    """The bits of a mask of requests of these sizes, which begin at bytes, on the host."""
    bits: Any = named.get("packed_custom_mask")
    if (mask := named.get("custom_mask")) is not None:
        ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]).to(mask.device, torch.int32)
        bits = ops.segment_packbits(mask.reshape(-1).bool(), ends)[0]
    if bits is None:
        return None
    begins = [0, *((sizes.long() + 7) // 8).cumsum(0).tolist()]
    return bits.reshape(-1)[: begins[-1]].cpu(), begins


def mask_of(named: Mapping[str, Any], qo: Tensor, lens: Tensor) -> tuple[Mask | None, str | None, dict[str, Any]]:
    """The bits of the mask of a plan, or its part of the variant with parameters; `lens` are numbers of keys."""
    prefix, pos = named.get("prefix_len_ptr"), named.get("token_pos_in_items_ptr")
    if prefix is None or pos is None:
        return packed(named, qo.diff().long() * lens), None, {}
    of = (x.reshape(-1).tolist() for x in (qo, lens, prefix, pos))
    return None, *sparse.items(*of, width=named["token_pos_in_items_len"])
