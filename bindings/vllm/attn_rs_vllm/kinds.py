"""Kinds of layers: what layers have in common that share plans."""

from dataclasses import dataclass

import attn_rs


@dataclass(frozen=True)
class Kind:
    """Layers of one kind differ in parameter tensors alone, such as sinks."""

    #: an expression of attn-rs, whose parameter tensors each layer gives
    expression: str
    qo_heads: int
    kv_heads: int
    head_dim: int
    scale: float
    kv_dtype: str | None
    kv_format: str | None

    @property
    def is_narrow(self) -> bool:
        """Whether keys and values are stored in fewer bits than queries have."""
        return self.kv_format is not None or (self.kv_dtype or "").startswith("float8")

    def attention(self, params, device, dtype: str, role: str, fixed_split_size=None):
        """An attention of the kind, with the parameter tensors of a layer. Raises what attn_rs refuses, in its words.
        """
        return attn_rs.Attention(
            self.expression,
            params or None,
            str(device),
            self.qo_heads,
            self.kv_heads,
            self.head_dim,
            None,
            dtype,
            "uint8" if self.kv_format else self.kv_dtype or dtype,
            scale=self.scale,
            kernel=role,
            fixed_split_size=fixed_split_size,
            kv_format=self.kv_format,
        )


def of_model(*, causal=True, window=None, soft_cap=None, slopes=False, sinks=False) -> str:
    """The expression of what a layer of vLLM asks for. Slopes and sinks are parameters of the layer."""
    parts = ["causal"] if causal else []
    if window is not None:
        # vLLM's number of keys has the query's own; without a causal mask as many are seen on the other side
        sides = f"left={window - 1}, right={window - 1}"
        parts.append(f"sliding_window(window={window})" if causal else f"bidirectional_window({sides})")
    if soft_cap:
        parts.append(f"soft_cap(cap={float(soft_cap)!r})")
    if slopes:
        # after the cap, as FlashAttention adds it
        parts.append("alibi")
    if sinks:
        parts.append("sink")
    return " + ".join(parts) or "full"


def refusal(head_dim: int, dtype: str, kv_dtype: str | None, kv_format: str | None, device: str) -> str | None:
    """Why no kernel runs heads and types, in the words of attn_rs; None where one does."""
    kind = Kind("causal", 1, 1, head_dim, 1.0, kv_dtype, kv_format)
    try:
        kind.attention(None, device, dtype, None)
    except attn_rs.AttnError as error:
        return str(error)
    return None
