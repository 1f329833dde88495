"""Refuses models of Transformers when they are loaded, where they cannot take an attention by name.

A model asks the `AttentionInterface` for the attention of its config. Some ask for masks by that name, and then compute
attention themselves; the masks of another attention are wrong there. Others pass keywords that change the attention.
"""

import functools
import inspect
import sys
from typing import Any

from . import _transformers_source as source
from ._errors import Unsupported
from ._transformers_keywords import EAGER

# what a source does not tell and a sweep over all models has found, by the name of a class of modules
_OF_PADDING = "gives 0 for tokens of padding, which other layers read, where eager gives a mean"
_FOUND = {
    "BltSelfAttention": _OF_PADDING,
    "DogeAttention": "adds numbers of its own to the logits of each head",
    "MoshiAttention": "is called without a mask, which eager alone takes to mean that all keys are seen",
    "RecurrentGemmaAttention": _OF_PADDING,
}
_registered: set[str] = set()


def check_when_loaded(name: str) -> None:
    """From now on, a model that is loaded with the attention of this name, or set to it, is refused if it cannot."""
    from transformers import PreTrainedModel

    if not _registered:
        # the end of each model's `__init__`, where it has its modules
        _wrap(PreTrainedModel, "post_init", lambda model, _: model.config._attn_implementation)
        # in `set_attn_implementation`, and first in `__init__`, where there is no module yet
        names = ("get_correct_attn_implementation", "_check_and_adjust_attn_implementation")
        setter = next((of for of in names if hasattr(PreTrainedModel, of)), None)
        if setter is not None:
            _wrap(PreTrainedModel, setter, lambda _, result: result)
    _registered.add(name)


def _wrap(cls: Any, method: Any, asked: Any) -> None:
    """Lets a method check the model afterwards, where `asked` gives the name of one of our attentions."""
    plain = getattr(cls, method)

    @functools.wraps(plain)
    def checked(model: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(model, *args, **kwargs)
        if asked(model, result) in _registered:
            _refuse(model)
        return result

    setattr(cls, method, checked)


def _refuse(model: Any) -> None:
    from transformers import PreTrainedModel

    modules = [model]
    while modules:
        module = modules.pop()
        of_module: Any = type(module)
        if (why := _why_not(of_module)) is not None:
            raise Unsupported(f"{type(model).__name__} cannot take an attention by name: {why}; {EAGER}")
        # a model of another config checks itself, and may have another attention
        modules += [of for of in module.children() if not isinstance(of, PreTrainedModel) or of.config is model.config]


@functools.cache
def _why_not(cls: Any) -> Any:
    bases = [of for of in cls.__mro__ if of.__module__.partition(".")[0] not in ("builtins", "torch")]
    found = next((of.__name__ for of in bases if of.__name__ in _FOUND), None)
    if found is not None:
        return f"{found} {_FOUND[found]}"
    return source.why_not([(of.__name__, _file(of.__module__)) for of in bases])


@functools.cache
def _file(module: Any) -> Any:
    """What the file of a module tells; nothing where there is none, as in an interactive session."""
    try:
        return source.read(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return source.File({}, False, False)
