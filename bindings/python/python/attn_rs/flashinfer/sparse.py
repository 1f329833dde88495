"""`flashinfer.sparse`: attention over blocks of keys. Plans read arrays on the host."""

from typing import Any

from .. import _native
from ._bindings import FP8, TAIL, Maybe, Result, Tensor, bind, host, packed, refuse
from ._wrapper import Wrapper
from .utils import canonicalize_torch_dtype

__all__ = ["BlockSparseAttentionWrapper", "VariableBlockSparseAttentionWrapper"]


class _SparseWrapper(Wrapper):
    _init = "backend"
    # gives the numbers of queries and keys, and the part of the variant with its parameters
    _blocks: Any

    def plan(self, *args: Any, **how: Any) -> None:
        """Plans: arguments are FlashInfer's, by name or in its order."""
        given = bind(self._plan, args, how)
        if given.get("causal"):
            refuse("`causal`", "FlashInfer counts gathered keys: give blocks, and a `mask` of those on the diagonal")
        lens, part = self._blocks(given)
        self._keep(given, given["num_qo_heads"], given["num_kv_heads"], given["head_dim"], given["head_dim"])
        self._ragged = [0, lens[0]], [0, lens[1]]
        self._new_batch(None, *part)


class BlockSparseAttentionWrapper(_SparseWrapper):
    """Blocks of R queries and C keys, of which each row of blocks names its columns (BSR): `indptr`, `indices`, and
    maybe `mask`, (blocks, R, C) of the blocks that are named, or `packed_mask`."""

    _plan = ("indptr indices M N R C num_qo_heads num_kv_heads head_dim | mask packed_mask causal pos_encoding_mode "
        "use_fp16_qk_reduction logits_soft_cap sm_scale rope_scale rope_theta q_data_type kv_data_type o_data_type "
        "non_blocking block_mask")  # fmt: skip
    _forward = "q k v scale_q scale_k scale_v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def _blocks(self, given: dict[str, Any]) -> tuple[tuple[int, int], Any]:
        block, ends = (given["R"], given["C"]), host(given["indptr"])
        is_fp8 = canonicalize_torch_dtype(given.get("q_data_type", "float16")) in FP8
        given["o_data_type"] = given.get("o_data_type", "float16") if is_fp8 else None
        bits = packed({"packed_custom_mask": given.get("packed_mask")}, ends.diff() * block[0] * block[1])
        seen = given["mask"].bool().cpu() if given.get("mask") is not None else bits
        part = _native.sparse_bsr([[(ends, host(given["indices"]), seen)]], block, [-(-given["N"] // block[1])])
        return (given["M"], given["N"]), part

    def run(self, q: Tensor, k: Tensor, v: Tensor, scale_q: Maybe = None, scale_k: Maybe = None, scale_v: Maybe = None,
            out: Maybe = None, lse: Maybe = None, return_lse: bool = False,
            enable_pdl: bool | None = None) -> Result:  # fmt: skip
        scales = () if scale_q is None else (scale_q, scale_k, scale_v)
        return self._launch(q, k, v, scales, out=out, lse=lse, return_lse=return_lse)


class VariableBlockSparseAttentionWrapper(_SparseWrapper):
    """Blocks of any sizes, by KV head: `block_mask_map` is (KV heads, rows, columns). Queries, keys, values and outputs
    are (heads, tokens, head dim)."""

    _plan = ("block_mask_map block_row_sz block_col_sz num_qo_heads num_kv_heads head_dim | causal pos_encoding_mode "
        "use_fp16_qk_reduction" + TAIL + " non_blocking q_data_type kv_data_type")  # fmt: skip
    _forward = "q k v pos_encoding_mode use_fp16_qk_reduction" + TAIL

    def _blocks(self, given: dict[str, Any]) -> tuple[tuple[int, int], Any]:
        rows, columns = host(given["block_row_sz"]), host(given["block_col_sz"])
        block = max(64 * given["num_kv_heads"] // given["num_qo_heads"], 1), 32
        part = _native.sparse_variable_blocks(given["block_mask_map"].bool().cpu(), rows, columns, block)
        return (int(rows[0].sum()), int(columns[0].sum())), part

    def run(self, q: Tensor, k: Tensor, v: Tensor, out: Maybe = None, lse: Maybe = None, return_lse: bool = False,
            enable_pdl: bool | None = None) -> Result:  # fmt: skip
        """Launches on views."""
        got = self._launch(q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1), return_lse=True)
        o, states = (x.transpose(0, 1) for x in got)
        o = o if out is None else out.copy_(o)
        return (o, states if lse is None else lse.copy_(states)) if return_lse else o
