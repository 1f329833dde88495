"""`flashinfer.attention`."""

from .prefill import BatchAttention as BatchAttention, BatchAttentionWithAttentionSinkWrapper as _Sink

BatchAttentionWithAttentionSinkWrapper = _Sink
