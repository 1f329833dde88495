"""What this package reads of vLLM's configuration and layers."""

import os

import torch

from .plans import DECODE, PREFILL, Limits


def is_batch_invariant() -> bool:
    """`VLLM_BATCH_INVARIANT=1`: the bits of a request depend on that request alone."""
    return os.environ.get("VLLM_BATCH_INVARIANT", "0").strip().lower() not in ("", "0", "false")


def is_narrow(spec) -> bool:
    """Whether a cache has elements of 8 bits: FP8, or bytes of a KV format."""
    dtype = getattr(spec, "dtype", None)
    return dtype is not None and dtype.itemsize == 1


def has_one_graph_for_all(config) -> bool:
    """Whether one CUDA graph runs decoding requests and prompts alike (`cudagraph_mode` `FULL`)."""
    mode = config.compilation_config.cudagraph_mode
    return mode is not None and mode.has_full_cudagraphs() and not mode.separate_routine()


def layers(builder):
    """The layers of a builder's group, as `layer.Layer`."""
    return [module.impl.layer for module in _modules(builder).values()]


def _modules(builder):
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    found = get_layers_from_vllm_config(builder.vllm_config, AttentionLayerBase, builder.layer_names)
    return {name: module for name, module in found.items() if hasattr(getattr(module, "impl", None), "layer")}


def limits(builder) -> Limits:
    """What bounds the batches of a builder."""
    config, spec = builder.vllm_config, builder.kv_cache_spec
    max_len = config.model_config.max_model_len
    return Limits(
        page_size=spec.block_size,
        num_pages=_pages(builder),
        max_len=max_len,
        max_requests=config.scheduler_config.max_num_seqs,
        max_tokens=config.scheduler_config.max_num_batched_tokens,
        decode_len=builder.decode_len,
        dtype=str(config.model_config.dtype).removeprefix("torch."),
        device=_device(builder.device),
        split_sizes=split_sizes(max_len, builder.options.split_size) if builder.invariant else (),
    )


def split_sizes(max_len: int, given: int) -> tuple:
    """Keys of a part of a request in batch-invariant mode. Plans have room for the parts of all requests, so long texts
    have about eight; a prompt has tiles enough and is not split."""
    return ((DECODE, given or max(1024, max_len // 8 // 128 * 128)), (PREFILL, 2**29))


def _pages(builder) -> int:
    """Pages of the pool, by the cache of a layer; of the configuration where layers have none yet."""
    for module in _modules(builder).values():
        cache = module.kv_cache
        cache = cache[0] if isinstance(cache, (list, tuple)) else cache
        if isinstance(cache, torch.Tensor) and cache.dim() == 4:
            return cache.shape[0]
    return builder.vllm_config.cache_config.num_gpu_blocks


def _device(device) -> str:
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return f"cuda:{torch.cuda.current_device()}"
    return str(device)
