"""Keywords that models of Transformers pass to their attention: what is read, what is without effect, what is refused."""

from typing import Any

from ._errors import Unsupported

EAGER = 'load the model with attn_implementation="eager"'
# what `attention_forward` reads
READ = frozenset("module query key value attention_mask scaling dropout softcap sliding_window s_aux is_causal".split())
# What reaches an attention and does not change it: Transformers' `eager` attentions read none of these, as a test finds
# in their source. Positions are in queries, keys and masks already.
WITHOUT_EFFECT = frozenset(
    {
        "cache_position",
        "deterministic",  # of a backward pass
        "logits_to_keep",  # of the head
        "num_items_in_batch",  # of a loss
        "output_hidden_states",
        "output_router_logits",
        "past_key_values",
        "position_embeddings",
        "position_ids",
        "return_dict",
        "seq_idx",  # of recurrent layers
        "use_cache",
    }
)
# What models name in their source and give to other attentions alone, or where a caller asks for it.
SOMETIMES = frozenset({"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "output_attentions"})


def refuse(who: Any, given: Any) -> None:
    """Refuses keywords that are given, are not read, and are not known to be without effect."""
    for name, value in given.items():
        if value is None or name in WITHOUT_EFFECT or (name == "output_attentions" and not value):
            continue
        raise Unsupported(f"{who} passes `{name}` to its attention, which attn_rs does not read; {EAGER}")


def first_refused(names: Any) -> Any:
    """The first of the names of a model's source, in order, that is refused whenever it is given, or None."""
    return min(names - READ - WITHOUT_EFFECT - SOMETIMES, default=None)
