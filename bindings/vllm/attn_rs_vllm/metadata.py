"""What a step knows of its batch: tensors of the device, from which the device plans."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from .plans import DECODE, PREFILL, Group


@dataclass
class Part:
    """Requests that run in one launch."""

    role: str
    #: makes the `DeviceBatch`, of which a graph captures what finds shared keys
    batch: Callable
    #: rows of the tensors of a step; without an end those of padding too
    first: int = 0
    end: int | None = None
    #: a bound of the keys of all requests; 0 where it does not matter
    keys: int = 0


@dataclass
class Metadata:
    """The batch of a step, of one group of layers."""

    num_actual_tokens: int
    slot_mapping: torch.Tensor
    parts: list[Part]
    group: Group
    causal: bool = True
    #: whether it is made for a capture, before which the same tensors run without one
    for_capture: bool = False
    #: what the engine gave
    common: object = None
    #: launches whose plans have the batch, by kind of layers and whether a CUDA graph is being captured
    _ready: dict = field(default_factory=dict)

    def launches(self, layer, query: torch.Tensor):
        """(plan, first row, end) of each launch of a layer.

        The first layer of a kind plans, on the device. Under a capture that is captured too, so that each replay plans
        from what the engine's tensors hold then, and the host does nothing in a step."""
        capturing = query.is_cuda and torch.cuda.is_current_stream_capturing()
        key = (layer.key(self.causal), capturing)
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._plan(layer, query.shape[0], capturing)
        return ready

    def _plan(self, layer, rows, capturing):
        plans = self.group.plans(layer, self.causal)
        launches = []
        for part in self.parts:
            planned = plans.of(part.role, rows if capturing or self.for_capture else 0, part.keys)
            planned.native.update_on_device(part.batch())
            planned.captured |= capturing
            launches.append((planned, part.first, part.end))
        return launches


def role_of(max_query_len: int, decode_len: int) -> str:
    """The kernel of a batch: that of decoding where no request has more queries than drafts and one."""
    return DECODE if max_query_len <= decode_len else PREFILL
