"""The tests run without vLLM, on the CPU: `stub` stands for the few classes of vLLM that the package uses. They need
torch, and are skipped without it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture
def engine():
    """An engine of the stub, whose modules stand for vLLM's."""
    pytest.importorskip("torch")
    import stub

    with stub.installed("0.26.0"):
        yield stub.Engine()
