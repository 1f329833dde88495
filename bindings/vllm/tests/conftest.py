"""The tests run without vLLM: `stub` stands for the few classes of vLLM that the package uses. They need torch, and are
skipped without it; where there is a GPU they run there too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))


def devices():
    try:
        import torch
    except ImportError:
        return ["cpu"]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=devices())
def engine(request):
    """An engine of the stub, whose modules stand for vLLM's."""
    pytest.importorskip("torch")
    import stub

    with stub.installed("0.26.0"):
        yield stub.Engine(request.param)
