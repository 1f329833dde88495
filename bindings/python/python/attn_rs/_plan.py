"""Plans: a batch that is planned once and run many times."""

import itertools
import math
from typing import Any

from . import _native
from ._append import append
from ._arrays import check_tensor, empty, is_base_2, is_capturing, is_compiling, named, needs_grad, per_head, type_name
from ._errors import InvalidArgument, WrongType

_numbers = itertools.count(1)


def _is_one(scale: Any) -> bool:
    return isinstance(scale, (int, float)) and scale == 1


class Plan:
    """A planned batch: in every layer, and in every step with the same lengths, `run` only launches.

    Args:
        batch: `Batch.ragged(..)`, `Batch.paged(..)`, `Batch.block_table(..)` or `Batch.cascade(..)`.
        variant: an expression, such as `"causal + soft_cap(cap=30)"`; `"full"` by default.
        attention: in place of `variant`, heads, types, device and the options of these: the `attention` of another
            plan, or an `attn_rs.Attention`.
        qo_heads, kv_heads: heads of queries, and of keys and values; the first is a multiple of the second.
        head_dim: elements of a query or key of one head; `value_dim` of a value, by default as many.
        dtype: of queries and outputs: `"float16"`, `"bfloat16"`, `"float32"`, or a dtype of torch or numpy; `kv_dtype`
            of keys and values, by default the same, also `"float8_e4m3fn"` and `"float8_e5m2"`; `o_dtype` of outputs,
            by default `dtype`, also `"float8_e4m3fn"` with an `o_scale` (`run`); `q_dtype` of queries in memory, by
            default `dtype`, also `"float8_e4m3fn"` with a `q_scale`, which kernels read and compute in `dtype`.
        kv_format: the format in which keys and values are stored, such as `"int8"`, `"int4(group=32)"` or `"int8 /
            int4"` for keys and values; they are then tensors of uint8, whose last dimension is the bytes of a row.
        device: `"cpu"`, `"cuda"`, `"cuda:1"`, or a device of torch.
        scale: what products of queries and keys are multiplied by; 1 / sqrt(head dim) by default.
        params: parameters of the variant by name: numbers, lists or arrays, of which the values are copied.
        kv_layout: `"NHD"`: (pages, slots, KV heads, head dim), or (keys, KV heads, head dim) of a ragged batch;
            `"HND"`: (pages, KV heads, slots, head dim); `"fused NHD"`, `"fused HND"`: one pool with keys and then
            values of each page; `"latent"`: one tensor, whose first elements are the values.
        capacity: the largest batch that `update` may give it. A CUDA graph that captured `run` then computes the batch
            of the last update. Tensors of a run may then have more tokens than the batch; without a capacity they have
            as many.
        kernel: `"decode"`, `"prefill"`, `"mixed"`, or None for the fastest.
        fixed_split_size: keys are split at multiples of this number and nowhere else, so that the bits of a request do
            not depend on the batch.
        skip_softmax: how far below a row's largest logit the keys of a tile must lie for a kernel to leave them out; of
            its weights, a row of n keys loses at most a share of n * exp(-skip_softmax). By default all keys count.
        compute_type: of prefill: `"exact"`, the elements of the tensors, or `"e4m3"`, queries and
            probabilities rounded to it, over keys and values of `"float8_e4m3fn"`.
        stores_transformed: whether keys and values are stored after the variant's transforms, which `append` applies.
        values_in_keys: whether values are the first `value_dim` elements of keys.
        layers: attentions of other layers (`layer`) that see other keys, which the plan then covers.
        mask: a mask beside the variant: (bits, indptr), as `attn_rs.Attention` takes it. Tiles are skipped by its bits,
            which stay; one that changes in place is a variant of your own with `#[mutable]` bits (`attn_rs.variant`).
        reuse: a `Plan` that is not needed any more, whose memory becomes that of this one: it must not run again.
        stream: the address of a CUDA stream; by default the current one of torch, else the default stream.

    Raises:
        InvalidVariant, InvalidBatch, InvalidArgument, Unsupported, NoDevice, CudaFailure.
    """

    def __init__(
        self,
        batch: _native.Batch,
        variant: str | None = None,
        *,
        attention: _native.Attention | None = None,
        qo_heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        dtype: Any = None,
        device: Any = None,
        value_dim: int | None = None,
        kv_dtype: Any = None,
        o_dtype: Any = None,
        q_dtype: Any = None,
        scale: float | None = None,
        params: dict[str, Any] | None = None,
        kv_layout: str = "NHD",
        capacity: _native.Capacity | None = None,
        kernel: str | None = None,
        fixed_split_size: int | None = None,
        stores_transformed: bool | None = None,
        values_in_keys: bool | None = None,
        layers: Any = (),
        stream: int | None = None,
        kv_format: str | None = None,
        compute_type: str | None = None,
        skip_softmax: float | None = None,
        mask: tuple[Any, Any] | None = None,
        reuse: Any = None,
    ) -> None:
        needed = {"qo_heads": qo_heads, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype, "device": device}
        options: dict[str, Any] = {
            "scale": scale,
            "kernel": kernel,
            "fixed_split_size": fixed_split_size,
            "stores_transformed": stores_transformed,
            "values_in_keys": values_in_keys,
            "mask": mask,
            "kv_format": kv_format,
            "compute_type": compute_type,
            "skip_softmax": skip_softmax,
            "o_dtype": None if o_dtype is None else named(o_dtype),
            "q_dtype": None if q_dtype is None else named(q_dtype),
        }
        others = {"variant": variant, "params": params, "value_dim": value_dim, "kv_dtype": kv_dtype}
        if attention is None:
            if missing := [name for name, value in needed.items() if value is None]:
                raise WrongType(f"{', '.join(missing)}: not given, and there is no `attention` that has it")
            if not (kv_format is None or kv_dtype is None or named(kv_dtype) == "uint8"):
                raise InvalidArgument(f"kv_dtype is {named(kv_dtype)} beside kv_format; tensors of a format are uint8")
            dtypes = (named(dtype), named(dtype if kv_dtype is None else kv_dtype))
            heads = (qo_heads, kv_heads, head_dim, value_dim)
            variant = "full" if variant is None else variant
            made_of: Any = (*heads, *dtypes)
            attention = _native.Attention(variant, params, str(device), *made_of, **options)
        else:
            of_attention = {**others, **needed, **options}.items()
            if given := [name for name, value in of_attention if value is not None and value is not False]:
                raise InvalidArgument(f"{', '.join(given)}: given beside `attention`, which has its own")
        if not (reuse is None or isinstance(reuse, Plan)):
            raise WrongType(f"reuse is of the type `{type_name(reuse)}`; it is a `Plan` that is not needed any more")
        if not isinstance(layers, (list, tuple)):
            raise WrongType(f"layers is of the type `{type_name(layers)}`; it is a list of `plan.layer(..)`")
        self.attention: _native.Attention = attention
        other: _native.Plan | None = None if reuse is None else reuse.native
        self.native: _native.Plan = _native.Plan(attention, batch, kv_layout, capacity, list(layers), other, stream)
        self.kv_layout = kv_layout
        _, self._kv_heads, _, self.value_dim = attention.heads
        self._has_capacity = self.native.has_capacity
        # whether the host does not know the batch
        self._is_of_device = False
        self._number: int | None = None

    def run(
        self,
        q: Any,
        k: Any,
        v: Any = None,
        *,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        layer: _native.Attention | None = None,
        partial: bool = False,
        k_scale: Any = 1.0,
        v_scale: Any = 1.0,
        o_scale: Any = 1.0,
        q_scale: Any = 1.0,
        stream: int | None = None,
        k_side: Any = None,
        v_side: Any = None,
        lse_base: str | int = "e",
    ) -> Any:
        """Runs the attention. On a CUDA device it launches and returns, and a CUDA graph can capture it.

        Args:
            q: queries, (query tokens, query heads, head dim); as many as the batch has, or more under a capacity.
            k, v: keys and values in the layout of the plan; `v` is None where values are in `k`.
            out: where the output goes, (query tokens, query heads, value dim), else new memory. Under a capacity it may
                have more rows than the batch: those past the batch stay as they are, and are 0 in new memory.
            lse: where the log-sum-exp of each row goes, float32 of (query tokens, query heads).
            return_lse: whether to return log-sum-exps, in new memory without `lse`.
            lse_base: `"e"`, or 2 for log-sum-exps in base 2, as FlashInfer has them: one more launch, which multiplies
                all of `lse`, under a capacity also rows past the batch. A capture needs such a call before.
            layer: the attention of another layer (`Plan.layer`).
            partial: the state of each row over these keys alone, to be merged with that over others: no sink and no
                output transform. It needs `lse` or `return_lse`.
            k_scale, v_scale: what stored keys and values are multiplied by: numbers, or float32 of (KV heads) in memory
                of the device, which a CUDA graph reads anew in each replay. An array of one element is one for all
                heads, in one more launch.
            o_scale, q_scale: what readers multiply outputs of `"float8_e4m3fn"` by, and what queries of that type are
                multiplied by: numbers, or float32 of one element, as these.
            k_side, v_side: side data of a `kv_format` that has any (scales), as uint8 in the order of dimensions of `k`
                and `v`; a fused layout has one pool for both.
            stream: the address of a CUDA stream; by default the current one of torch, else the default stream. Memory
                of torch that another stream uses is kept by `Tensor.record_stream`.

        Returns:
            The output, or a pair of it and the log-sum-exps.

        Raises:
            InvalidTensor: a tensor that does not fit. Nothing is launched then.
        """
        base_2 = is_base_2(lse_base)
        if is_compiling(q):
            is_plain = self.attention.o_dtype is None and all(_is_one(scale) for scale in (o_scale, q_scale))
            given = (out, lse, layer, stream, k_side, v_side, None if is_plain else o_scale)
            return self._run_compiled(q, k, v, given, partial, return_lse, k_scale, v_scale, base_2)
        if needs_grad(q, k, v):
            raise InvalidArgument("a tensor requires gradients, and there is no backward pass: use torch.no_grad()")
        if out is None or (lse is None and return_lse):
            check_tensor("q", q, 3)
            zero = self._leaves_rows(q, stream)
            shape, dtype = (*q.shape[:2], self.value_dim), self.attention.o_dtype
            out = empty(q, shape, dtype, zero=zero) if out is None else out
            lse = empty(q, tuple(q.shape[:2]), "float32", zero=zero) if lse is None and return_lse else lse
        k_scale = per_head(k_scale, self._kv_heads, stream)
        v_scale = per_head(v_scale, self._kv_heads, stream)
        own = (per_head(scale, 1, stream) for scale in (o_scale, q_scale))
        self.native.run(q, k, v, out, lse, layer, partial, k_scale, v_scale, stream, k_side, v_side, base_2, *own)
        return (out, lse) if return_lse else out

    def _leaves_rows(self, q: Any, stream: int | None = None) -> bool:
        """Whether a run, or a replay of it with another batch, may leave rows of the output as they are."""
        is_unknown = self._is_of_device or q.shape[0] != self.native.qo_tokens
        return self._has_capacity and (is_unknown or is_capturing(q, stream))

    def release_captured(self) -> None:
        """Lets go of what CUDA graphs captured of this plan: its memory, its kernels and parameter tensors. The graphs
        must not be replayed any more. Without this it all stays, also after the plan is gone, for as long as the
        process; `attn_rs.release_captured` is for plans that are gone."""
        self.native.release_captured()

    def _run_compiled(
        self,
        q: Any,
        k: Any,
        v: Any,
        given: Any,
        partial: bool,
        return_lse: bool,
        k_scale: Any,
        v_scale: Any,
        base_2: bool,
    ) -> Any:
        from . import _torch

        arrays = any(hasattr(scale, "__dlpack__") for scale in (k_scale, v_scale))
        if partial or arrays or any(x is not None for x in given):
            raise InvalidArgument(
                "`out`, `lse`, `layer`, `partial`, `stream`, `o_dtype`, `q_dtype`, side data and arrays of scales "
                "cannot be given under torch.compile"
            )
        if self._number is None:
            raise InvalidArgument("call `plan.compilable()` before torch.compile traces a run of the plan")
        o, lse = _torch.run_plan(q, k, v, self._number, self.value_dim, k_scale, v_scale)
        lse = lse * math.log2(math.e) if base_2 else lse
        return (o, lse) if return_lse else o

    def compilable(self) -> "Plan":
        """Gives the plan a number by which programs of `torch.compile` name it, and returns the plan."""
        from . import _torch

        if self._number is None:
            self._number = next(_numbers)
            _torch.plans[self._number] = self
        return self

    def update(self, batch: _native.Batch, *, stream: int | None = None) -> None:
        """Gives the plan another batch within its capacity, in the order of the stream.

        Raises:
            InvalidBatch: a batch beyond the capacity, or a plan without one. Nothing changes then.
        """
        self.native.update(batch, stream)
        self._is_of_device = False

    def update_on_device(self, batch: _native.DeviceBatch, *, stream: int | None = None) -> None:
        """Gives the plan a batch (`DeviceBatch`) that a kernel reads from memory of the device and plans there, in the
        order of the stream. A CUDA graph can capture it with runs: each replay then plans from what the tensors hold
        then, so they live as long as the graph. The tensors of runs then fit the largest batch of the capacity. On the
        CPU the tensors of the batch are in host memory, and are read at once. The levels of `DeviceBatch.cascade` run
        as they are; `update` may run a cascade without its levels.

        For a batch that is not sound, or beyond the capacity, later runs write nothing, and `device_status` raises. The
        first call compiles and loads the kernel, which cannot happen under a capture: make it before, or call
        `prepare_device_updates`.

        Raises:
            InvalidBatch: a plan without a capacity, tensors of contradicting lengths; on the CPU also such a batch.
            InvalidTensor: tensors of another type than int32, with gaps, or of another device.
            Unsupported: plans that only the host updates, such as those of unions and of key lists.
        """
        self.native.update_on_device(batch, stream)
        self._is_of_device = True

    def prepare_device_updates(self) -> None:
        """Compiles and loads what `update_on_device` launches, so that the first can be captured. Raises as that does
        for plans that only the host updates."""
        self.native.prepare_device_updates()

    def device_status(self, *, stream: int | None = None) -> None:
        """Raises the error of the batch that the device planned last, as `update` would have, if there is one. Waits
        for the device."""
        self.native.device_status(stream)

    def layer(
        self, variant: str, params: dict[str, Any] | None = None, scale: float | None = None
    ) -> _native.Attention:
        """The attention of another layer: the same parts with other parameters. It shares kernels and the plan."""
        return self.attention.with_parameters(variant, params, scale)

    def append(self, k: Any, v: Any, k_pool: Any, v_pool: Any, slots: Any = None, **how: Any) -> None:
        """Appends new keys and values to the pools of the plan's layout, with the transforms of its variant where keys
        are stored transformed, and encoded in its `kv_format`. As `attn_rs.append`, of whose keywords `kv_layout` and
        `attention` are the plan's."""
        append(k, v, k_pool, v_pool, slots, kv_layout=self.kv_layout, attention=self.attention, **how)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of device memory of the plan; 0 on the CPU."""
        return self.native.workspace_bytes

    def __repr__(self) -> str:
        return f"<attn_rs.Plan of {self.native.qo_tokens} queries, {self.attention!r}>"


def release_captured(device: str = "cuda") -> None:
    """Lets go of what CUDA graphs captured on a device, of all plans, appends and calls of `attention`, whether these
    are there or gone. None of the graphs may be replayed any more. `Plan.release_captured` is for one plan.

    Raises InvalidArgument for what is no device.
    """
    _native.release_captured(str(device))
