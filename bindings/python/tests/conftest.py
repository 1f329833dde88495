"""What tests share. Tests of `tests/gpu` need a GPU, torch and transformers, and are skipped without.

On a machine with a GPU, with the wheel installed: `pytest tests -n 8 -m "not alone"`, then `pytest tests -m alone`.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config):
    # beside a wheel there is no pyproject.toml
    config.addinivalue_line("markers", "gpu: needs a CUDA device, torch and, where it says so, transformers")
    config.addinivalue_line("markers", "alone: measures memory, so that no other test runs beside it")


def pytest_collection_modifyitems(items):
    gpu = Path(__file__).parent / "gpu"
    for item in items:
        if gpu in Path(item.fspath).parents:
            item.add_marker(pytest.mark.gpu)
