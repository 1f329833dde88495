"""What the wrappers share: `plan` keeps options and plans, `run` launches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _native
from .._errors import Unsupported
from ._bindings import Cache, Dtype, Kind, Mask, MaskOf, Maybe, Number, Options, Split, Tensor, capturing, expression
from ._bindings import host, of_heads, pages_of, product, q_type, refuse, refuse_given, store, unpack
from .utils import TensorLayout, canonicalize_torch_dtype

Result = Tensor | tuple[Tensor, Tensor]


class Private:
    """An object of FlashInfer that engines reach for behind its API."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(f"`{name}` of FlashInfer's private modules and plan vectors", "call `plan`, or `fast_decode_plan`")


@dataclass
class Entry:
    attention: _native.Attention
    plan: _native.Plan
    version: int
    pages: int
    on_device: bool = True


class Wrapper:
    """A batch, options, and a plan for each attention that runs ask for.

    In a wrapper for CUDA graphs plans have a capacity, which needs the number of pages in the pool: the first run makes
    one, and each later batch updates it, on the device where the plan's kernel can.
    """

    _cached_module = _plan_info = _jit_module = Private()
    # whether `run` takes the logits of a sink behind the cache
    _has_sink = False
    # the arguments of `forward` in their order
    _forward = ""

    def __init__(
        self, workspace: Tensor, kv_layout: str, use_cuda_graph: bool, backend: str,
        jit_args: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        # FlashInfer's own variant, whose logits `run` takes as those of BatchAttentionWithAttentionSinkWrapper
        self._has_sink = self._has_sink or (jit_args is not None and "AttentionSink" in jit_args)
        refuse_given(
            "write the variant of C++ text as Rust text for `attn_rs.variant`, and use `attn_rs.Plan`; of C++ variants "
            "`AttentionSink` is known by its name",
            jit_args=None if self._has_sink else jit_args,
        )
        if kv_layout not in TensorLayout.__members__:
            raise KeyError(f"Invalid kv_layout {kv_layout}")
        self._kv_layout, self._use_cuda_graph, self._backend = kv_layout, use_cuda_graph, backend
        self._float_workspace_buffer = self._int_workspace_buffer = workspace
        self.device, self._is_lazy, self._layout = workspace.device, use_cuda_graph, kv_layout
        self._fixed_batch_size, self._max_rows, self._options = 0, -1, Options()
        self._entries: dict[Kind, Entry] = {}
        self._version = 0
        self._params: dict[str, Any] = {}
        # what the last run added to the variant: the next plan is made for it
        self._extras: tuple[str, ...] = ()
        self._tensors: dict[str, Tensor] = {}

    # names that engines read
    is_cuda_graph_enabled = property(lambda self: self._use_cuda_graph)
    _causal = property(lambda self: self._options.causal)
    _window_left = property(lambda self: self._options.window_left)
    _logits_soft_cap = property(lambda self: self._options.logits_soft_cap or 0.0)
    _sm_scale = property(lambda self: self._options.sm_scale)

    def reset_workspace_buffer(self, float_workspace_buffer: Tensor, int_workspace_buffer: Any) -> None:
        """Without effect: a plan owns its memory."""

    def workspace_size(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        refuse("`workspace_size`", "workspaces of any size will do: a plan owns its memory")

    def plan(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError

    def run(self, *args: Any, **kwargs: Any) -> Result:
        raise NotImplementedError

    def begin_forward(self, *args: Any, **kwargs: Any) -> None:
        """`plan` of older code, which names its options in `forward`: that plans."""
        before, self._is_lazy = self._is_lazy, True
        try:
            # not an attribute of this wrapper, which engines set to `fast_decode_plan`
            type(self).plan(self, *args, **kwargs)
        finally:
            self._is_lazy = before

    def forward(self, *args: Any, **kwargs: Any) -> Result:
        """`run` of older code: mask, logits and positions are options of the call, and each set of them has a plan."""
        order = self._forward.split()
        given = {**dict(zip(order, args, strict=False)), **kwargs}
        given.pop("use_fp16_qk_reduction", None)
        own = {name: given.pop(name) for name in Options._fields if name in given}
        own.setdefault("causal", "causal" not in order and self._options.causal)
        self._options = Options(**own)
        return self.run(**given)

    def run_return_lse(self, *args: Any, **kwargs: Any) -> Result:
        return self.run(*args, return_lse=True, **kwargs)

    def forward_return_lse(self, *args: Any, **kwargs: Any) -> Result:
        return self.forward(*args, return_lse=True, **kwargs)

    def end_forward(self) -> None:
        """Without effect."""

    def _keep(
        self, heads: tuple[int, int, int, int], options: Options,
        dtypes: tuple[Dtype | None, Dtype | None, Dtype | None], split: Split = (None, False, 1),
    ) -> None:  # fmt: skip
        """`heads`: of queries and of keys, and their sizes. `dtypes`: of queries (float16 by default), keys and
        outputs. FlashInfer's splits count pages, those of attn_rs keys; one that no request reaches never splits."""
        self._heads, self._options = heads, options
        self._q_dtype = canonicalize_torch_dtype(dtypes[0] or "float16")
        self._kv_dtype, self._o_dtype = (canonicalize_torch_dtype(of or self._q_dtype) for of in dtypes[1:])
        size, is_off, page_size = split
        self._split = 1 << 29 if is_off else size * page_size if size is not None and size > 0 else None

    def _kind(self, scale: float | None) -> Kind:
        masked, own = self._mask is not None, None if scale is None else float(scale)
        variant = expression(self._options, "" if masked else self._mask_part, self._extras)
        dtypes = q_type(self._q_dtype, self._o_dtype), self._kv_dtype
        return Kind(variant, own, str(self.device), *self._heads, *dtypes, self._split, masked)

    def _set_batch(
        self, batch: Callable[[int], _native.Batch], capacity: Callable[[int], _native.Capacity] | None = None,
        device: Callable[[], _native.DeviceBatch] | None = None, mask: Mask | None = None,
        mask_part: str | None = None, params: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """The next batch: `batch(pages)` and `capacity(pages)` are of a pool of so many pages, `device()` is the batch
        in memory of the device. It is planned at once where its attention is known."""
        self._batch, self._capacity, self._device = batch, capacity if self._use_cuda_graph else None, device
        if mask is not None or params or self._params:
            # an attention is bound to the bits of its mask, or to its parameters
            self._entries.clear()
        self._mask, self._mask_part, self._params = mask, mask_part, params or {}
        self._version += 1
        if self._capacity is not None:
            for entry in self._entries.values():
                self._update(entry)
        elif not self._is_lazy:
            self._entry(self._kind(self._options.sm_scale), (1 << 31) - 1, None)

    def _update(self, entry: Entry) -> None:
        if entry.on_device and self._device is not None:
            try:
                entry.plan.update_on_device(self._device())
            except Unsupported:
                entry.on_device = False
        if not entry.on_device or self._device is None:
            entry.plan.update(self._batch(entry.pages))
        entry.version = self._version

    def _entry(self, kind: Kind, pages: int, like: Maybe) -> Entry:
        """The plan of an attention for the batch."""
        entry = self._entries.get(kind)
        if entry is not None and entry.version == self._version:
            return entry
        if like is not None and capturing(like):
            way = "make the same run once before the capture"
            refuse("a run under the capture of a CUDA graph whose options no run of the wrapper had before", way)
        if entry is not None and self._capacity is not None:
            self._update(entry)
            return entry
        attention, reuse = (None, None) if entry is None else (entry.attention, entry.plan)
        if attention is None:
            first = {name: values.detach().float().cpu() for name, values in self._tensors.items()}
            attention = kind.attention({**self._params, **first}, self._mask)
        capacity = None if self._capacity is None else self._capacity(pages)
        plan = _native.Plan(attention, self._batch(pages), self._layout, capacity, [], reuse)
        self._entries[kind] = entry = Entry(attention, plan, self._version, pages)
        if len(self._entries) > 16 and capacity is None:
            self._entries.pop(next(iter(self._entries)))
        return entry

    def _check_requests(self, requests: int) -> None:
        if self._use_cuda_graph and requests != self._fixed_batch_size:
            raise ValueError(
                f"The batch size should be fixed in cudagraph mode, the runtime batch size {requests} mismatches the "
                f"batch size set during initialization {self._fixed_batch_size}"
            )

    def _rows(self, qo: Tensor) -> int:
        """The rows of runs of a wrapper for CUDA graphs: those of its first batch."""
        self._max_rows = int(qo[-1]) if self._max_rows < 0 else self._max_rows
        return self._max_rows

    def _launch(
        self, q: Tensor, k: Tensor, v: Maybe, args: Sequence[Any] = (), *, q_scale: Number | None = None,
        k_scale: Number | None = None, v_scale: Number | None = None, out: Maybe = None, lse: Maybe = None,
        return_lse: bool = False, sinks: Any = None, sides: tuple[Tensor, Tensor] | None = None,
    ) -> Result:  # fmt: skip
        for x, name, planned in ((q, "q", self._q_dtype), (k, "k", self._kv_dtype)):
            if x.dtype != planned:
                raise ValueError(f"The dtype of {name} {x.dtype} does not match the type {planned} given to plan")
        if k.dtype == torch.uint8 and sides is None:
            raise ValueError("kv_cache_sf must be provided for NVFP4 KV cache.")
        scale, tensors = self._options.sm_scale, dict[str, Tensor]()
        if self._has_sink and args:
            sinks, scale, args = args[0], args[1] if len(args) > 1 else scale, ()
        if sinks is not None:
            tensors["sink.logits"] = sinks[0] if isinstance(sinks, (list, tuple)) else sinks
        if len(args) == 3 and isinstance(args[0], Tensor) and args[0].numel() > 1:
            tensors |= {f"head_scales.{name}": x for name, x in zip("qkv", args, strict=True)}
        elif len(args) > 3 or not all(isinstance(x, (float, Tensor, type(None))) for x in args):
            refuse(f"a run with {len(args)} more positional arguments", "they may be `scale_q, scale_k, scale_v`")
        else:
            q_scale, k_scale, v_scale = map(product, (q_scale, k_scale, v_scale), (*args, *[None] * (3 - len(args))))
        self._extras, self._tensors = tuple(dict.fromkeys(name.partition(".")[0] for name in tensors)), tensors
        kind = self._kind(scale)
        entry = self._entry(kind, k.shape[0], q)
        o, q = out, q.to(kind.dtype)
        if o is None or o.dtype != kind.dtype:
            o = torch.empty((*q.shape[:2], kind.value_dim), dtype=kind.dtype, device=q.device)
        if return_lse and lse is None:
            lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
        for name, values in tensors.items():
            entry.attention.set_tensor(name, values.detach().to(q.device, torch.float32).contiguous())
        scales = {"k_scale": product(q_scale, k_scale), "v_scale": product(v_scale)}
        how = {name: of_heads(scale, kind.kv_heads, None) for name, scale in scales.items()}
        if sides is not None:
            how |= {"k_side": sides[0].view(torch.uint8), "v_side": sides[1].view(torch.uint8)}
        entry.plan.run(q, k, v, o, lse, lse_base_2=True, **how)
        o = store(o, out, self._o_dtype)
        return (o, lse) if return_lse and lse is not None else o


class PagedWrapper(Wrapper):
    """Keys and values in pages."""

    def __init__(
        self, workspace: Tensor, kv_layout: str, use_cuda_graph: bool, buffers: tuple[Maybe, Maybe, Maybe, Maybe],
        backend: str, jit_args: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        """`buffers`: of `qo_indptr`, of the pages' `indptr` and `indices`, and of the slots of last pages."""
        super().__init__(workspace, kv_layout, use_cuda_graph, backend, jit_args)
        self._buffers = buffers
        if use_cuda_graph:
            if buffers[1] is None or buffers[2] is None or buffers[3] is None:
                raise ValueError("a wrapper with use_cuda_graph needs buffers of indptr, indices and last_page_len")
            self._fixed_batch_size = len(buffers[3])

    # names that engines read
    _qo_indptr_buf = property(lambda self: self._buffers[0])
    _paged_kv_indptr_buf = property(lambda self: self._buffers[1])
    _paged_kv_indices_buf = property(lambda self: self._buffers[2])
    _paged_kv_last_page_len_buf = property(lambda self: self._buffers[3])

    def _plan_pages(
        self, arrays: tuple[Tensor, Tensor, Tensor, Tensor], page_size: int, *, are_lens: bool = False,
        indptr_host: Maybe = None, in_buffers: bool = False, mask: MaskOf | None = None,
    ) -> None:  # fmt: skip
        """`arrays` as the buffers; with `are_lens` the last has numbers of keys, and with `in_buffers` the arrays are
        in the buffers already."""
        requests = len(arrays[3])
        self._check_requests(requests)
        # FlashInfer reads no more of a longer `indptr`
        arrays = arrays[0], arrays[1][: requests + 1], *arrays[2:]
        if not self._use_cuda_graph:
            self._buffers = arrays
        elif len(arrays[2]) > len(self._paged_kv_indices_buf):
            raise ValueError("The size of indices should be less than or equal to the allocated buffer")
        elif not in_buffers:
            for buffer, array in zip(self._buffers, arrays, strict=True):
                if buffer is not None:
                    buffer[: len(array)].copy_(array)
        qo, indptr, indices, last = (own if buffer is None else buffer for buffer, own in zip(self._buffers, arrays))

        def lens_of(ends: Tensor, slots: Tensor) -> Tensor:
            counts = ends.diff()
            return slots if are_lens else torch.where(counts > 0, (counts - 1) * page_size + slots, 0).int()

        def batch(pages: int) -> _native.Batch:
            ends = host(indptr if indptr_host is None else indptr_host[: requests + 1])
            rows = pages_of(ends, host(indices[: int(ends[-1])]), lens_of(ends, host(last)), page_size)
            return _native.Batch.paged(host(qo), *rows, page_size=page_size, num_pages=max(pages, 1))

        def device() -> _native.DeviceBatch:
            own = (x.to(self.device, torch.int32) for x in (qo, lens_of(indptr, last), indptr, indices))
            return _native.DeviceBatch.paged(*own)

        def capacity(pages: int) -> _native.Capacity:
            keys, rows = min(len(indices) * page_size, (1 << 30) - 1), self._rows(qo)
            qo_tokens = None if rows == requests else rows
            return _native.Capacity(requests, keys, qo_tokens=qo_tokens, page_size=page_size, num_pages=max(pages, 1))

        masked = (None, None, {}) if mask is None else mask(host(qo), lens_of(host(indptr), host(last)))
        self._set_batch(batch, capacity, device, *masked)

    def run(
        self, q: Tensor, paged_kv_cache: Cache, *args: Any, q_scale: Number | None = None,
        k_scale: Number | None = None, v_scale: Number | None = None, out: Maybe = None, lse: Maybe = None,
        return_lse: bool = False, enable_pdl: bool | None = None, window_left: int | None = None, sinks: Any = None,
        kv_cache_sf: Cache | None = None, skip_softmax_threshold_scale_factor: float | None = None,
        use_fp16_softmax: bool | None = None, uses_spcompress: bool | None = None,
    ) -> Result:  # fmt: skip
        """Launches; with `return_lse` also the log-sum-exps, in base 2. `args` may be `scale_q, scale_k, scale_v` of
        FP8: a number each, or one of each head."""
        skip = skip_softmax_threshold_scale_factor
        refuse_given("every key that the mask keeps is computed", skip_softmax_threshold_scale_factor=skip)
        if window_left not in (None, self._options.window_left):
            raise ValueError(f"window_left is {window_left} in run and {self._options.window_left} in plan")
        k, v = unpack(paged_kv_cache, self._kv_layout)
        sides = None if kv_cache_sf is None else unpack(kv_cache_sf, self._kv_layout)
        scales = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        return self._launch(q, k, v, args, out=out, lse=lse, return_lse=return_lse, sinks=sinks, sides=sides, **scales)
