"""`flashinfer.quantization`."""

from .page import *  # noqa: F403
