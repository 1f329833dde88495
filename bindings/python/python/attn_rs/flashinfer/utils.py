"""`flashinfer.utils`: enumerations and element types."""

from enum import Enum

import torch

PosEncodingMode = Enum("PosEncodingMode", "NONE ROPE_LLAMA ALIBI", start=0)
MaskMode = Enum("MaskMode", "NON_CAUSAL CAUSAL CUSTOM MULTIITEMSCORING", start=0)
TensorLayout = Enum("TensorLayout", "NHD HND", start=0)
FP4Tensor = type("FP4Tensor", (), {})


def canonicalize_torch_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """The dtype of a name."""
    found = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise TypeError(f"dtype must be a string or torch.dtype, got {type(dtype)}")
    return found


def next_positive_power_of_2(x: int) -> int:
    return 1 if x < 1 else 1 << (x - 1).bit_length()
