"""FlashInfer's public attention API by attn_rs: `import attn_rs.flashinfer as flashinfer`.

Names, arguments and defaults are those of FlashInfer 0.6.18, and so is what they mean: log-sum-exps are in base 2,
windows count the keys before a query's own, `plan` keeps options and `run` launches. Without effect are workspaces,
`backend` and other choices of kernels, `non_blocking` and `enable_pdl`. It runs on CUDA devices and on the CPU. What is
not possible raises `attn_rs.Unsupported` by name. `install()` gives engines the package as `flashinfer`.
"""

import functools
import sys

from .. import __version__ as __version__
from .._errors import InvalidArgument as _InvalidArgument
from . import _bindings, attention, decode, mla, pod, prefill, quantization  # noqa: F401
from .cascade import *  # noqa: F403
from .decode import *  # noqa: F403
from .mla import *  # noqa: F403
from .page import *  # noqa: F403
from .prefill import *  # noqa: F403
from .rope import *  # noqa: F403
from .sampling import *  # noqa: F403
from .sparse import *  # noqa: F403
from .utils import next_positive_power_of_2 as next_positive_power_of_2

# what is not possible can be imported, and refuses to be called
for _name, _way in {
    "cudnn_batch_decode_with_kv_cache": "plan and run a BatchDecodeWithPagedKVCacheWrapper",
    "trtllm_fmha_v2_prefill": "plan and run a BatchPrefill wrapper",
    "trtllm_ragged_attention_deepseek": "plan and run a BatchPrefillWithRaggedKVCacheWrapper",
    "xqa_batch_decode_with_kv_cache_mla": "call `trtllm_batch_decode_with_kv_cache_mla`",
    "single_decode_with_kv_cache_with_jit_module": "write Rust text, for `attn_rs.variant` and `attn_rs.Plan`",
    "single_prefill_with_kv_cache_with_jit_module": "write Rust text, for `attn_rs.variant` and `attn_rs.Plan`",
}.items():
    for _to in (decode, mla, prefill, sys.modules[__name__]):
        setattr(_to, _name, functools.partial(_bindings.refuse, _name, _way))


def install() -> None:
    """From now on, `import flashinfer` is this package, for engines that know that name. Call it before the first
    import of what uses FlashInfer. What is not here, such as norms, GEMMs and MoE, then cannot be imported."""
    other = sys.modules.get("flashinfer", sys.modules[__name__])
    if other is not sys.modules[__name__]:
        raise _InvalidArgument(f"{other} is imported already: call `attn_rs.flashinfer.install()` before")
    for name, module in [*sys.modules.items()]:
        if name == __name__ or name.startswith(f"{__name__}."):
            sys.modules["flashinfer" + name[len(__name__) :]] = module


def __getattr__(name: str) -> object:
    there = "attention, caches, rotary embeddings and sampling are here; other kernels are in FlashInfer itself"
    raise AttributeError(f"attn_rs.flashinfer has no `{name}`: {there}")
