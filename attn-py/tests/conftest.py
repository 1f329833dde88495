"""What tests share. Tests of `tests/gpu` need a GPU, torch and transformers, and are skipped without."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_collection_modifyitems(items):
    gpu = Path(__file__).parent / "gpu"
    for item in items:
        if gpu in Path(item.fspath).parents:
            item.add_marker(pytest.mark.gpu)
