"""Measured costs of kernels."""

from . import _native
from ._attention import forget_plans


def load_costs(path: str, device: str = "cuda") -> None:
    """Loads the costs of a GPU's kernels, by which kernels are chosen and work is cut.

    path: a file that `attn calibrate --out FILE` wrote on such a GPU.
    device: the device whose attentions and plans use it from now on, in place of the file that the environment variable
        ATTN_COSTS names. What was made before keeps its costs. A CPU has no use for costs, and reads the file alone.

    Raises InvalidArgument for a file that has no costs, with the line and what it may be.

        attn_rs.load_costs("costs.jsonl")
    """
    _native.load_costs(path, device)
    forget_plans()
