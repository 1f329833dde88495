"""`flashinfer.sparse`: attention over blocks of keys. Without effect are the workspace, `backend`, `non_blocking`,
`use_fp16_qk_reduction` and `enable_pdl`. Plans read arrays on the host."""

from typing import Any

from .. import _native
from ._bindings import FP8, TAIL, Maybe, Result, Tensor, bind, host, packed, refuse
from ._wrapper import Wrapper
from .utils import canonicalize_torch_dtype

__all__ = ["BlockSparseAttentionWrapper", "VariableBlockSparseAttentionWrapper"]


class _SparseWrapper(Wrapper):
    _init = "backend"

    def _plan_blocks(self, given: dict[str, Any], heads: tuple[int, ...], lens: tuple[int, int], part: Any) -> None:
        """`part`: a part of the variant and its parameters."""
        if given.get("causal"):
            refuse("`causal`: FlashInfer counts gathered keys, which", "give blocks, and a `mask` of those on the diagonal")
        self._keep(given, *heads, heads[-1])
        self._ragged = [0, lens[0]], [0, lens[1]]
        self._new_batch(None, *part)


class BlockSparseAttentionWrapper(_SparseWrapper):
    """Blocks of R queries and C keys, of which each row of blocks names its columns (BSR)."""

    _options_of_plan = (
        "mask packed_mask causal pos_encoding_mode use_fp16_qk_reduction logits_soft_cap sm_scale rope_scale rope_theta "
        "q_data_type kv_data_type o_data_type non_blocking block_mask"
    )
    _forward = "q k v scale_q scale_k scale_v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def plan(
        self, indptr: Tensor, indices: Tensor, M: int, N: int, R: int, C: int, num_qo_heads: int, num_kv_heads: int,
        head_dim: int, *args: Any, **options: Any,
    ) -> None:  # fmt: skip
        """`mask`: (blocks, R, C) of the blocks that are named. `o_data_type` is read beside queries of FP8."""
        given, ends = bind(self._options_of_plan, args, options), host(indptr)
        q_dtype = canonicalize_torch_dtype(given.get("q_data_type", "float16"))
        given["o_data_type"] = given.get("o_data_type", "float16") if q_dtype in FP8 else None
        bits = packed({"packed_custom_mask": given.get("packed_mask")}, ends.diff() * R * C)
        seen = given["mask"].bool().cpu() if given.get("mask") is not None else bits
        part = _native.sparse_bsr([[(ends, host(indices), seen)]], (R, C), [-(-N // C)])
        self._plan_blocks(given, (num_qo_heads, num_kv_heads, head_dim), (M, N), part)

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, scale_q: Maybe = None, scale_k: Maybe = None, scale_v: Maybe = None,
        out: Maybe = None, lse: Maybe = None, return_lse: bool = False, enable_pdl: bool | None = None,
    ) -> Result:  # fmt: skip
        scales = () if scale_q is None else (scale_q, scale_k, scale_v)
        return self._launch(q, k, v, scales, out=out, lse=lse, return_lse=return_lse)


class VariableBlockSparseAttentionWrapper(_SparseWrapper):
    """Blocks of any sizes, by KV head. Queries, keys, values and outputs are (heads, tokens, head dim)."""

    _options_of_plan = (
        "causal pos_encoding_mode use_fp16_qk_reduction logits_soft_cap sm_scale rope_scale rope_theta non_blocking "
        "q_data_type kv_data_type"
    )
    _forward = "q k v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def plan(
        self, block_mask_map: Tensor, block_row_sz: Tensor, block_col_sz: Tensor, num_qo_heads: int,
        num_kv_heads: int, head_dim: int, *args: Any, **options: Any,
    ) -> None:  # fmt: skip
        """`block_mask_map`: (KV heads, rows, columns)."""
        given, rows, columns = bind(self._options_of_plan, args, options), host(block_row_sz), host(block_col_sz)
        block = max(64 * num_kv_heads // num_qo_heads, 1), 32
        part = _native.sparse_variable_blocks(block_mask_map.bool().cpu(), rows, columns, block)
        lens = int(rows[0].sum()), int(columns[0].sum())
        self._plan_blocks(given, (num_qo_heads, num_kv_heads, head_dim), lens, part)

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, out: Maybe = None, lse: Maybe = None, return_lse: bool = False,
        enable_pdl: bool | None = None,
    ) -> Result:  # fmt: skip
        """Launches on views."""
        o, states = self._launch(*(x.transpose(0, 1) for x in (q, k, v)), return_lse=True)
        o, states = o.transpose(0, 1), states.transpose(0, 1)
        o = o if out is None else out.copy_(o)
        return (o, states if lse is None else lse.copy_(states)) if return_lse else o
