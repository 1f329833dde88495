"""What the source of a model of Transformers tells of its attention."""

import ast
from typing import Any, NamedTuple

from . import _transformers_keywords as keywords

_INTERFACE = frozenset({"get_interface", "ALL_ATTENTION_FUNCTIONS"})
_SOFTMAX = frozenset(
    "softmax Softmax scaled_dot_product_attention multi_head_attention_forward MultiheadAttention".split()
)


class Facts(NamedTuple):
    """Of a class of modules: whether it asks for an attention by name, with which keywords it calls that, whether it
    computes one itself, and whether it adds a mask to something."""

    asks: bool
    keywords: frozenset[str]
    computes: bool
    adds_mask: bool


class File(NamedTuple):
    """The facts of the classes of a file, whether any of them asks for an attention by name, and whether any takes a
    class of attentions from a table of its own."""

    classes: dict[str, Facts]
    asks: bool
    has_table: bool


def read(source: Any) -> Any:
    """Reads a file of modules."""
    tree = ast.parse(source)
    top = tree.body
    functions = {of.name: of for of in top if isinstance(of, ast.FunctionDef)}
    classes = {of.name: _facts(of, functions) for of in top if isinstance(of, ast.ClassDef)}
    return File(classes, any(facts.asks for facts in classes.values()), any(map(_is_of_table, ast.walk(tree))))


def why_not(bases: Any) -> Any:
    """Why a module cannot take an attention by name, or None: of its class and the bases, the names and files."""
    if any(file.has_table for _, file in bases):
        return f"the file of {bases[0][0]} has a table of attentions of its own"
    found = [(file.classes[name], file.asks) for name, file in bases if name in file.classes]
    if any(facts.asks for facts, _ in found):
        passed = frozenset().union(*(facts.keywords for facts, _ in found))
        name = keywords.first_refused(passed)
        return None if name is None else f"{bases[0][0]} passes `{name}`, which attn_rs does not read"
    if any(facts.computes and (facts.adds_mask or not asks) for facts, asks in found):
        return f"{bases[0][0]} computes attention itself"
    return None


def _facts(cls: Any, functions: Any) -> Any:
    """The facts of a class, with the functions of its file that it uses."""
    reached, others = [], [cls]
    while others:
        reached.append(others.pop())
        others += [functions[of] for of in _names(reached[-1]) if of in functions and functions[of] not in reached]
    nodes = [node for of in reached for node in ast.walk(of)]
    names = {name for of in reached for name in _names(of)}
    asks = bool(names & _INTERFACE)
    arguments = [node.arg for node in ast.walk(cls) if isinstance(node, ast.arg)]
    computes = (
        not asks
        and "attention" in cls.name.lower()
        and bool(names & _SOFTMAX)
        and any("mask" in argument for argument in arguments)
    )
    return Facts(asks, _keywords(nodes) if asks else frozenset(), computes, any(map(_adds_mask, nodes)))


def _names(tree: Any) -> Any:
    """The names and attributes that a tree uses."""
    nodes = list(ast.walk(tree))
    return {of.id for of in nodes if isinstance(of, ast.Name)} | {
        of.attr for of in nodes if isinstance(of, ast.Attribute)
    }


def _keywords(nodes: Any) -> Any:
    """The keywords of calls of what the interface gave."""
    given = set()
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _names(node.value) & _INTERFACE:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given |= {target.id for target in targets if isinstance(target, ast.Name)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    calls = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in given]
    return frozenset(keyword.arg for node in calls for keyword in node.keywords if keyword.arg is not None)


def _is_of_table(node: Any) -> Any:
    """Whether it is what a table other than the interface has for the name of the attention."""
    is_taken = isinstance(node, ast.Subscript) and "_attn_implementation" in _names(node.slice)
    return is_taken and isinstance(node.value, ast.Name) and not node.value.id.startswith("ALL_")


def _adds_mask(node: Any) -> Any:
    """Whether a mask is added to something."""
    if isinstance(node, ast.AugAssign):
        sides = [node.value]
    elif isinstance(node, ast.BinOp):
        sides = [node.left, node.right]
    else:
        return False
    return isinstance(node.op, ast.Add) and any("mask" in name for side in sides for name in _names(side))
