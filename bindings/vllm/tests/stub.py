"""Stand-ins for classes of vLLM 0.26: what the package reads of them, and no more."""

import contextlib
import dataclasses
import enum
import sys
import types
from importlib import metadata
from types import SimpleNamespace

import torch


class AttentionBackend:
    pass


class AttentionImpl:
    def __new__(cls, *_, **__):
        self = super().__new__(cls)
        self.dcp_world_size = self.pcp_world_size = 1
        return self


class AttentionCGSupport(enum.Enum):
    ALWAYS, UNIFORM_BATCH, UNIFORM_SINGLE_TOKEN_DECODE, NEVER = 3, 2, 1, 0


class AttentionMetadataBuilder:
    def __class_getitem__(cls, _):
        return cls

    def __init__(self, kv_cache_spec, layer_names, vllm_config, device):
        self.kv_cache_spec, self.layer_names = kv_cache_spec, layer_names
        self.vllm_config, self.device = vllm_config, device

    def _init_reorder_batch_threshold(self, threshold=1, supports_spec_as_decode=False):
        speculative = self.vllm_config.speculative_config
        drafts = speculative.num_speculative_tokens if speculative and supports_spec_as_decode else 0
        self.reorder_batch_threshold = max(threshold, 1 + drafts)


class AttentionType(str, enum.Enum):
    DECODER, ENCODER_ONLY = "decoder", "encoder_only"


class MultipleOf:
    def __init__(self, base):
        self.base = base


@dataclasses.dataclass
class CommonAttentionMetadata:
    query_start_loc: torch.Tensor
    query_start_loc_cpu: torch.Tensor
    seq_lens: torch.Tensor
    num_reqs: int
    num_actual_tokens: int
    max_query_len: int
    max_seq_len: int
    block_table_tensor: torch.Tensor
    slot_mapping: torch.Tensor
    causal: bool = True
    seq_lens_cpu_upper_bound: torch.Tensor | None = None

    def replace(self, **changed):
        return dataclasses.replace(self, **changed)


@dataclasses.dataclass
class Mode:
    """`FULL_AND_PIECEWISE`, or `FULL`."""

    separate: bool

    def has_full_cudagraphs(self):
        return True

    def separate_routine(self):
        return self.separate


class Attention:
    """A layer, of which vLLM asks the spec of its cache."""

    def __init__(self, impl, spec):
        self.impl, self.spec = impl, spec

    def get_kv_cache_spec(self, _):
        return self.spec


@dataclasses.dataclass(frozen=True)
class Spec:
    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    dtype: torch.dtype

    @property
    def page_size_bytes(self):
        return self.block_size * self.num_kv_heads * (self.head_size + self.head_size_v) * self.dtype.itemsize


_REGISTERED = {}
_CONFIG = []


def _modules():
    registry = {
        "AttentionBackendEnum": SimpleNamespace(CUSTOM="CUSTOM"),
        "register_backend": _REGISTERED.__setitem__,
    }
    layers = lambda config, _, names: {name: config.layers[name] for name in names}  # noqa: E731
    yield "vllm", {}
    yield "vllm.v1", {}
    yield "vllm.v1.attention", {}
    yield "vllm.v1.attention.backends", {}
    yield "vllm.v1.attention.backends.registry", registry
    classes = (AttentionBackend, AttentionImpl, AttentionCGSupport, AttentionMetadataBuilder, AttentionType, MultipleOf)
    yield "vllm.v1.attention.backend", {of.__name__: of for of in classes}
    yield "vllm.config", {
        "get_layers_from_vllm_config": layers,
        "get_current_vllm_config": lambda: _CONFIG[-1],
    }
    yield "vllm.model_executor", {}
    yield "vllm.model_executor.layers", {}
    yield "vllm.model_executor.layers.attention_layer_base", {"AttentionLayerBase": object}
    yield "vllm.model_executor.layers.attention", {"Attention": type("Attention", (Attention,), {})}


@contextlib.contextmanager
def installed(version):
    """As if a version of vLLM were installed."""
    before, real = dict(sys.modules), metadata.version
    for name, content in _modules():
        module = types.ModuleType(name)
        module.__path__ = []
        module.__dict__.update(content)
        sys.modules[name] = module
    for name in [name for name in sys.modules if name.startswith("attn_rs_vllm")]:
        del sys.modules[name]
    metadata.version = lambda name: version if name == "vllm" else real(name)
    _REGISTERED.clear()
    try:
        yield _REGISTERED
    finally:
        metadata.version = real
        for name in set(sys.modules) - set(before):
            if name.startswith(("vllm", "attn_rs_vllm")):
                del sys.modules[name]


class Engine:
    """A pool, layers and a builder, as vLLM makes them."""

    PAGE, PAGES, MAX_LEN, DIM = 16, 64, 256, 64

    def __init__(self, device="cpu"):
        self.device, self.dtype = torch.device(device), torch.bfloat16 if device == "cuda" else torch.float32
        #: of outputs, against attention in float32
        self.close = {"atol": 2e-2, "rtol": 2e-2} if device == "cuda" else {"atol": 2e-5, "rtol": 1e-4}
        self.config = SimpleNamespace(
            model_config=SimpleNamespace(max_model_len=self.MAX_LEN, dtype=self.dtype),
            scheduler_config=SimpleNamespace(max_num_seqs=8, max_num_batched_tokens=128),
            cache_config=SimpleNamespace(num_gpu_blocks=self.PAGES),
            speculative_config=None,
            additional_config={},
            compilation_config=SimpleNamespace(cudagraph_mode=Mode(True)),
            layers={},
        )
        _CONFIG[:] = [self.config]

    def layer(self, name="layer.0", heads=4, kv_heads=2, cache_dtype="auto", **how):
        """A layer with an empty cache, by its spec."""
        from attn_rs_vllm.backend import AttnRsBackend
        from attn_rs_vllm.impl import AttnRsImpl
        from vllm.model_executor.layers.attention import Attention

        impl = AttnRsImpl(heads, self.DIM, self.DIM**-0.5, kv_heads, kv_cache_dtype=cache_dtype, **how)
        stored = torch.uint8 if cache_dtype.startswith("fp8") else self.dtype
        module = Attention(impl, Spec(self.PAGE, kv_heads, self.DIM, self.DIM, stored))
        spec = module.get_kv_cache_spec(self.config)
        shape = AttnRsBackend.get_kv_cache_shape(self.PAGES, spec.block_size, kv_heads, spec.head_size)
        order = AttnRsBackend.get_kv_cache_stride_order()
        pool = torch.zeros([shape[i] for i in order], dtype=spec.dtype, device=self.device)
        assert pool.numel() * pool.itemsize == self.PAGES * spec.page_size_bytes
        module.kv_cache = pool.permute([order.index(i) for i in range(4)])
        module._k_scale_float = module._v_scale_float = 1.0
        self.config.layers[name] = module
        return module

    def builder(self, *names):
        from attn_rs_vllm.builder import AttnRsBuilder

        names = list(names or self.config.layers)
        spec = self.config.layers[names[0]].get_kv_cache_spec(self.config)
        return AttnRsBuilder(spec, names, self.config, self.device)

    def random(self, *shape):
        return torch.randn(shape, device=self.device).to(self.dtype)

    def common(self, queries, keys, tables, padded_requests=0, padded_tokens=0, **how):
        """What vLLM gives a builder: requests of padding have no queries and no keys, and rows of their own."""
        requests = len(queries) + padded_requests
        starts = torch.zeros(requests + 1, dtype=torch.int32)
        starts[1 : len(queries) + 1] = torch.tensor(queries).cumsum(0)
        starts[len(queries) + 1 :] = starts[len(queries)]
        lens = torch.zeros(requests, dtype=torch.int32)
        lens[: len(keys)] = torch.tensor(keys)
        table = torch.full((requests, self.MAX_LEN // self.PAGE), -1, dtype=torch.int32)
        slots = torch.full((sum(queries) + padded_tokens,), -1, dtype=torch.int64)
        row = 0
        for request, pages in enumerate(tables):
            table[request, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
            for position in range(keys[request] - queries[request], keys[request]):
                slots[row] = pages[position // self.PAGE] * self.PAGE + position % self.PAGE
                row += 1
        tokens = sum(queries) + padded_tokens
        starts_there, lens_there, table, slots = (x.to(self.device) for x in (starts, lens, table, slots))
        return CommonAttentionMetadata(
            starts_there, starts, lens_there, requests, tokens, max(queries), max(keys), table, slots,
            seq_lens_cpu_upper_bound=lens.clone(), **how,
        )  # fmt: skip


def reference(query, keys, values, scale, keep=None, cap=None, bias=None, sink=None):
    """Attention of one request by its definition, in float32; the last query is at the last key."""
    group = query.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(group, 1).float() for x in (keys, values))
    logits = torch.einsum("qhd,khd->hqk", query.float(), keys) * scale
    logits = cap * torch.tanh(logits / cap) if cap else logits
    at_query = torch.arange(len(query), device=query.device)[:, None] + len(keys) - len(query)
    at_key = torch.arange(len(keys), device=query.device)[None]
    if bias is not None:
        logits = logits + bias[:, None, None] * (at_key - at_query)
    seen = at_key <= at_query if keep is None else keep(at_query, at_key)
    logits = logits.masked_fill(~seen, -torch.inf)
    if sink is not None:
        logits = torch.cat([logits, sink[:, None, None].expand(-1, len(query), 1)], 2)
    weights = torch.softmax(logits, 2)[..., : len(keys)]
    return torch.einsum("hqk,khd->qhd", weights, values)
