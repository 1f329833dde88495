"""`flashinfer.decode`: one query of a request, or a few, over paged keys."""

from typing import Any

from ._bindings import TAIL, Cache, Maybe, Result, Tensor, bind, product, refuse, refuse_given, shown
from .._arrays import range_of as _get_range_buf  # noqa: F401
from ._tables import trtllm_batch_decode_with_kv_cache, xqa_batch_decode_with_kv_cache
from ._wrapper import PagedWrapper
from .mla import BatchDecodeMlaWithPagedKVCacheWrapper
from .page import get_seq_lens as get_seq_lens
from .prefill import BatchPrefillWithPagedKVCacheWrapper, single_prefill_with_kv_cache

__all__ = ["BatchDecodeMlaWithPagedKVCacheWrapper", "BatchDecodeWithPagedKVCacheWrapper", "fast_decode_plan",
    "BatchPODWithPagedKVCacheWrapper", "CUDAGraphBatchDecodeWithPagedKVCacheWrapper", "PODWithPagedKVCacheWrapper",
    "single_decode_with_kv_cache", "trtllm_batch_decode_with_kv_cache", "xqa_batch_decode_with_kv_cache"]  # fmt: skip

_POD = ("num_qo_heads num_kv_heads head_dim page_size | pos_encoding_mode window_left q_data_type kv_data_type "
    "data_type sm_scale rope_scale rope_theta non_blocking")  # fmt: skip
_BATCH_POD = "".join(f"qo_indptr{x} kv_indptr{x} kv_indices{x} last_page_len{x} " for x in ("_p", "_d")) + _POD
_ONE = "q k v | kv_layout pos_encoding_mode use_tensor_cores q_scale k_scale v_scale window_left" + TAIL + " return_lse"


@shown(_ONE)
def single_decode_with_kv_cache(*args: Any, **options: Any) -> Result:
    """Attention of one query, (heads, head dim); with `return_lse` also the log-sum-exps, in base 2."""
    given = bind(_ONE, args, options)
    given["k_scale"] = product(given.pop("q_scale", None), given.get("k_scale"))
    given.pop("use_tensor_cores", None)
    got = single_prefill_with_kv_cache(given.pop("q")[None], **given)
    return (got[0][0], got[1][0]) if isinstance(got, tuple) else got[0]


class BatchDecodeWithPagedKVCacheWrapper(PagedWrapper):
    """Decode of a batch over paged keys. In a wrapper for CUDA graphs the buffers bound what plans may have."""

    _buffer_names = "", "paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"
    _init = f"kv_layout use_cuda_graph use_tensor_cores {' '.join(_buffer_names[1:])} backend jit_args"
    _array_names = "", "indptr", "indices", "last_page_len"
    _plan = (
        "indptr indices last_page_len num_qo_heads num_kv_heads head_dim page_size | pos_encoding_mode window_left "
        "logits_soft_cap q_data_type kv_data_type o_data_type data_type sm_scale rope_scale rope_theta non_blocking "
        "block_tables seq_lens fixed_split_size disable_split_kv q_len_per_req window_right in_buffers indptr_host"
    )
    _forward = "q paged_kv_cache pos_encoding_mode q_scale k_scale v_scale window_left" + TAIL
    _q_len_per_req, _defaults = 0, {"q_data_type": "float16"}

    def _check(self, given: dict[str, Any]) -> None:
        queries = given.get("q_len_per_req", 1)
        if queries < 1 or (self._use_cuda_graph and self._q_len_per_req not in (0, queries)):
            rule = f"q_len_per_req must be >= 1, and is frozen in a CUDA graph: it was {self._q_len_per_req}"
            raise ValueError(f"{rule}, got {queries}")
        given["causal"], self._q_len_per_req = queries > 1, queries

    def run(self, q: Tensor, paged_kv_cache: Cache, *args: Any, q_len_per_req: int | None = None, **how: Any) -> Result:
        """As `BatchPrefillWithPagedKVCacheWrapper.run`. The plan of a run like the last checks the rows itself."""
        if q_len_per_req is not None or self._last.plan is None:
            planned = len(self._paged_kv_last_page_len_buf), self._q_len_per_req
            if q_len_per_req not in (None, planned[1]) or q.shape[0] != planned[0] * planned[1]:
                raise ValueError(f"q has {q.shape[0]} rows, q_len_per_req is {q_len_per_req}; planned are {planned}")
        return super().run(q, paged_kv_cache, *args, **how)


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """The wrapper with `use_cuda_graph`."""

    _buffer_names = "", "indptr_buffer", "indices_buffer", "last_page_len_buffer"
    _init = f"{' '.join(_buffer_names[1:])} kv_layout use_tensor_cores use_cuda_graph"

    def __init__(self, workspace_buffer: Tensor, *args: Any, **named: Any) -> None:
        super().__init__(workspace_buffer, *args, **named, use_cuda_graph=True)


def fast_decode_plan(self: BatchDecodeWithPagedKVCacheWrapper, *args: Any, global_override_indptr_cpu: Maybe = None,
        **options: Any) -> None:  # fmt: skip
    """`plan`, where the buffers of a wrapper for CUDA graphs hold the batch already: nothing is copied. Arguments are
    those of `plan`, without `o_data_type`."""
    args = (*args[:12], None, *args[12:]) if len(args) > 12 else args
    options = {"q_data_type": None, **options} if len(args) < 11 else options
    how = {"in_buffers": True, "indptr_host": global_override_indptr_cpu}
    type(self).begin_forward(self, *args, **how, **options)


class PODWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """Prefill of one request, and decode of a batch, which `plan` plans."""

    _plan = f"indptr indices last_page_len {_POD}"

    def run(self, q_p: Tensor, k_p: Tensor, v_p: Tensor, q_d: Tensor, paged_kv_cache_d: Cache,  # type: ignore[override]
            *, enable_pdl: bool | None = None, **how: Any) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both. Options of prefill end in `_p`, those of decode in `_d`: they are those of `plan`, and
        `causal_d` is without effect on one query."""
        refuse_given(how)
        own: Any = {name: how.pop(name) for name in ("q_scale", "k_scale", "v_scale") if name in how}
        own["return_lse"] = how.pop("return_lse_d", False)
        planned = {**self._options._asdict(), "kv_layout": self._kv_layout}
        for name in [name for name in how if name.endswith("_d")]:
            option, value = name.removesuffix("_d"), how.pop(name)
            if option not in (*planned, "custom_mask", "packed_custom_mask"):
                raise TypeError(f"run() got an unexpected keyword argument '{name}'")
            if option != "causal" and value != planned.get(option):
                raise ValueError(f"{name} is {value} in run and {planned.get(option)} in plan")
        of_prefill = {name.removesuffix("_p"): value for name, value in how.items()}
        return single_prefill_with_kv_cache(q_p, k_p, v_p, **of_prefill), super().run(q_d, paged_kv_cache_d, **own)


class BatchPODWithPagedKVCacheWrapper:
    """A batch of prefill and a batch of decode, over pages."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._prefill = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._decode = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)

    @shown(f"self {_BATCH_POD}")
    def plan(self, *args: Any, **options: Any) -> None:
        """Of arrays, those that end in `_p` are of prefill, and those that end in `_d` of decode."""
        given = bind(_BATCH_POD, args, options)
        *needed, both = (given.pop(name, None) for name in (*_BATCH_POD.partition(" |")[0].split(), "data_type"))
        given |= {name: given.get(name) or both for name in ("q_data_type", "kv_data_type")}
        self._prefill.plan(*needed[:4], *needed[8:], **given)
        self._decode.plan(*needed[4:], **given)

    def run(self, q_p: Tensor, paged_kv_cache_p: Cache, q_d: Tensor, paged_kv_cache_d: Cache, custom_mask_p: Any = None,
            packed_custom_mask_p: Any = None, causal_p: bool = False, use_fp16_qk_reduction: bool = False,
            **how: Any) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both."""
        if custom_mask_p is not None or packed_custom_mask_p is not None:
            refuse("a `custom_mask_p` of a batch", "plan a BatchPrefillWithPagedKVCacheWrapper with the mask")
        options = self._prefill._options._replace(causal=causal_p)
        self._prefill._options, self._prefill._last = options, self._prefill._last._replace(plan=None)
        return self._prefill.run(q_p, paged_kv_cache_p, **how), self._decode.run(q_d, paged_kv_cache_d, **how)
