"""Plans of a group of layers, kept by the size of the tensors that they run on."""

import logging
from collections import OrderedDict
from dataclasses import dataclass

import attn_rs

from .cascade import LEVELS

logger = logging.getLogger(__name__)
#: plans that no CUDA graph captured, of one kind of layers; in batch-invariant mode each has room for many parts
MOST_PLANS, MOST_INVARIANT_PLANS = 12, 3
DECODE, PREFILL, CASCADE = "decode", "prefill", "mixed"


@dataclass(frozen=True)
class Limits:
    """What bounds every batch of an engine."""

    page_size: int
    num_pages: int
    #: tokens of one request
    max_len: int
    #: requests of a step
    max_requests: int
    #: tokens of a step
    max_tokens: int
    #: queries of a request that decodes, drafts included
    decode_len: int
    #: name of the type of queries
    dtype: str
    device: str
    #: keys of a part of a request, by role, in batch-invariant mode
    split_sizes: tuple = ()

    def split_size(self, role):
        return dict(self.split_sizes).get(role)


class Planned:
    """A plan of a role."""

    __slots__ = ("attention", "captured", "native", "plan", "role")

    def __init__(self, plan, role):
        self.plan, self.native, self.attention, self.role = plan, plan.native, plan.attention, role
        # a CUDA graph has its addresses: it is never given up
        self.captured = False


class Plans:
    """The plans of layers of one kind. A capture depends on the capacity of a plan alone, and tensors have the rows of
    that: so there is a plan for each number of rows that is captured, and one for steps that are not, whose batches
    have a bound of their rows."""

    def __init__(self, kind, params, limits: Limits):
        self.kind, self.params, self.limits = kind, params, limits
        self._attentions, self._plans = {}, OrderedDict()

    def attention(self, role):
        """The attention of a role, of which those of other layers are made."""
        attention = self._attentions.get(role)
        if attention is None:
            limits = self.limits
            split_size = limits.split_size(role)
            attention = self.kind.attention(self.params, limits.device, limits.dtype, role, split_size)
            self._attentions[role] = attention
        return attention

    def of(self, role, rows: int = 0, keys: int = 0) -> Planned:
        """The plan for tensors of `rows` rows, of requests with at most `keys` keys in all, where these are given.
        Making one compiles kernels that are not cached, and allocates."""
        # prefill widens keys of narrow caches, and has room for all of them; elsewhere a bound saves nothing
        keys = keys if role == PREFILL and self.kind.is_narrow else 0
        key = (role, rows, keys)
        planned = self._plans.get(key)
        if planned is None:
            planned = self._plans[key] = self._make(*key)
        elif not planned.captured:
            self._plans.move_to_end(key)
        return planned

    def capacity(self, role, rows: int, keys: int):
        limits = self.limits
        decode_rows = limits.max_requests * limits.decode_len
        rows = rows or (limits.max_tokens if role == PREFILL else decode_rows)
        qo_len = rows if role == PREFILL else min(limits.decode_len, rows)
        requests = min(rows, limits.max_requests)
        return attn_rs.Capacity(
            requests,
            # coordinates are below 2^30
            keys or min(requests * limits.max_len, 2**30 - 1),
            qo_tokens=rows,
            qo_len=qo_len,
            page_size=limits.page_size,
            num_pages=limits.num_pages,
            levels=LEVELS if role == CASCADE else 1,
        )

    def _make(self, role, *bounds) -> Planned:
        pages = {"page_size": self.limits.page_size, "num_pages": self.limits.num_pages}
        one = attn_rs.Batch.block_table([0, 1], [[0]], [1], **pages)
        plan = attn_rs.Plan(
            one,
            attention=self.attention(role),
            kv_layout="HND",
            capacity=self.capacity(role, *bounds),
            reuse=self._oldest(role),
        )
        plan.prepare_device_updates()
        return Planned(plan, role)

    def _oldest(self, role):
        """A plan of the role that is not needed any more, if there are many: its memory becomes that of another."""
        free = [key for key, planned in self._plans.items() if not planned.captured]
        if len(free) < (MOST_INVARIANT_PLANS if self.limits.split_sizes else MOST_PLANS):
            return None
        return next((self._plans.pop(key).plan for key in free if key[0] == role), None)


class Group:
    """The plans of layers that share a block table, by their kinds."""

    def __init__(self, limits: Limits):
        self.limits, self._plans = limits, {}

    def plans(self, layer, causal: bool) -> Plans:
        key = layer.key(causal)
        plans = self._plans.get(key)
        if plans is None:
            plans = self._plans[key] = Plans(layer.kind(causal), layer.params(), self.limits)
        return plans

    def can_share(self, layer) -> bool:
        """Whether a layer's variant runs in the kernel of cascades. A plan of two rows is made, of which graphs have
        need too."""
        try:
            self.plans(layer, True).of(CASCADE, 2)
        except attn_rs.AttnError as refused:
            logger.info("attn_rs looks for no shared pages: %s", refused)
            return False
        return True
