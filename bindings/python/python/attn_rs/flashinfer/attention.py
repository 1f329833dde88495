"""`flashinfer.attention`."""

from .prefill import *  # noqa: F403
