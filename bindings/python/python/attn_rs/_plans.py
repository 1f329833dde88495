"""Plans of several attentions over one batch after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from . import _native
from ._arrays import is_capturing, listed, per_head
from ._errors import Unsupported

if TYPE_CHECKING:
    from torch import Tensor


class AttentionKey(NamedTuple):
    """What an attention is made of, beside parameters and masks."""

    variant: str
    scale: float | None
    device: str
    qo_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    dtype: str
    kv_dtype: str
    kv_format: str | None = None
    fixed_split_size: int | None = None
    values_in_keys: bool = False
    stores_transformed: bool = False
    is_masked: bool = False
    o_dtype: str | None = None
    q_dtype: str | None = None

    def attention(self, params: dict[str, Any] | None = None, mask: Any = None) -> _native.Attention:
        return _native.Attention(
            self.variant,
            params or None,
            *self[2:9],
            scale=self.scale,
            kv_format=self.kv_format,
            fixed_split_size=self.fixed_split_size,
            values_in_keys=self.values_in_keys,
            stores_transformed=self.stores_transformed,
            mask=mask if self.is_masked else None,
            o_dtype=self.o_dtype,
            q_dtype=self.q_dtype,
        )


class Batches(Protocol):
    """Where plans find the batch of the moment."""

    def host_batch(self, pages: int) -> _native.Batch:
        """The batch, over a pool of so many pages."""
        ...

    def device_batch(self) -> _native.DeviceBatch | None:
        """The batch in memory of the device, if plans may be made there."""
        ...

    def capacity(self, pages: int) -> _native.Capacity:
        """The largest batch, in whose plans later batches take the place of earlier ones."""
        ...


@dataclass
class Planned:
    """An attention and its plan, which has the batch of this version, over a pool of so many pages."""

    attention: _native.Attention
    plan: _native.Plan
    version: int
    pages: int
    on_device: bool = True


class LastRun(NamedTuple):
    """What a run without options of its own launched, for the next one like it; or nothing."""

    plan: _native.Plan | None = None
    dtype: Any = None
    kv_dtype: Any = None
    lse_dtype: Any = None
    value_dim: int = 0
    lse_base_2: bool = True

    def again(
        self, q: "Tensor", kv: "tuple[Tensor, Tensor]", out: "Tensor | None", lse: Any, return_lse: bool, *others: Any
    ) -> "Tensor | tuple[Tensor, Tensor] | None":
        """Runs it over other tensors of PyTorch. None, if their types or any other argument ask for another run."""
        if self.plan is None or others.count(None) < len(others):
            return None
        k, v = kv
        if q.dtype is not self.dtype or k.dtype is not self.kv_dtype:
            return None
        if out is None:
            out = q.new_empty((*q.shape[:2], self.value_dim))
        elif out.dtype is not self.dtype:
            return None
        if return_lse and lse is None:
            lse = q.new_empty(q.shape[:2], dtype=self.lse_dtype)
        self.plan.run(q, k, v, out, lse, lse_base_2=self.lse_base_2)
        return (out, lse) if return_lse else out


class Plans:
    """The plans of a batch, one for each attention that ran over it."""

    def __init__(self, batches: Batches, kv_layout: str, has_capacity: bool = True) -> None:
        self._batches, self._kv_layout, self._has_capacity = batches, kv_layout, has_capacity
        self._planned: dict[AttentionKey, Planned] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._planned)

    def __contains__(self, key: AttentionKey) -> bool:
        return key in self._planned

    def clear(self) -> None:
        self._planned.clear()

    def new_batch(self) -> None:
        """The batch is another. Plans with a capacity are updated to it, others are made anew when they run."""
        self._version += 1
        for planned in self._planned.values():
            if planned.plan.has_capacity:
                self._update(planned)

    def get(self, key: AttentionKey, make: Callable[[], _native.Attention], pages: int, like: Any = None) -> Planned:
        """The plan of an attention, which `make` makes once. Under the capture of a CUDA graph by the stream of `like`
        it is there already."""
        planned = self._planned.get(key)
        if planned is not None and planned.version == self._version:
            return planned
        if like is not None and is_capturing(like):
            raise Unsupported(
                "a CUDA graph captures a run that was not planned, with other options or shapes than runs had before: "
                "make the same run once before the capture"
            )
        if planned is not None and planned.plan.has_capacity:
            self._update(planned)
            return planned
        attention, reuse = (make(), None) if planned is None else (planned.attention, planned.plan)
        capacity = self._batches.capacity(pages) if self._has_capacity else None
        plan = _native.Plan(attention, self._batches.host_batch(pages), self._kv_layout, capacity, [], reuse)
        self._planned[key] = planned = Planned(attention, plan, self._version, pages)
        if capacity is not None and self._batches.device_batch() is not None:
            try:
                # so that a CUDA graph can capture the first update
                plan.prepare_device_updates()
            except Unsupported:
                planned.on_device = False
        if len(self._planned) > 16 and capacity is None:
            self._planned.pop(next(iter(self._planned)))
        return planned

    def run(
        self,
        key: AttentionKey,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        lse: Any = None,
        *,
        params: dict[str, Any],
        tensors: dict[str, Any],
        mask: Any = None,
        k_scale: Any = 1.0,
        v_scale: Any = 1.0,
        **how: Any,
    ) -> _native.Plan:
        """Runs an attention, and returns its plan. `tensors` are parameters beside `params`, of which each run has
        others."""

        def make() -> _native.Attention:
            return key.attention({**params, **{name: listed(name, values) for name, values in tensors.items()}}, mask)

        planned = self.get(key, make, max(k.shape[0], 1), q)
        for name, values in tensors.items():
            planned.attention.set_tensor(name, values)
        scales = {"k_scale": per_head(k_scale, key.kv_heads, None), "v_scale": per_head(v_scale, key.kv_heads, None)}
        planned.plan.run(q, k, v, out, lse, **scales, **how)
        return planned.plan

    def _update(self, planned: Planned) -> None:
        batch = self._batches.device_batch() if planned.on_device else None
        if batch is not None:
            try:
                planned.plan.update_on_device(batch)
            except Unsupported:
                batch, planned.on_device = None, False
        if batch is None:
            planned.plan.update(self._batches.host_batch(planned.pages))
        planned.version = self._version
