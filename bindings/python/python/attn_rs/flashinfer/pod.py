"""`flashinfer.pod`."""

from .decode import *  # noqa: F403
