"""The implementation of a layer."""

from vllm.v1.attention.backend import AttentionImpl, AttentionType

from . import specs, versions
from .errors import Refused
from .layer import Layer
from .options import of_config


class AttnRsImpl(AttentionImpl):
    """Runs the plans of a step's metadata over the cache of a layer."""

    supports_dcp = False

    def __init__(
        self,
        num_heads,
        head_size,
        scale,
        num_kv_heads=None,
        alibi_slopes=None,
        sliding_window=None,
        kv_cache_dtype="auto",
        logits_soft_cap=None,
        attn_type=AttentionType.DECODER,
        kv_sharing_target_layer_name=None,
        sinks=None,
        **others,
    ):
        if given := [name for name, value in others.items() if value not in (None, False)]:
            raise Refused(f"attn_rs has no {', '.join(given)} of a layer; choose another attention backend")
        if attn_type != AttentionType.DECODER:
            raise Refused(f"attn_rs runs attention over a cache of the decoder, and not of the type {attn_type}")
        if getattr(self, "dcp_world_size", 1) > 1 or getattr(self, "pcp_world_size", 1) > 1:
            raise Refused("attn_rs does not split one request's keys over devices in vLLM: use tensor parallelism")
        from vllm.config import get_current_vllm_config

        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        options = of_config(get_current_vllm_config())
        self.layer = Layer(
            num_heads,
            head_size,
            scale,
            self.num_kv_heads,
            options,
            alibi_slopes=alibi_slopes,
            sliding_window=sliding_window,
            kv_cache_dtype=kv_cache_dtype,
            logits_soft_cap=logits_soft_cap,
            sinks=sinks,
        )
        self._count_bytes(options)

    def _count_bytes(self, options):
        specs.made(self.layer.storage, options.kv_format)
        if self.layer.storage.kv_format is not None and not versions.of_installed().has_layouts:
            from vllm.model_executor.layers.attention import Attention

            specs.wrap(Attention)

    def process_weights_after_loading(self, act_dtype):
        self.layer.forget()

    def _scales(self, layer):
        if self.layer.storage.kv_dtype is None or self.layer.storage.kv_format is not None:
            return 1.0, 1.0
        return layer._k_scale_float, layer._v_scale_float

    def do_kv_cache_update(self, layer, key, value, kv_cache, slot_mapping):
        self.layer.append(key, value, kv_cache, slot_mapping, *self._scales(layer))

    def forward(
        self,
        layer,
        query,
        key,
        value,
        kv_cache,
        attn_metadata,
        output,
        output_scale=None,
        output_block_scale=None,
    ):
        if output_scale is not None or output_block_scale is not None:
            raise Refused("attn_rs writes outputs of the type of queries: switch off the fusion of quantised outputs")
        if attn_metadata is None:
            # memory is being measured: no batch, no cache
            return output.fill_(0)
        shape = (-1, self.num_heads, self.head_size)
        q, o = (x if x.dim() == 3 else x.view(shape) for x in (query, output))
        self.layer.run(attn_metadata, q, kv_cache, o, *self._scales(layer))
        return output
