"""Metadata of a step. Tensors stay on the device: the host reads neither lengths nor pages."""

from functools import partial

import attn_rs
import numpy as np
import torch
from vllm.v1.attention.backend import AttentionCGSupport, AttentionMetadataBuilder

from . import cascade, engine
from .errors import Refused
from .metadata import Metadata, Part, role_of
from .options import of_config
from .plans import CASCADE, DECODE, PREFILL, Group


class AttnRsBuilder(AttentionMetadataBuilder[Metadata]):
    # batches of any lengths: what a step has is planned in the graph
    _cudagraph_support = AttentionCGSupport.ALWAYS
    supports_update_block_table = True

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self.options = of_config(vllm_config)
        self.invariant = engine.is_batch_invariant()
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=not self.invariant)
        self.decode_len = self.reorder_batch_threshold or 1
        self.narrow = engine.is_narrow(kv_cache_spec)
        self.alike = _runs_alike(self.options, kv_cache_spec)
        self.apart = _runs_apart(self.options, kv_cache_spec)
        self._group, self._has_cascades = None, None

    @classmethod
    def get_cudagraph_support(cls, vllm_config, kv_cache_spec):
        options = of_config(vllm_config)
        if engine.is_batch_invariant() and not _runs_alike(options, kv_cache_spec):
            # drafts run in prefill, as alone
            return AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
        if _runs_apart(options, kv_cache_spec):
            return AttentionCGSupport.UNIFORM_BATCH
        return cls._cudagraph_support

    @property
    def group(self) -> Group:
        """Made with the first batch, when the cache is there."""
        if self._group is None:
            self._group = Group(engine.limits(self))
        return self._group

    def build(self, common_prefix_len, common_attn_metadata, fast_build=False):
        m = common_attn_metadata
        if isinstance(m.causal, torch.Tensor):
            raise Refused("attn_rs takes requests that are all causal, or none; vLLM asks for both in one batch")
        if getattr(m, "rswa_prefix_lens", None) is not None:
            raise Refused("attn_rs has no windows beside a prompt that all see (R-SWA); choose FLASH_ATTN")
        return self._metadata(m, parts=self._parts(m))

    def _metadata(self, m, **of_step):
        of_step |= {"group": self.group, "causal": bool(m.causal), "common": m}
        return Metadata(m.num_actual_tokens, m.slot_mapping, **of_step)

    def _parts(self, m, for_capture=False, role=None):
        n, lens, table_of = m.num_reqs, m.seq_lens, attn_rs.DeviceBatch.block_table
        role = role or (PREFILL if self.alike else role_of(m.max_query_len, self.decode_len))
        if for_capture or role == DECODE or not self.apart:
            # replays of a graph have any rows that its tensors have
            most = None if for_capture else m.num_actual_tokens
            batch = m.query_start_loc[: n + 1], m.block_table_tensor[:n], lens[:n]
            if role == DECODE and n > 1 and self._shares():
                page = self.group.limits.page_size
                least = 1 if self.options.cascade == "always" else max(1, cascade.LEAST_KEYS // page)
                return [Part(CASCADE, partial(cascade.levels, *batch, page, least, most))]
            return [Part(role, partial(table_of, *batch, qo_tokens=most))]
        # requests that decode are the first ones (`reorder_batch_threshold`)
        starts = m.query_start_loc_cpu[: n + 1].numpy()
        longer = np.flatnonzero(np.diff(starts) > self.decode_len)
        split = int(longer[0]) if len(longer) else n
        tokens = int(starts[split])
        parts = []
        if split:
            first = m.query_start_loc[: split + 1], m.block_table_tensor[:split], lens[:split]
            parts.append(Part(DECODE, partial(table_of, *first, qo_tokens=tokens), 0, tokens))
        if split < n:
            ends = m.query_start_loc[split : n + 1]
            others = (ends - tokens if tokens else ends, m.block_table_tensor[split:n], lens[split:n])
            rows = m.num_actual_tokens - tokens
            batch = partial(table_of, *others, qo_tokens=rows)
            parts.append(Part(PREFILL, batch, tokens, None, self._keys(m, split)))
        return parts

    def _keys(self, m, first):
        """A bound of the keys of requests from `first` on, of few values."""
        bounds = getattr(m, "seq_lens_cpu_upper_bound", None)
        if bounds is None:
            keys = (m.num_reqs - first) * self.group.limits.max_len
        else:
            keys = int(bounds[first : m.num_reqs].sum())
        return max(_up(keys), 4096)

    def _shares(self):
        """Whether keys that decoding requests share are looked for."""
        # over narrow caches keys of all requests would be widened, and pages before a window are freed
        has_window = getattr(self.kv_cache_spec, "sliding_window", None) is not None
        if self.options.cascade == "off" or self.invariant or self.narrow or has_window:
            return False
        if self._has_cascades is None:
            # `always` demands the kernel, and says why there is none
            can = all(self.group.can_share(layer) for layer in engine.layers(self))
            self._has_cascades = can or self.options.cascade == "always"
        return self._has_cascades

    def build_for_cudagraph_capture(self, common_attn_metadata):
        # one graph for all is replayed with prompts too, whatever is captured
        role = PREFILL if engine.has_one_graph_for_all(self.vllm_config) else None
        parts = self._parts(common_attn_metadata, for_capture=True, role=role)
        metadata = self._metadata(common_attn_metadata, parts=parts, for_capture=True)
        # a capture can neither allocate nor compile
        for layer in engine.layers(self):
            plans = self.group.plans(layer, metadata.causal)
            for part in metadata.parts:
                layer.of_plan(plans.of(part.role, metadata.num_actual_tokens).attention, metadata.causal)
        return metadata

    def build_for_drafting(self, common_attn_metadata, draft_index):
        return self.build(0, common_attn_metadata, fast_build=True)

    def update_block_table(self, metadata, blk_table, slot_mapping):
        return self.build(0, metadata.common.replace(block_table_tensor=blk_table, slot_mapping=slot_mapping))


def _up(number: int) -> int:
    """The next power of two: few bounds, so few plans."""
    return 1 << (number - 1).bit_length()


def _runs_alike(options, spec):
    """Whether all requests run in the prefill kernel, unsplit: in batch-invariant mode a token then has the same bits
    whether it is decoded or computed anew as part of a prompt."""
    return engine.is_batch_invariant() and not (options.split_size or engine.is_narrow(spec))


def _runs_apart(options, spec):
    """Whether requests that decode have a launch of their own beside prompts: so that they have the same kernel as
    without, and that prefill widens the keys of prompts alone."""
    if _runs_alike(options, spec):
        return False
    return options.mixed == "apart" or engine.is_batch_invariant() or engine.is_narrow(spec)
