"""attn_rs as an attention of Transformers: `attn_implementation="attn_rs"`.

After `register()`, models whose attention goes through Transformers' `AttentionInterface` take it by name:

    attn_rs.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attn_rs")

Causal masks, sliding windows, soft caps and sinks become parts of the variant; so does left padding, where each row
begins at its first token. Every other mask (right padding, packed sequences, chunks, static caches, 4-D masks of one's
own) is read element by element: it is right, and slower.

What is not understood is refused by name: a keyword that the attention does not read, a mask that adds numbers to
logits, dropout, `output_attentions`; and at load, a model that has an attention of its own or passes such keywords.
"""

from typing import Any

from . import _transformers_keywords as keywords
from ._errors import InvalidArgument, InvalidTensor, Unsupported
from ._transformers_keywords import EAGER
from ._transformers_load import check_when_loaded

_NAME = "attn_rs"


def register(name: str = _NAME) -> None:
    """Makes `attn_implementation=name` known to Transformers (4.53 and later)."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    check_when_loaded(name)
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask)


def attention_forward(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: Any = None,
    dropout: Any = 0.0,
    softcap: Any = None,
    sliding_window: Any = None,
    s_aux: Any = None,
    is_causal: Any = None,
    **kwargs: Any,
) -> Any:
    """The attention of a layer: `query` is (batch, heads, queries, head dim); returns (batch, queries, heads, head dim)
    and None in place of weights. What is visible is what `attention_mask` says; only where that is None, `is_causal`
    and `sliding_window` of the call say it."""
    from . import _attention, _torch
    from ._arrays import is_compiling, needs_grad

    keywords.refuse(type(module).__name__, kwargs)
    if dropout and getattr(module, "training", True):
        raise Unsupported(f"dropout is {dropout}; there is none: call model.eval()")
    if attention_mask is None:
        parts, elements = _of_the_call(module, query, key, is_causal, sliding_window), None
    else:
        parts, elements = _of_the_mask(attention_mask, query, key)
    params = {}
    if softcap is not None:
        parts.append(f"soft_cap(cap={float(softcap)})")
    if s_aux is not None:
        parts.append("sink")
        params["sink.logits"] = s_aux
    variant = " + ".join(parts) or "full"
    if is_compiling(query) or needs_grad(query, key, value):
        o, _ = _torch.attention(query, key, value, variant, scaling, params, "bhsd", None, None, mask=elements)
    else:
        made_of = (query, key, value, variant, scaling, params, "bhsd", None, None, elements)
        o, _ = _attention.run(*made_of, None, False)
    return o.transpose(1, 2), None


def _of_the_call(module: Any, query: Any, key: Any, is_causal: Any, window: Any) -> Any:
    """The parts of a call without a mask. Of more queries than one it has to say itself whether it is causal: with the
    attribute of the module alone, Transformers' attentions disagree."""
    queries, keys = query.shape[2], key.shape[2]
    if is_causal is None:
        is_causal = getattr(module, "is_causal", None)
        if is_causal is not False and queries > 1:
            raise Unsupported(f"{type(module).__name__} has neither a mask nor an argument `is_causal`; {EAGER}")
    if not is_causal and window is not None:
        raise Unsupported(f"a window of an attention that is not causal is not supported without a mask; {EAGER}")
    if is_causal and 1 < queries != keys:
        # they also disagree on where the queries are: at the first keys, or at the last ones
        raise Unsupported(f"a causal attention of {queries} queries and {keys} keys needs a mask; {EAGER}")
    parts = ["causal"] if is_causal else []
    return parts if window is None else [*parts, f"sliding_window(window={int(window)})"]


def _of_the_mask(mask: Any, query: Any, key: Any) -> Any:
    """The parts of a mask, and what of it has to be read: the first key of each request, or all elements."""
    from ._transformers_mask import Mask

    if mask.dim() != 4:
        raise InvalidTensor(f"the mask has the shape {tuple(mask.shape)}; it is (batch, 1, queries, keys)")
    says = getattr(mask, "says", None)
    # of other keys than it was made for, it is not known where the queries are
    if says is not None and mask.shape[2] == query.shape[2] and mask.shape[3] == key.shape[2]:
        return list(says), mask.first
    return [], mask.elements() if isinstance(mask, Mask) else mask


def mask(
    batch_size: Any,
    q_length: Any,
    kv_length: Any,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Any = None,
    attention_mask: Any = None,
    local_size: Any = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    dtype: Any = None,
    device: Any = "cpu",
    **kwargs: Any,
) -> Any:
    """What `attention_forward` is given as a mask, (batch, 1, queries, keys). It is never None, and for a model that
    reads it, it is that of `eager`. Where parts of a variant mean the same, with or without left padding, it has them.
    """
    import torch
    from transformers.masking_utils import eager_mask, prepare_padding_mask

    from ._transformers_mask import Mask, Meaning

    if not isinstance(batch_size, int):
        raise InvalidArgument("the mask function is that of Transformers 4.53 and later")
    dtype = torch.float32 if dtype is None else dtype

    def elements() -> Any:
        return eager_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            local_size=local_size,
            allow_is_bidirectional_skip=False,
            dtype=dtype,
            device=device,
            **kwargs,
        )

    # the last query is at the last key, as a variant has it; a static cache has an offset of its own kind
    is_aligned = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    is_wanted = allow_is_causal_skip or allow_is_bidirectional_skip
    says = _parts(mask_function) if is_aligned and is_wanted else None
    is_traced = torch.compiler.is_compiling()
    padding, first = prepare_padding_mask(attention_mask, kv_length, kv_offset), None
    if says is None or (is_traced and padding is not None):
        return elements()
    if is_traced:
        # what is not read is not computed
        made = elements()
        made.says, made.first = says, None
        return made
    if padding is not None:
        seen = padding[:, kv_offset : kv_offset + kv_length].to(torch.int32)
        if bool((seen[:, 1:] < seen[:, :-1]).any()):
            return elements()
        first = (kv_length - seen.sum(-1)).to(torch.int32)
        first = first if bool(first.any()) else None
    return Mask(Meaning(says, first, elements), (batch_size, 1, q_length, kv_length), dtype, device)


def _parts(mask_function: Any) -> Any:
    """The parts of a variant that mean the same as a mask function, or None."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

    if mask_function is causal_mask_function:
        return ("causal",)
    if mask_function is bidirectional_mask_function:
        return ()
    both = next((of for of in _closed_over(mask_function) if isinstance(of, tuple)), ())
    if len(both) != 2 or both[1] is not causal_mask_function:
        return None
    if not getattr(both[0], "__qualname__", "").startswith("sliding_window_overlay."):
        return None
    window = _closed_over(both[0])
    return (
        ("causal", f"sliding_window(window={window[0]})") if len(window) == 1 and isinstance(window[0], int) else None
    )


def _closed_over(function: Any) -> Any:
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
