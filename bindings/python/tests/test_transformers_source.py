"""What is refused by name at the door of Transformers, without torch: keywords, and models by their source."""

import pytest

import attn_rs
from attn_rs import _transformers_keywords as keywords
from attn_rs import _transformers_source as source

ASKS = """
def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    weights = torch.matmul(query, key.transpose(2, 3)) * scaling + attention_mask
    return torch.matmul(nn.functional.softmax(weights, dim=-1), value), weights

class PlainAttention(nn.Module):
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        attention_interface: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        return attention_interface(self, q, k, v, attention_mask, scaling=self.scaling, position_ids=ids, **kwargs)
"""
INDICES = """
class SparseAttention(nn.Module):
    def forward(self, hidden_states, attention_mask=None, **kwargs):
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        return attend(self, q, k, v, attention_mask, scaling=self.scaling, indices=chosen, **kwargs)
"""
OWN = """
class OwnAttention(nn.Module):
    def forward(self, hidden_states, attention_mask):
        scores = torch.matmul(q, k.transpose(-1, -2))
        MASKED
        return torch.matmul(nn.functional.softmax(scores, dim=-1), v)
"""
ADDS = OWN.replace("MASKED", "scores = scores + attention_mask[:, :, :, : k.shape[-2]]")
FILLS = OWN.replace("MASKED", "scores = scores.masked_fill(attention_mask, -1e9)")
# the audio encoder of a model whose text model takes attentions by name
FILLS_BOOLS = OWN.replace("MASKED", "scores = scores.masked_fill(attention_mask.logical_not(), -1e9)")
THROUGH_A_FUNCTION = """
def attend(module, q, k, v, attention_mask, **kwargs):
    interface = ALL_ATTENTION_FUNCTIONS.get_interface(module.config._attn_implementation, eager)
    return interface(module, q, k, v, attention_mask, block_indices=kwargs.pop("blocks"))

class FarAttention(nn.Module):
    def forward(self, x, attention_mask):
        return attend(self, *self.qkv(x), attention_mask)
"""
TABLE = """
class Layer(nn.Module):
    def __init__(self, config):
        self.attention = CLASSES[config._attn_implementation](config)
"""


def why_not(text, *names):
    file = source.read(text)
    return source.why_not([(name, file) for name in names])


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (ASKS, "PlainAttention", None),
        (INDICES, "SparseAttention", "SparseAttention passes `indices`"),
        (THROUGH_A_FUNCTION, "FarAttention", "FarAttention passes `block_indices`"),
        (ADDS, "OwnAttention", "OwnAttention computes attention itself"),
        (FILLS, "OwnAttention", "OwnAttention computes attention itself"),
        (ASKS + ADDS, "OwnAttention", "OwnAttention computes attention itself"),
        (ASKS + FILLS_BOOLS, "OwnAttention", None),
        (TABLE, "Layer", "a table of attentions of its own"),
        (ASKS, "NotInTheFile", None),
    ],
    ids=str,
)
def test_models_by_their_source(text, name, words):
    found = why_not(text, name)
    assert found is None if words is None else words in found


def test_a_class_has_the_attention_of_its_bases():
    derived = "class Derived(SparseAttention):\n    pass\n"
    assert "Derived passes `indices`" in why_not(INDICES + derived, "Derived", "SparseAttention")


@pytest.mark.parametrize(
    "name", ["indices", "block_indices", "position_bias", "head_mask", "cu_seq_lens_q", "of_a_model_to_come"]
)
def test_keywords_that_are_not_read(name):
    with pytest.raises(attn_rs.Unsupported, match=f'SomeAttention passes `{name}`.*"eager"'):
        keywords.refuse("SomeAttention", {"position_ids": [1], name: [1]})
    keywords.refuse("SomeAttention", {"position_ids": [1], name: None})


def test_output_attentions():
    keywords.refuse("SomeAttention", {"output_attentions": False})
    with pytest.raises(attn_rs.Unsupported, match="output_attentions"):
        keywords.refuse("SomeAttention", {"output_attentions": True})
