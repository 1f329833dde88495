"""A mask that says what it is, so that nothing of it is lost between Transformers' mask function and the attention."""

from typing import Any

import torch
from torch.utils import _pytree

_aten = torch.ops.aten


class Mask(torch.Tensor):
    """What is added to logits in Transformers' `eager` attention, (batch, 1, queries, keys): 0, or the least number
    where a key is not seen. No element exists until one is read.

    `says` are the parts of a variant that mean the same, `first` the first key of each request, (batch), or None where
    that is the first of all. A model may do with it what it does with the mask of `eager`: it has the elements then.
    """

    @staticmethod
    def __new__(cls: Any, meaning: Any, shape: Any, dtype: torch.dtype, device: torch.device) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)

    def __init__(self, meaning: Any, shape: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._meaning = meaning

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def says(self) -> Any:
        """The parts, or None where a model may have written to the elements."""
        return self._meaning.says

    @property
    def first(self) -> Any:
        return self._meaning.first

    def elements(self) -> Any:
        """The plain tensor, the same for each call."""
        return self._meaning.elements()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Mask({self.says}, {tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if (same := _same(func.overloadpacket, args, kwargs)) is not None:
            return same
        if func.is_view or func._schema.is_mutable:
            # what a view is written to is not seen from here
            for mask in _pytree.tree_leaves((args, kwargs)):
                if isinstance(mask, cls):
                    mask._meaning.says = None
        args, kwargs = _pytree.tree_map_only(cls, cls.elements, (args, kwargs))
        return func(*args, **kwargs)


class Meaning:
    """What masks that share their memory say, and how their elements are made."""

    def __init__(self, says: Any, first: Any, make: Any) -> None:
        self.says, self.first, self._make, self._made = says, first, make, None

    def elements(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


def _same(packet: Any, args: Any, kwargs: Any) -> Any:
    """The mask that comes of an op which changes none of it: a whole slice, or a copy on another device."""
    mask = args[0] if args else None
    if not isinstance(mask, Mask) or mask.says is None:
        return None
    meaning, device = mask._meaning, mask.device
    if packet is _aten._to_copy and kwargs.get("dtype") in (None, mask.dtype):
        device = torch.device(kwargs.get("device") or device)
        first = None if meaning.first is None else meaning.first.to(device)
        meaning = Meaning(meaning.says, first, lambda: mask.elements().to(device))
    elif packet is _aten.slice:
        given: list[Any] = [*args[1:]]
        axis, start, end, step = given + [0, None, None, 1][len(given) :]
        if start not in (0, None) or (end is not None and end < mask.shape[axis]) or step != 1:
            return None
    elif packet not in (_aten.alias, _aten.detach):
        return None
    return Mask(meaning, mask.shape, mask.dtype, device)
