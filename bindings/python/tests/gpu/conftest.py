"""The device of these tests: CUDA. `ATTN_TEST_DEVICE=cpu` runs those that need no stream on the CPU, to try them."""

import os

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def device():
    named = os.environ.get("ATTN_TEST_DEVICE", "cuda")
    if named == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return named


@pytest.fixture
def cuda(device):
    if device != "cuda":
        pytest.skip("streams and graphs are CUDA's")
    return device


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
