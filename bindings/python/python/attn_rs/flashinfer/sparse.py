"""`flashinfer.sparse`: attention over blocks of keys. Without effect are the workspace, `backend`, `non_blocking`,
`use_fp16_qk_reduction` and `enable_pdl`. Plans read arrays on the host."""

from .. import _native
from ._bindings import FP8, TAIL, Dtype, Maybe, Options, Tensor, host, packed, refuse_given
from ._wrapper import Result, Wrapper
from .utils import canonicalize_torch_dtype

_CAUSAL = "FlashInfer counts gathered keys: give blocks, and a `mask` of those on the diagonal"

__all__ = ["BlockSparseAttentionWrapper", "VariableBlockSparseAttentionWrapper"]


class BlockSparseAttentionWrapper(Wrapper):
    """Blocks of R queries and C keys, of which each row of blocks names its columns (BSR)."""

    _forward = "q k v scale_q scale_k scale_v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def __init__(self, float_workspace_buffer: Tensor, backend: str = "auto") -> None:
        super().__init__(float_workspace_buffer, "NHD", False, backend)

    def plan(
        self, indptr: Tensor, indices: Tensor, M: int, N: int, R: int, C: int, num_qo_heads: int, num_kv_heads: int,
        head_dim: int, mask: Maybe = None, packed_mask: Maybe = None, causal: bool = False,
        pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False, logits_soft_cap: float | None = None,
        sm_scale: float | None = None, rope_scale: float | None = None, rope_theta: float | None = None,
        q_data_type: Dtype = "float16", kv_data_type: Dtype | None = None, o_data_type: Dtype = "float16",
        non_blocking: bool = True, block_mask: Maybe = None,
    ) -> None:  # fmt: skip
        """`mask`: (blocks, R, C) of the blocks that are named."""
        refuse_given("name the blocks by `indptr` and `indices`", block_mask=block_mask)
        refuse_given(_CAUSAL, causal=causal)
        ends = host(indptr)
        bits = packed(None, packed_mask, ends.diff() * R * C)
        seen = mask.bool().cpu() if mask is not None else bits
        part, params = _native.sparse_bsr([[(ends, host(indices), seen)]], (R, C), [-(-N // C)])
        options = Options(False, -1, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
        q_dtype, heads = canonicalize_torch_dtype(q_data_type), (num_qo_heads, num_kv_heads, head_dim, head_dim)
        self._keep(heads, options, (q_dtype, kv_data_type, o_data_type if q_dtype in FP8 else q_dtype))
        batch = _native.Batch.ragged([0, M], [0, N])
        self._set_batch(lambda _: batch, mask_part=part, params=params)

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, scale_q: Maybe = None, scale_k: Maybe = None, scale_v: Maybe = None,
        out: Maybe = None, lse: Maybe = None, return_lse: bool = False, enable_pdl: bool | None = None,
    ) -> Result:  # fmt: skip
        scales = () if scale_q is None else (scale_q, scale_k, scale_v)
        return self._launch(q, k, v, scales, out=out, lse=lse, return_lse=return_lse)


class VariableBlockSparseAttentionWrapper(Wrapper):
    """Blocks of any sizes, by KV head. Queries, keys, values and outputs are (heads, tokens, head dim)."""

    _forward = "q k v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def __init__(self, float_workspace_buffer: Tensor, backend: str = "auto") -> None:
        super().__init__(float_workspace_buffer, "NHD", False, backend)

    def plan(
        self, block_mask_map: Tensor, block_row_sz: Tensor, block_col_sz: Tensor, num_qo_heads: int,
        num_kv_heads: int, head_dim: int, causal: bool = False, pos_encoding_mode: str = "NONE",
        use_fp16_qk_reduction: bool = False, logits_soft_cap: float | None = None, sm_scale: float | None = None,
        rope_scale: float | None = None, rope_theta: float | None = None, non_blocking: bool = True,
        q_data_type: Dtype = "float16", kv_data_type: Dtype | None = None,
    ) -> None:  # fmt: skip
        """`block_mask_map`: (KV heads, rows, columns)."""
        refuse_given(_CAUSAL, causal=causal)
        rows, columns = host(block_row_sz), host(block_col_sz)
        block = max(64 * num_kv_heads // num_qo_heads, 1), 32
        part = _native.sparse_variable_blocks(block_mask_map.bool().cpu(), rows, columns, block)
        options = Options(False, -1, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
        heads = num_qo_heads, num_kv_heads, head_dim, head_dim
        self._keep(heads, options, (q_data_type, kv_data_type, None))
        batch = _native.Batch.ragged([0, int(rows[0].sum())], [0, int(columns[0].sum())])
        self._set_batch(lambda _: batch, mask_part=part[0], params=part[1])

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, out: Maybe = None, lse: Maybe = None, return_lse: bool = False,
        enable_pdl: bool | None = None,
    ) -> Result:  # fmt: skip
        """Launches on views."""
        rows, keys, values = (x.transpose(0, 1) for x in (q, k, v))
        o, states = self._launch(rows, keys, values, return_lse=True)
        o, states = o.transpose(0, 1), states.transpose(0, 1)
        o = o if out is None else out.copy_(o)
        return (o, states if lse is None else lse.copy_(states)) if return_lse else o
