"""`flashinfer.quantization`: packed bits."""

from .. import ops
from ._bindings import Tensor

__all__ = ["packbits", "segment_packbits"]


def packbits(x: Tensor, bitorder: str = "big") -> Tensor:
    """Eight bools to a byte."""
    bits: Tensor = ops.packbits(x.reshape(-1).bool(), bitorder=bitorder)
    return bits


def segment_packbits(x: Tensor, indptr: Tensor, bitorder: str = "big") -> tuple[Tensor, Tensor]:
    """Each segment from a byte on, and where they begin in bytes. The number of bytes is read on the host."""
    bits, ends = ops.segment_packbits(x.reshape(-1).bool(), indptr.int(), bitorder=bitorder)
    return bits[: int(ends[-1])], ends.to(indptr.dtype)
