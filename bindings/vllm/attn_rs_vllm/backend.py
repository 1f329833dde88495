"""The backend that vLLM chooses by name, with what it says of itself."""

import torch
from vllm.v1.attention.backend import AttentionBackend, AttentionType, MultipleOf

from . import kinds, versions
from .builder import AttnRsBuilder
from .formats import FP8, NAMED, PLAIN, Record, Storage
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
    def get_supported_kernel_block_sizes(*_):
        return [MultipleOf(1)]

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


if VERSION.has_layouts:

    def supported_kv_cache_layouts(cls):
        from vllm.v1.kv_cache_layout import KVCacheLayout

        # any strides are read; rows of a head one after the other are the fastest
        return (KVCacheLayout.LBHNC, KVCacheLayout.LBNHC)

    AttnRsBackend.supported_kv_cache_layouts = classmethod(supported_kv_cache_layouts)
