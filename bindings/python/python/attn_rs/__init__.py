"""Attention variants by name, on tensors of torch and numpy: any variant, any KV layout, on GPUs and CPUs.

A variant is an expression over named parts, such as `causal + soft_cap(cap=30)`; `variants()` lists the parts.

- `attention(q, k, v, variant)` computes one call, and plans by itself.
- `paged_attention(q, k_pool, v_pool, block_table, kv_lens, variant)` does so over a paged cache.
- `variant(rust)` registers variants of your own, written as Rust text.
- `sparse` makes block-sparse variants of matrices and lists of blocks.
- `Plan(batch, variant, ..)` plans a ragged or paged batch once; `plan.run(q, k, v)` only launches, also in CUDA graphs.
- `parallel` spreads keys, or the queries of prompts, over several devices.
- `ops` merge states, gather, copy and swap pages; `sampling` draws tokens and verifies drafts; `indexer` chooses keys.
- `attn_rs.transformers.register()` makes `attn_implementation="attn_rs"` known to Transformers, and
  `attn_rs.torch_sdpa.register()` makes `attn_rs` a flash attention of `torch.nn.attention`.

Torch is imported only where it is used. Tensors are never copied unless a docstring says so. The forward pass alone is
computed: a backward pass through it raises.
"""

from . import indexer, ops, parallel, sampling, sparse
from ._append import append
from ._attention import attention, clear_cache
from ._costs import load_costs
from ._errors import (
    AttnError,
    CudaFailure,
    InternalError,
    InvalidArgument,
    InvalidBatch,
    InvalidTensor,
    InvalidVariant,
    NoDevice,
    Unsupported,
)
from ._native import Attention, Batch, Capacity, DeviceBatch, __version__, check, describe, variants
from ._paged import paged_attention
from ._plan import Plan, release_captured
from ._variants import variant

__all__ = [
    "Attention",
    "AttnError",
    "Batch",
    "Capacity",
    "CudaFailure",
    "DeviceBatch",
    "InternalError",
    "InvalidArgument",
    "InvalidBatch",
    "InvalidTensor",
    "InvalidVariant",
    "NoDevice",
    "Plan",
    "Unsupported",
    "__version__",
    "append",
    "attention",
    "check",
    "clear_cache",
    "describe",
    "indexer",
    "load_costs",
    "ops",
    "paged_attention",
    "parallel",
    "release_captured",
    "sampling",
    "sparse",
    "variant",
    "variants",
]
