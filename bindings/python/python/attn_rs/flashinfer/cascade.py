"""`flashinfer.cascade`: shared prefixes, and merges of attention states. Log-sum-exps are in base 2."""

from typing import Any

from .. import ops
from ._bindings import Cache, Maybe, Tensor, bind
from ._wrapper import Older
from .decode import BatchDecodeWithPagedKVCacheWrapper
from .prefill import BatchPrefillWithPagedKVCacheWrapper, single_prefill_with_kv_cache

__all__ = ["BatchDecodeWithSharedPrefixPagedKVCacheWrapper", "BatchPrefillWithSharedPrefixPagedKVCacheWrapper",
    "MultiLevelCascadeAttentionWrapper", "merge_state", "merge_state_in_place", "merge_states"]  # fmt: skip


def merge_state(v_a: Tensor, s_a: Tensor, v_b: Tensor, s_b: Tensor) -> tuple[Tensor, Tensor]:
    """The state over the keys of both: (tokens, heads, head dim) and (tokens, heads)."""
    return ops.merge_state(v_a, s_a.float(), v_b, s_b.float(), lse_base=2)


def merge_state_in_place(v: Tensor, s: Tensor, v_other: Tensor, s_other: Tensor, mask: Maybe = None) -> None:
    """As `merge_state`, into the first; with `mask`, of tokens, only where it is true."""
    ops.merge_state_in_place(v, s, v_other, s_other.float(), mask=mask, lse_base=2)


def merge_states(v: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The state over the keys of all: (tokens, states, heads, head dim) and (tokens, states, heads)."""
    return ops.merge_states(v, s.float(), lse_base=2)


class MultiLevelCascadeAttentionWrapper(Older):
    """Levels of keys that requests share: a launch a level, and merges. Positions and windows count within a level, and
    `causal` is of the last one. Buffers are lists, with one of each level."""

    def __init__(self, num_levels: int, float_workspace_buffer: Tensor, kv_layout: str = "NHD",
            use_cuda_graph: bool = False, *args: Any, **named: Any) -> None:  # fmt: skip
        names = "qo_indptr_buf_arr paged_kv_indptr_buf_arr paged_kv_indices_buf_arr paged_kv_last_page_len_buf_arr"
        arrays = [bind(names, args, named).get(name) for name in names.split()]
        buffers = [[None if of is None else of[level] for of in arrays] for level in range(num_levels)]
        how = float_workspace_buffer, kv_layout, use_cuda_graph
        self._levels = [BatchPrefillWithPagedKVCacheWrapper(*how, *own) for own in buffers]
        self.is_cuda_graph_enabled = use_cuda_graph

    def plan(self, qo_indptr_arr: list[Tensor], paged_kv_indptr_arr: list[Tensor], paged_kv_indices_arr: list[Tensor],
            paged_kv_last_page_len: list[Tensor], num_qo_heads: int, num_kv_heads: int, head_dim: int, page_size: int,
            causal: bool = False, **options: Any) -> None:  # fmt: skip
        """Arrays of each level, and sizes and options of `BatchPrefillWithPagedKVCacheWrapper.plan`."""
        sizes = num_qo_heads, num_kv_heads, head_dim, page_size
        arrays = zip(qo_indptr_arr, paged_kv_indptr_arr, paged_kv_indices_arr, paged_kv_last_page_len, strict=True)
        for wrapper, own in zip(self._levels, arrays, strict=True):
            wrapper.plan(*own, *sizes, causal=causal and wrapper is self._levels[-1], **options)

    def run(self, q: Tensor, paged_kv_cache: Cache) -> Any:
        o, lse = self._levels[-1].run(q, paged_kv_cache, return_lse=True)
        for wrapper in self._levels[:-1]:
            merge_state_in_place(o, lse, *wrapper.run(q, paged_kv_cache, return_lse=True))
        return o

    begin_forward, forward = plan, run


class BatchPrefillWithSharedPrefixPagedKVCacheWrapper(Older):
    """A prefix that all requests share, beside pages of their own. `begin_forward` is that of the wrapper of pages."""

    _wrapper: Any = BatchPrefillWithPagedKVCacheWrapper

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._own, self._kv_layout = self._wrapper(float_workspace_buffer, kv_layout), kv_layout
        self.begin_forward = self._own.begin_forward

    def forward(self, q: Tensor, k_shared: Tensor, v_shared: Tensor, unique_kv_cache: Cache, causal: bool = False,
            **options: Any) -> Any:  # fmt: skip
        """`options` are those of `single_prefill_with_kv_cache`."""
        how = {"kv_layout": self._kv_layout, "return_lse": True, **options}
        o, lse = single_prefill_with_kv_cache(q, k_shared, v_shared, **how)
        merge_state_in_place(o, lse, *self._own.forward_return_lse(q, unique_kv_cache, causal=causal, **options))
        return o


class BatchDecodeWithSharedPrefixPagedKVCacheWrapper(BatchPrefillWithSharedPrefixPagedKVCacheWrapper):
    _wrapper = BatchDecodeWithPagedKVCacheWrapper
