"""KV formats as values of `--kv-cache-dtype`, where vLLM takes them from plug-ins."""

import torch

from .formats import NAMED


def register():
    from vllm.config.cache import register_kv_cache_dtype
    from vllm.v1.kv_cache_interface import KVQuantMode

    for name in NAMED:

        class Handler:
            def torch_dtype(self):
                return torch.uint8

            def is_quantized(self):
                return True

            def quant_mode(self):
                return KVQuantMode.CUSTOM

        Handler.name = name
        register_kv_cache_dtype(name)(Handler)
