"""Pages of KV formats: vLLM counts the bytes of a page by the spec of a layer."""

from dataclasses import replace

import torch

from .formats import Record

#: the formats of layers that were made, and whether an option asks for them in all layers
_made = set()


def made(storage, option: str):
    """Remembers the format of a layer, of which hooks of vLLM know nothing."""
    if storage.kv_format is not None:
        _made.add((storage.kv_format, bool(option)))


def of_format(spec, kv_format: str):
    """The spec of a layer whose slots are records of a format."""
    half = Record.of(kv_format, spec.head_size).bytes // 2
    return replace(spec, dtype=torch.uint8, head_size=half, head_size_v=half)


def of_layers(spec):
    """The spec of a layer, where the format is that of all layers, or of those whose cache has a type of bytes."""
    for kv_format, in_all in _made:
        if in_all or spec.dtype == torch.uint8:
            return of_format(spec, kv_format)
    return spec


def wrap(attention_class):
    """Makes layers of vLLM 0.26 count the bytes of records: there is no hook for their specs."""
    if getattr(attention_class, "_has_attn_rs_specs", False):
        return
    of_vllm = attention_class.get_kv_cache_spec

    def get_kv_cache_spec(self, vllm_config):
        spec = of_vllm(self, vllm_config)
        storage = getattr(getattr(self.impl, "layer", None), "storage", None)
        return of_format(spec, storage.kv_format) if storage is not None and storage.kv_format else spec

    attention_class.get_kv_cache_spec = get_kv_cache_spec
    attention_class._has_attn_rs_specs = True
