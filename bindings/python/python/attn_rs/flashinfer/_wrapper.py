"""What the wrappers share: `plan` keeps options and plans, `run` launches."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .. import _native
from .._arrays import KeptViews, named
from .._plans import AttentionKey, LastRun, Plans
from ._bindings import MASKS, Cache, Mask, Maybe, Number, Options, Result, Tensor, bind, expression, host, mask_of
from ._bindings import nvfp4_of, options_of, product, q_type, range_of, refuse, shown, store, unpack
from .utils import TensorLayout, canonicalize_torch_dtype


class Private:
    """An object of FlashInfer that engines reach for behind its API."""

    def __getattr__(self, name: Any) -> Any:
        if str(name).startswith("__"):
            raise AttributeError(name)
        refuse(f"`{name}` of FlashInfer's private modules and plan vectors", "call `plan`, or `fast_decode_plan`")

    __getitem__ = __getattr__


class Older:
    def reset_workspace_buffer(self, float_workspace_buffer: Tensor, int_workspace_buffer: Any) -> None:
        """Without effect: a plan owns its memory. So is `end_forward`."""

    def end_forward(self) -> None: ...


class Wrapper(Older):
    """A batch, options, and a plan for each attention that runs ask for. In a wrapper for CUDA graphs plans have a
    capacity, which needs the number of pages in the pool: the first run makes one, and each later batch updates it."""

    _cached_module = _plan_info = _jit_module = Private()
    # whether `run` takes the logits of a sink behind the cache, and the layout of attn_rs, where it is always the same
    _has_sink, _layout, _options = False, "", Options()
    # arguments in their order: of the constructor behind the workspace, of `plan`, and of `forward`
    _init = _plan = _forward = ""
    # the constructor's arguments that are buffers: `qo_indptr` first, and last one with an element for each request
    _buffer_names: Sequence[str] = ()
    plan: Any
    run: Any
    _last = LastRun()

    def __init_subclass__(cls) -> None:
        if cls._plan and "_plan" in vars(cls):
            cls.plan = shown("self " + cls._plan)(cls.plan)

    def __init__(self, float_workspace_buffer: Tensor, *args: Any, **how: Any) -> None:
        given = bind(self._init, args, how)
        # FlashInfer's own variant, whose logits `run` takes as those of BatchAttentionWithAttentionSinkWrapper
        self._has_sink = self._has_sink or "AttentionSink" in (given.get("jit_args") or ())
        if given.get("jit_args") and not self._has_sink:
            way = "write Rust text for `attn_rs.variant`, and use `attn_rs.Plan`; `AttentionSink` is known by its name"
            refuse("`jit_args`, variants of C++ text,", way)
        self._kv_layout, self._use_cuda_graph = given.get("kv_layout", "NHD"), given.get("use_cuda_graph", False)
        if self._kv_layout not in TensorLayout.__members__:
            raise KeyError(f"Invalid kv_layout {self._kv_layout}")
        self._buffers: Sequence[Any] = [given.get(name) for name in self._buffer_names]
        if self._use_cuda_graph and any(buffer is None for buffer in self._buffers[1:]):
            raise ValueError(f"a wrapper with use_cuda_graph needs buffers: {' '.join(self._buffer_names[1:])}")
        # the last buffer of a ragged batch, whose layout is fixed, has prefix sums
        self._fixed_batch_size = len(self._buffers[-1]) - (self._layout == "NHD") if self._use_cuda_graph else 0
        self._is_lazy = self.is_cuda_graph_enabled = self._use_cuda_graph
        self._float_workspace_buffer = self._int_workspace_buffer = float_workspace_buffer
        self.device, self._backend = float_workspace_buffer.device, given.get("backend", "auto")
        self.use_tensor_cores = self._use_tensor_cores = given.get("use_tensor_cores", False)
        self._plans = Plans(self, self._layout or self._kv_layout, self._use_cuda_graph)
        self._views = KeptViews(lambda cache: unpack(cache, self._kv_layout))
        # bits of a mask, or its part of the variant, with parameters
        self._mask: tuple[Mask | None, str | None, dict[str, Any]] = None, None, {}
        # what the last run added to the variant: the next plan is made for it
        self._extras: tuple[str, ...] = ()
        # `qo_indptr` and `kv_indptr` of a ragged batch, and the most queries and keys of a wrapper for CUDA graphs
        self._ragged: tuple[Any, Any] = [0], [0]
        self._most = -1, -1

    # names that engines read
    _causal = property(lambda self: self._options.causal)
    _window_left = property(lambda self: self._options.window_left)
    _logits_soft_cap = property(lambda self: self._options.logits_soft_cap)
    _sm_scale = property(lambda self: self._options.sm_scale)
    _qo_indptr_buf = property(lambda self: self._buffers[0])

    def workspace_size(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """Bytes of workspaces, of which any will do: a plan owns its memory."""
        return 16, 16

    def begin_forward(self, *args: Any, **kwargs: Any) -> None:
        """`plan` of older code, which names its options in `forward`: that plans."""
        before, self._is_lazy = self._is_lazy, True
        # not an attribute of this wrapper, which engines set to `fast_decode_plan`
        type(self).plan(self, *args, **kwargs)
        self._is_lazy = before

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """`run` of older code: mask, logits and positions are options of the call, and each set of them has a plan."""
        given = {**dict(zip(self._forward.split(), args, strict=False)), **kwargs}
        given.pop("use_fp16_qk_reduction", None)
        own = {name: given.pop(name) for name in Options._fields if name in given}
        causal = "causal" not in self._forward and self._causal
        self._options, self._last = options_of({"causal": causal, **own}), LastRun()
        return self.run(**given)

    run_return_lse: Any = lambda self, *args, **how: self.run(*args, return_lse=True, **how)
    forward_return_lse: Any = lambda self, *args, **how: self.forward(*args, return_lse=True, **how)

    def _keep(self, given: Mapping[str, Any], *heads: int) -> None:
        """Options of `plan` by their names. `heads`: of queries and of keys, and their sizes."""
        self._masks = {name: given[name] for name in MASKS if isinstance(x := given.get(name), Tensor) or x}
        if self._masks and self._use_cuda_graph:
            way = "give a wrapper without `use_cuda_graph`; bits of `attn_rs.Plan(mask=..)` can be replaced"
            refuse(f"`{next(iter(self._masks))}` beside `use_cuda_graph`", way)
        self._heads, self._options, both = heads, options_of(given), given.get("data_type")
        self._q_dtype = canonicalize_torch_dtype(given.get("q_data_type") or both or "float16")
        self._kv_dtype = canonicalize_torch_dtype(given.get("kv_data_type") or both or self._q_dtype)
        self._o_dtype = o = canonicalize_torch_dtype(given.get("o_data_type") or self._q_dtype)
        self._stored = [q_type(self._q_dtype, o) if x == torch.float8_e5m2 else x for x in (o, self._q_dtype)]
        # FlashInfer's splits count pages, those of attn_rs keys; one that no request reaches never splits
        size = (given.get("fixed_split_size") or 0) * given.get("page_size", 1)
        self._split = 1 << 29 if given.get("disable_split_kv") else size if size > 0 else None

    def _key(self, scale: float | None, kv_dtype: torch.dtype) -> AttentionKey:
        is_masked, dtype = self._mask[0] is not None, named(q_type(self._q_dtype, self._o_dtype))
        variant = expression(self._options, "" if is_masked else self._mask[1], self._extras)
        dtypes = (dtype, dtype, "nvfp4") if kv_dtype == torch.uint8 else (dtype, named(kv_dtype), None)
        of: Any = *self._heads, *dtypes, self._split, self._layout == "latent", False, is_masked
        scale = None if scale is None else float(scale)
        return AttentionKey(variant, scale, str(self.device), *of, *map(named, self._stored))

    def host_batch(self, pages: int) -> _native.Batch:
        return _native.Batch.ragged(*self._ragged)

    def device_batch(self) -> _native.DeviceBatch | None:
        return None

    def capacity(self, pages: int) -> _native.Capacity:
        return _native.Capacity(len(self._ragged[0]) - 1, self._most[1], qo_tokens=self._most[0])

    def _new_batch(self, bits: Mask | None = None, part: str | None = None, params: Any = None) -> None:
        """The batch is another, which is planned at once where its attention is known."""
        if bits is not None or params or self._mask[2]:
            # an attention is bound to the bits of its mask, or to its parameters
            self._plans.clear()
        self._mask, self._last = (bits, part, params or {}), LastRun()
        self._plans.new_batch()
        key = self._key(self._sm_scale, self._kv_dtype)
        if not self._is_lazy and (not self._extras or key in self._plans):
            self._plans.get(key, lambda: key.attention(self._mask[2], bits), (1 << 31) - 1)

    def _check_requests(self, requests: int) -> None:
        if self._use_cuda_graph and requests != (fixed := self._fixed_batch_size):
            raise ValueError(f"The batch size should be fixed in cudagraph mode: it was {fixed}, and is {requests}")

    def _launch(self, q: Tensor, k: Tensor, v: Maybe, args: Sequence[Any] = (), *, q_scale: Number | None = None,
            k_scale: Number | None = None, v_scale: Number | None = None, out: Maybe = None, lse: Maybe = None,
            return_lse: bool = False, sinks: Any = None, sides: tuple[Tensor, Tensor] | None = None,
            kv_dtype: torch.dtype | None = None, base_2: bool = True) -> Result:  # fmt: skip
        kv_dtype = kv_dtype or self._kv_dtype
        is_plain = not args and q_scale is k_scale is v_scale is sinks is sides is None
        for x, name, planned in ((q, "q", self._q_dtype), (k, "k", kv_dtype)):
            if x.dtype != planned:
                raise ValueError(f"The dtype of {name} {x.dtype} does not match the type {planned} given to plan")
        scale, tensors, how = self._sm_scale, dict[str, Tensor](), dict[str, Any]()
        if k.dtype == torch.uint8 and v is not None:
            k, v, how["k_side"], how["v_side"] = nvfp4_of(k, v, sides)
        if self._has_sink and args:
            sinks, scale, args = args[0], args[1] if len(args) > 1 else scale, ()
        if sinks is not None:
            tensors["sink.logits"] = sinks[0] if isinstance(sinks, (list, tuple)) else sinks
        if len(args) > 3 or not all(isinstance(x, (float, Tensor, type(None))) for x in args):
            refuse(f"a run with {len(args)} more positional arguments", "they may be `scale_q, scale_k, scale_v`")
        if len(args) == 3 and any(isinstance(x, Tensor) and x.numel() > 1 for x in args):
            for name, x, heads in zip("qkv", args, (self._heads[0], *[self._heads[1]] * 2), strict=True):
                tensors[f"head_scales.{name}"] = torch.ones(heads, device=q.device) * (1.0 if x is None else x)
        else:
            q_scale, k_scale, v_scale = map(product, (q_scale, k_scale, v_scale), (*args, *[None] * (3 - len(args))))
        self._extras = tuple(dict.fromkeys(name.partition(".")[0] for name in tensors))
        o, key, q = out, self._key(scale, kv_dtype), q.to(self._stored[1])
        if o is None or o.dtype != self._stored[0]:
            o = torch.empty((*q.shape[:2], key.value_dim), dtype=self._stored[0], device=q.device)
        if return_lse and lse is None:
            lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
        numbers = {name: x.detach().to(q.device, torch.float32).contiguous() for name, x in tensors.items()}
        of: Any = {"params": self._mask[2], "tensors": numbers, "mask": self._mask[0], "lse_base_2": base_2}
        how |= {"k_scale": product(q_scale, k_scale), "v_scale": product(v_scale)}
        plan = self._plans.run(key, q, k, v, o, lse, **of, **how)
        if is_plain and self._stored == [self._q_dtype] * 2:
            self._last = LastRun(plan, self._q_dtype, kv_dtype, torch.float32, key.value_dim, base_2)
        o = store(o, out, self._o_dtype)
        return (o, lse) if return_lse and lse is not None else o


class PagedWrapper(Wrapper):
    """Keys and values in pages. The arrays of `plan` are prefix sums of queries and of pages, (requests + 1), pages,
    and the slots of last pages, or numbers of keys; the buffers of a wrapper for CUDA graphs are for these. On a CUDA
    device it reads them on the host, and waits, unless the wrapper is for CUDA graphs and its plan is made there."""

    # the arguments of `plan` that are arrays, the first maybe none, whether the last has numbers of keys, and defaults
    _array_names: Sequence[str] = ()
    _are_lens, _defaults = False, dict[str, Any]()
    _paged_kv_indptr_buf = property(lambda self: self._buffers[1])
    _paged_kv_indices_buf = property(lambda self: self._buffers[2])
    _paged_kv_last_page_len_buf = property(lambda self: self._buffers[3])

    def _check(self, given: dict[str, Any]) -> None:
        """Checks and completes the arguments of `plan`."""

    def _dims(self, given: dict[str, Any]) -> tuple[int, int]:
        """The elements of a key and of a value."""
        dim: int = given.get("head_dim_qk") or given["head_dim"]
        return dim, given.get("head_dim_vo") or dim

    def plan(self, *args: Any, **how: Any) -> None:
        """Plans a batch. Arguments are FlashInfer's, by name or in its order: arrays, sizes, and options."""
        given = {**self._defaults, **bind(self._plan, args, how)}
        self._check(given)
        heads = given.get("num_qo_heads") or given["num_heads"], given.get("num_kv_heads", 1)
        self._keep(given, *heads, *self._dims(given))
        found: list[Any] = [given.get(name) for name in self._array_names]
        (qo, indptr, indices, last), requests = found, len(found[3])
        self._check_requests(requests)
        if qo is None:
            # a batch that is planned on the host is read there
            qo = range_of(requests + 1, self.device if self._use_cuda_graph else "cpu", given.get("q_len_per_req", 1))
        # FlashInfer reads no more of a longer `indptr`
        arrays = qo, indptr[: requests + 1], indices, last
        if not self._use_cuda_graph:
            self._buffers = arrays
        elif len(indices) > len(self._paged_kv_indices_buf):
            raise ValueError("The size of indices should be less than or equal to the allocated buffer")
        elif not given.get("in_buffers"):
            for buffer, array in zip(self._buffers, arrays, strict=True):
                if buffer is not None:
                    buffer[: len(array)].copy_(array)
        rows = [own if buffer is None else buffer for buffer, own in zip(self._buffers, arrays, strict=True)]
        qo, indptr, indices, last = rows if self._use_cuda_graph else map(host, rows)
        self._page_size, ends = given["page_size"], given.get("indptr_host")
        if not self._are_lens:
            last = torch.add(last, indptr[1:] - indptr[:-1] - 1, alpha=self._page_size).clamp_(0).int()
        self._rows = qo, last, indptr, indices
        self._indptr_host = None if ends is None else ends[: requests + 1]
        self._new_batch(*(mask_of(self._masks, *self._rows[:2]) if self._masks else ()))

    def host_batch(self, pages: int) -> _native.Batch:
        qo, lens, indptr, indices = self._rows
        ends = host(indptr if self._indptr_host is None else self._indptr_host)
        rows, sizes = (host(qo), ends, host(indices[: int(ends[-1])])), {"page_size": self._page_size}
        return _native.Batch.paged(*rows, kv_lens=host(lens), num_pages=max(pages, 1), **sizes)

    def device_batch(self) -> _native.DeviceBatch:
        return _native.DeviceBatch.paged(*(x.to(self.device, torch.int32) for x in self._rows))

    def capacity(self, pages: int) -> _native.Capacity:
        (qo, lens, _, indices), size = self._rows, self._page_size
        # runs have the rows of the first one's batch
        self._most = self._most if self._most[0] >= 0 else (int(qo[-1]), min(len(indices) * size, (1 << 30) - 1))
        rows = None if self._most[0] == len(lens) else self._most[0]
        return _native.Capacity(len(lens), self._most[1], qo_tokens=rows, page_size=size, num_pages=max(pages, 1))

    def run(self, q: Tensor, paged_kv_cache: Cache, *args: Any, q_scale: Number | None = None,
            k_scale: Number | None = None, v_scale: Number | None = None, out: Maybe = None, lse: Maybe = None,
            return_lse: bool = False, window_left: int | None = None, sinks: Any = None,
            kv_cache_sf: Cache | None = None, **others: Any) -> Result:  # fmt: skip
        """Launches; with `return_lse` also the log-sum-exps, in base 2. `args` may be `scale_q, scale_k, scale_v` of
        FP8: a number each, or one of each head."""
        own = q_scale, k_scale, v_scale, window_left, sinks, kv_cache_sf, *args, *others
        if (got := self._last.again(q, self._views.of(paged_kv_cache), out, lse, return_lse, *own)) is not None:
            return got
        if others:
            bind("enable_pdl skip_softmax_threshold_scale_factor use_fp16_softmax uses_spcompress", (), others)
        if window_left not in (None, self._window_left):
            raise ValueError(f"window_left is {window_left} in run and {self._window_left} in plan")
        k, v = self._views.of(paged_kv_cache)
        sides = None if kv_cache_sf is None else unpack(kv_cache_sf, self._kv_layout)
        scales: Any = {"q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        return self._launch(q, k, v, args, out=out, lse=lse, return_lse=return_lse, sinks=sinks, sides=sides, **scales)
