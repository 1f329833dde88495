"""The stub of the native module has what the module has, and the types of the whole package are sound."""

import ast
import pathlib

import pytest

import attn_rs
from attn_rs import _native


def stub():
    text = pathlib.Path(attn_rs.__file__).with_name("_native.pyi").read_text()
    return [node for node in ast.parse(text).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]


def test_functions_and_classes():
    named = {node.name for node in stub() if not node.name.startswith("_")}
    assert named == {name for name in dir(_native) if not name.startswith("_")}


def test_members_of_classes():
    for node in stub():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            members = {member.name for member in node.body if not member.name.startswith("__")}
            own = vars(getattr(_native, node.name))
            assert members == {name for name in own if not name.startswith("__")}, node.name


def test_everything_public_is_documented():
    for name in attn_rs.__all__:
        if name != "__version__":
            assert getattr(attn_rs, name).__doc__, name
    for module in (attn_rs.indexer, attn_rs.ops, attn_rs.sampling):
        for name in module.__all__:
            assert getattr(module, name).__doc__, name


def test_types(tmp_path):
    """`mypy --strict` finds nothing. Transformers need not be installed."""
    pytest.importorskip("torch")
    mypy = pytest.importorskip("mypy.api")
    package = str(pathlib.Path(attn_rs.__file__).parent)
    report, errors, status = mypy.run(["--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path), package])
    assert status == 0, report + errors
