"""The backend that vLLM chooses by name, with what it says of itself."""

import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType, MultipleOf

from . import kinds, specs, versions
from .builder import AttnRsBuilder
from .formats import FP8, NAMED, PLAIN, Storage
from .impl import AttnRsImpl

VERSION = versions.of_installed()


class AttnRsBackend(AttentionBackend):
    supported_dtypes = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes = [*PLAIN, *FP8, *(NAMED if VERSION.registers_dtypes else ())]
    forward_includes_kv_cache_update = False

    @staticmethod
    def get_name():
        return "CUSTOM"

    @staticmethod
    def get_impl_cls():
        return AttnRsImpl

    @staticmethod
    def get_builder_cls():
        return AttnRsBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec=None):
        # pages of fewer keys are read as well, and slowly
        return [MultipleOf(16)]

    @classmethod
    def supports_sink(cls):
        return True

    @classmethod
    def supports_sliding_window(cls):
        return True

    @classmethod
    def supports_non_causal(cls):
        return True

    @classmethod
    def supports_batch_invariance(cls):
        return True

    @classmethod
    def supports_attn_type(cls, attn_type):
        return attn_type == AttentionType.DECODER

    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major >= 8

    @classmethod
    def supports_combination(cls, head_size, dtype, kv_cache_dtype, *others, **named):
        """Why attn_rs does not run heads and types, in its words."""
        try:
            storage = Storage.of(kv_cache_dtype or "auto", "")
        except ValueError as error:
            return str(error)
        device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
        dtype = str(dtype).removeprefix("torch.")
        return kinds.refusal(head_size, dtype, storage.kv_dtype, storage.kv_format, device)


def _shape(num_blocks, block_size, num_kv_heads, head_size, cache_dtype_str="auto"):
    # keys and values of a slot side by side
    return (num_blocks, num_kv_heads, block_size, 2 * head_size)


def _stride_order(include_num_layers_dimension=False):
    # rows of a head one after the other
    return (1, 0, 2, 3, 4) if include_num_layers_dimension else (0, 1, 2, 3)


def _layouts(cls):
    from vllm.v1.kv_cache_layout import KVCacheLayout

    # any strides are read; rows of a head one after the other are the fastest
    return (KVCacheLayout.LBHNC, KVCacheLayout.LBNHC)


def _customized(cls, spec):
    return specs.of_layers(spec)


if VERSION.has_layouts:
    AttnRsBackend.supported_kv_cache_layouts = classmethod(_layouts)
    AttnRsBackend.customize_spec = classmethod(_customized)
else:
    AttnRsBackend.get_kv_cache_shape = staticmethod(_shape)
    AttnRsBackend.get_kv_cache_stride_order = staticmethod(_stride_order)
