"""Masks of Transformers, as parts of a variant."""

import sys
import weakref
from typing import Any

from ._errors import InvalidTensor, Unsupported

# bits of masks that live, by the tensor: the layers of a model share one
_packed: dict[int, Any] = {}


def apply(variant: str, params: dict[str, Any] | None, mask: Any, batch_key: tuple[Any, ...]) -> Any:
    """The variant and parameters with a mask: the first key of each request, (batch), or what each query sees, (batch,
    1, queries, keys). The third result is the bits of the latter."""
    if mask is None:
        return variant, params, None
    _, requests, queries, keys, _ = batch_key
    if mask.dim() == 1:
        start = [first for first in mask.tolist() for _ in range(queries)]
        spans = {"document_spans.start": start, "document_spans.end": [keys] * len(start)}
        return f"{variant} + document_spans", {**(params or {}), **spans}, None
    shape = tuple(mask.shape)
    if len(shape) != 4 or shape[0] not in (1, requests) or shape[2] not in (1, queries) or shape[3] < keys:
        raise InvalidTensor(f"the mask has the shape {shape}; it is ({requests}, 1, {queries}, {keys})")
    if shape[1] != 1:
        raise Unsupported(f"the mask has {shape[1]} heads; one mask for all heads is possible")
    return variant, params, _bits(mask, requests, queries, keys)


def _bits(mask: Any, requests: Any, queries: Any, keys: Any) -> Any:
    version = None if mask.is_inference() else mask._version
    kept = _packed.get(id(mask))
    if kept is not None and version is not None and kept[0]() is mask and kept[1:4] == (version, queries, keys):
        return kept[4]
    torch = sys.modules["torch"]
    seen = mask[..., :keys]
    if seen.dtype != torch.bool:
        if not seen.is_floating_point():
            raise InvalidTensor(
                f"the mask is of {seen.dtype}; one of torch.bool, or of 0 and the least number, is possible"
            )
        # a mask of another type of floats may have been converted
        least = max(torch.finfo(dtype).min for dtype in (mask.dtype, torch.bfloat16))
        if not bool(((seen == 0) | (seen <= least)).all()):
            raise Unsupported(
                "the mask adds numbers to logits; a mask of bools, or of 0 and the least number, is possible"
            )
        seen = seen == 0
    flat = seen.expand(requests, -1, queries, -1).reshape(requests, -1)
    flat = torch.nn.functional.pad(flat, (0, -flat.shape[1] % 8)).reshape(requests, -1, 8)
    weights = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8, device=mask.device)
    packed = (flat.to(torch.uint8) * weights).sum(-1, dtype=torch.uint8)
    indptr = [request * packed.shape[1] for request in range(requests + 1)]
    bits = (bytes(packed.flatten().tolist()), tuple(indptr))
    if version is not None:
        number = id(mask)
        _packed[number] = (weakref.ref(mask, lambda _: _packed.pop(number, None)), version, queries, keys, bits)
    return bits
