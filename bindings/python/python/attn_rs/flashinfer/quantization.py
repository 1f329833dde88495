"""`flashinfer.quantization`."""

from .page import packbits as packbits, segment_packbits as segment_packbits
