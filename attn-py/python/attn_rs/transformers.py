"""attn_rs as an attention of Transformers: `attn_implementation="attn_rs"`.

After `register()`, models whose attention goes through Transformers' `AttentionInterface` take it by name:

    attn_rs.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attn_rs")

Causal masks, sliding windows, soft caps and sinks become parts of the variant; so does left padding, where each row
begins at its first token. Every other mask (right padding, packed sequences, chunks, static caches, 4-D masks of one's
own) is read element by element: it is right, and slower. A mask that adds numbers to logits, dropout and
`output_attentions` are refused.
"""

from ._errors import InvalidArgument, Unsupported

_NAME = "attn_rs"


def register(name=_NAME):
    """Makes `attn_implementation=name` known to Transformers (4.53 and later)."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, mask)


def attention_forward(
    module,
    query,
    key,
    value,
    attention_mask,
    scaling=None,
    dropout=0.0,
    softcap=None,
    sliding_window=None,
    s_aux=None,
    is_causal=None,
    position_bias=None,
    **kwargs,
):
    """The attention of a layer: `query` is (batch, heads, queries, head dim); returns (batch, queries, heads, head dim)
    and None in place of weights."""
    from . import _attention, _torch
    from ._arrays import is_compiling, needs_grad

    if dropout:
        raise Unsupported(f"dropout is {dropout}; there is none: call model.eval()")
    if position_bias is not None or kwargs.get("head_mask") is not None or kwargs.get("output_attentions"):
        raise Unsupported("`position_bias`, `head_mask` and `output_attentions` are not supported; use `eager`")
    parts, params = [], {}
    if attention_mask is None or attention_mask.dim() == 1:
        is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        if is_causal:
            parts.append("causal")
        if sliding_window is not None:
            if not is_causal:
                raise Unsupported("a window of an attention that is not causal is not supported; use `eager`")
            parts.append(f"sliding_window(window={int(sliding_window)})")
    if softcap is not None:
        parts.append(f"soft_cap(cap={float(softcap)})")
    if s_aux is not None:
        parts.append("sink")
        params["sink.logits"] = s_aux
    variant = " + ".join(parts) or "full"
    if is_compiling(query) or needs_grad(query, key, value):
        o, _ = _torch.attention(query, key, value, variant, scaling, params, "bhsd", None, None, mask=attention_mask)
    else:
        made_of = (query, key, value, variant, scaling, params, "bhsd", None, None, attention_mask)
        o, _ = _attention.run(*made_of, None, False)
    return o.transpose(1, 2), None


def mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    mask_function=None,
    attention_mask=None,
    local_size=None,
    allow_is_causal_skip=True,
    allow_is_bidirectional_skip=False,
    **kwargs,
):
    """What `attention_forward` is given as a mask: None where the parts of the variant say it all, the first key of
    each request for left padding, else a bool for each query and key."""
    import torch
    from transformers.masking_utils import causal_mask_function, prepare_padding_mask, sdpa_mask

    if not isinstance(batch_size, int):
        raise InvalidArgument("the mask function is that of Transformers 4.53 and later")
    is_traced = torch.compiler.is_compiling()
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length]
        if not is_traced and bool(padding.all()):
            padding = None
    is_plain = allow_is_causal_skip and (mask_function is causal_mask_function or _is_window(mask_function))
    # the last query is at the last key, as the variant has it
    is_aligned = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    if is_plain and is_aligned:
        if padding is None:
            return None
        if not is_traced:
            seen = padding.to(torch.int32)
            if bool((seen[:, 1:] >= seen[:, :-1]).all()):
                return (kv_length - seen.sum(-1)).to(torch.int32)
    if allow_is_bidirectional_skip and padding is None and local_size is None:
        return None
    return sdpa_mask(
        batch_size=batch_size,
        q_length=q_length,
        kv_length=kv_length,
        q_offset=q_offset,
        kv_offset=kv_offset,
        mask_function=mask_function,
        attention_mask=attention_mask,
        local_size=local_size,
        allow_is_causal_skip=False,
        allow_is_bidirectional_skip=False,
        **kwargs,
    )


def _is_window(mask_function):
    """Whether it is the causal sliding window, which attentions are told of as `sliding_window`."""
    from transformers.masking_utils import causal_mask_function

    cells = getattr(mask_function, "__closure__", None) or ()
    parts = next((cell.cell_contents for cell in cells if isinstance(cell.cell_contents, tuple)), ())
    if len(parts) != 2 or parts[1] is not causal_mask_function:
        return False
    return getattr(parts[0], "__qualname__", "").startswith("sliding_window_overlay.")
