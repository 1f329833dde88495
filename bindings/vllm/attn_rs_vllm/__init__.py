"""attn-rs as an attention backend of vLLM, out of tree: `attention_config={"backend": "CUSTOM"}` chooses it.

vLLM calls `register` in each of its processes, by the entry point group `vllm.general_plugins`. What imports vLLM is in
`backend`, `builder` and `impl`; the rest is of attn-rs and torch alone.
"""

import logging

__version__ = "0.1.0"
logger = logging.getLogger(__name__)
BACKEND = "attn_rs_vllm.backend.AttnRsBackend"


def register():
    """Tells vLLM where the backend is. A version of vLLM that this package does not know is refused when the backend is
    chosen, so that other backends of it stay usable."""
    try:
        from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    except ImportError as error:
        logger.warning("attn_rs is no backend of this vLLM, which has no registry of backends: %s", error)
        return
    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
    from . import versions

    row = versions.of_installed_or_none()
    if row is not None and row.registers_dtypes:
        from . import dtypes

        dtypes.register()
