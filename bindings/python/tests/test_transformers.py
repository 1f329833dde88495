"""Models of Transformers with random weights on the CPU, against its own attention. Skipped without both."""

import families
import models
import pytest

import attn_rs

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(name="pair", scope="module", params=models.NAMES)
def a_pair(request):
    return models.pair(request.param)


def batch():
    torch.manual_seed(1)
    return torch.randint(3, 128, (2, 23))


@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_logits(pair, padding):
    ids = batch()
    mask = models.masks(ids)[padding]
    with torch.no_grad():
        want, got = (model(ids, attention_mask=mask).logits for model in pair)
    seen = torch.ones_like(ids) if mask is None else mask
    torch.testing.assert_close(got * seen[..., None], want * seen[..., None], atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize(
    ("padding", "further"),
    [
        ("none", {}),
        ("left", {}),
        ("none", {"cache_implementation": "static"}),
        ("left", {"cache_implementation": "static"}),
        ("none", {"num_beams": 2}),
    ],
)
def test_generation(pair, padding, further):
    ids = batch()
    mask = models.masks(ids)[padding]
    mask = torch.ones_like(ids) if mask is None else mask
    how = {"attention_mask": mask, "max_new_tokens": 12, "do_sample": False, **further}
    want, got = (model.generate(ids, **how) for model in pair)
    assert got.tolist() == want.tolist()


def test_packed_sequences(pair):
    """Positions that begin anew are other sequences."""
    ids = batch()[:1]
    positions = torch.cat([torch.arange(9), torch.arange(14)])[None]
    with torch.no_grad():
        want, got = (model(ids, position_ids=positions, use_cache=False).logits for model in pair)
    torch.testing.assert_close(got, want, atol=2e-6, rtol=2e-6)


def test_compiled_models(pair):
    ids = batch()
    with torch.no_grad():
        want = pair[0](ids, use_cache=False).logits
        model = torch.compile(pair[1], fullgraph=pair[1].config.model_type != "gpt_oss", backend="aot_eager")
        torch.testing.assert_close(model(ids, use_cache=False).logits, want, atol=2e-6, rtol=2e-6)


def test_what_is_refused(pair):
    ids = batch()
    mask = torch.zeros(2, 1, 23, 23)
    mask[0, 0, 0, 1] = 0.5
    with torch.no_grad(), pytest.raises(NotImplementedError, match="adds numbers"):
        pair[1](ids, attention_mask=mask)
    with pytest.raises(RuntimeError, match="autograd"):
        pair[1](ids).logits.sum().backward()


def tiny(family, attention, **further):
    """A small model of a family."""
    import attn_rs.transformers

    attn_rs.transformers.register()
    cls = {family: name for family, kind, name in families.kinds() if kind == "causal"}[family]
    of = families.config(family, "causal", cls)
    for name, value in further.items():
        setattr(of, name, value)
    model = families.build(cls, of, attention, "cpu")
    families.randomise(model)
    return model


@pytest.mark.parametrize("family", ["phimoe", "qwen2_moe"])
def test_windows_that_the_mask_alone_has(family):
    """These models call their attention without `sliding_window`."""
    further = {"use_sliding_window": True, "sliding_window": 5, "layer_types": 2 * ["sliding_attention"]}
    pair = [tiny(family, attention, **further) for attention in ("eager", "attn_rs")]
    ids = batch()
    for mask in models.masks(ids).values():
        seen = torch.ones_like(ids) if mask is None else mask
        with torch.no_grad():
            want, got = (model(ids, attention_mask=mask).logits * seen[..., None] for model in pair)
        torch.testing.assert_close(got, want, atol=1e-5 * want.abs().max().item(), rtol=0)
    with torch.no_grad():
        want = pair[0](ids).logits[:, -1]
        ids[:, 0] = 3 + (ids[:, 0] + 1) % 100
        # two layers of windows do not see the first token
        torch.testing.assert_close(pair[1](ids).logits[:, -1], want, atol=1e-5 * want.abs().max().item(), rtol=0)


@pytest.mark.parametrize("family", ["bloom", "mpt", "xglm", "gpt_neo", "falcon", "git"])
def test_models_with_an_attention_of_their_own(family):
    words = r'(computes attention itself|table of attentions of its own).*attn_implementation="eager"'
    with pytest.raises(attn_rs.Unsupported, match=words) as refused:
        tiny(family, "attn_rs")
    assert family.replace("_", "") in str(refused.value).lower()


@pytest.mark.parametrize(
    ("family", "keyword"),
    [
        ("axk2", "indices"),
        ("deepseek_v32", "indices"),
        ("glm_moe_dsa", "indices"),
        ("hy_v4", "indices"),
        ("minimax_m3_vl_text", "block_indices"),
    ],
)
def test_models_that_pass_keywords_which_are_not_read(family, keyword):
    with pytest.raises(attn_rs.Unsupported, match=f'passes `{keyword}`.*attn_implementation="eager"'):
        tiny(family, "attn_rs")


def test_models_that_are_set_to_it():
    model = tiny("llama", "eager")
    model.set_attn_implementation("attn_rs")
    assert model.config._attn_implementation == "attn_rs"
    with pytest.raises(attn_rs.Unsupported, match="passes `indices`"):
        tiny("deepseek_v32", "eager").set_attn_implementation("attn_rs")


def test_keywords_of_a_call():
    """Those of a model's caller reach the attention of each layer."""
    model = tiny("llama", "attn_rs")
    with torch.no_grad():
        model(batch(), output_router_logits=True, seq_idx=None)
        with pytest.raises(attn_rs.Unsupported, match="LlamaAttention passes `cu_seq_lens_q`"):
            model(batch(), cu_seq_lens_q=torch.tensor([0, 9, 23]))
        with pytest.raises(attn_rs.Unsupported, match="LlamaAttention passes `something_new`"):
            model(batch(), something_new=1)


def test_keywords_without_effect_are_read_by_no_attention_of_transformers():
    from attn_rs._transformers_keywords import WITHOUT_EFFECT

    found = [name for name, text in eager_attentions() for keyword in WITHOUT_EFFECT if keyword in text]
    assert not found


def eager_attentions():
    """Names, arguments and keywords of all attentions that models have for `eager`."""
    import ast
    from pathlib import Path

    import transformers

    for file in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        for of in ast.parse(file.read_text()).body:
            if isinstance(of, ast.FunctionDef) and "eager_attention" in of.name:
                nodes = list(ast.walk(of))
                arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
                yield file.name, arguments | {node.value for node in nodes if isinstance(node, ast.Constant)}


def a_mask(window=None, padding=None, queries=8, keys=8, batch=2, **further):
    import attn_rs.transformers
    from transformers import masking_utils

    function = masking_utils.causal_mask_function
    if window is not None:
        function = masking_utils.sliding_window_causal_mask_function(window)
    further = {"mask_function": function, "attention_mask": padding, "q_offset": keys - queries, **further}
    ours = attn_rs.transformers.mask(batch, queries, keys, **further)
    further.pop("allow_is_bidirectional_skip", None)
    return ours, masking_utils.eager_mask(batch, queries, keys, **further)


def test_a_mask_says_what_it_is():
    from transformers import masking_utils

    assert a_mask()[0].says == ("causal",)
    assert a_mask(3)[0].says == ("causal", "sliding_window(window=3)")
    both = {"mask_function": masking_utils.bidirectional_mask_function, "allow_is_bidirectional_skip": True}
    assert a_mask(**both)[0].says == ()
    left = torch.tensor([[False] * 2 + [True] * 6, [True] * 8])
    assert a_mask(3, left)[0].first.tolist() == [2, 0]
    # what has no words is a tensor alone
    assert not hasattr(a_mask(3, left.flip(1))[0], "says")
    assert not hasattr(a_mask(q_offset=torch.tensor(0))[0], "says")
    chunks = masking_utils.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64))
    assert not hasattr(a_mask(mask_function=chunks)[0], "says")


@pytest.mark.parametrize("window", [None, 3])
def test_what_a_model_does_to_a_mask_is_not_lost(window):
    mask, want = a_mask(window)
    for whole in (mask[:, :, :, :8], mask.detach(), mask.to("meta")):
        assert whole.says == mask.says == a_mask(window)[0].says and whole.shape == want.shape
    other = torch.rand(2, 1, 8, 8)
    of = {
        "slice": lambda x: x[:, :, 2:, :5],
        "add": lambda x: x + other,
        "where": lambda x: torch.where(x == 0, 0.0, -1.0),
        "fill": lambda x: other.masked_fill(x < 0, 1.0),
        "expand": lambda x: x.expand(2, 4, 8, 8),
        "pad": lambda x: torch.nn.functional.pad(x, (0, 3)),
        "cat": lambda x: torch.cat([x, other], -1),
        "half": lambda x: x.to(torch.bfloat16),
        "sum": lambda x: x.sum(),
    }
    for name, change in of.items():
        mask, want = a_mask(window)
        got, expected = change(mask), change(want)
        assert getattr(got, "says", None) is None, name
        assert torch.equal(got, expected), name


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
def test_a_mask_that_is_written_to(grad):
    with grad():
        for write in (lambda x: x[:, :, 0, 1].fill_(0), lambda x: x[:, :, :, :8].masked_fill_(torch.eye(8) == 1, -9)):
            mask, want = a_mask(batch=1)
            write(mask)
            write(want)
            assert mask.says is None and torch.equal(mask.elements(), want)


def test_a_model_may_add_a_mask_to_its_logits():
    """As the model does with that of `eager`."""
    mask, want = a_mask(3)
    logits = torch.randn(2, 4, 8, 8)
    assert torch.equal(logits + mask, logits + want)
    assert torch.equal(logits + mask[:, :, :, :8], logits + want)


class Layer:
    training = False


def call(mask=None, queries=8, keys=8, module=Layer, **further):
    import attn_rs.transformers

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, n, 16) for heads, n in ((4, queries), (2, keys), (2, keys)))
    return attn_rs.transformers.attention_forward(module, q, k, v, mask, **further)[0], (q, k, v)


def softmax(q, k, v, seen):
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2)


@pytest.mark.parametrize("window", [None, 3])
def test_the_mask_is_what_counts(window):
    """Whatever the call says of a window or of causality, as in Transformers' `eager`."""
    mask, seen = a_mask(window)
    for further in ({}, {"sliding_window": 2}, {"is_causal": True}):
        for given in (mask, seen, seen[:1], seen == 0):
            got, made_of = call(given, **further)
            torch.testing.assert_close(got, softmax(*made_of, seen), atol=2e-6, rtol=2e-6)


def test_a_mask_of_other_keys_than_those_of_the_call():
    mask, seen = a_mask(queries=4, keys=12)
    got, made_of = call(mask, queries=4, keys=8)
    torch.testing.assert_close(got, softmax(*made_of, seen[..., :8]), atol=2e-6, rtol=2e-6)


def test_a_mask_that_is_the_same_for_all_queries():
    seen = torch.rand(2, 1, 1, 8) < 0.7
    seen[..., 0] = True
    got, made_of = call(seen)
    torch.testing.assert_close(got, softmax(*made_of, seen), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize(
    ("further", "words"),
    [
        ({}, "neither a mask nor an argument `is_causal`"),
        ({"is_causal": True, "queries": 4}, "4 queries and 8 keys needs a mask"),
        ({"is_causal": False, "sliding_window": 4}, "a window of an attention that is not causal"),
        ({"is_causal": True, "indices": torch.zeros(2, 8, 3)}, "passes `indices`"),
        ({"is_causal": True, "position_bias": torch.zeros(1, 4, 8, 8)}, "passes `position_bias`"),
        ({"mask": torch.ones(2, 1, 8, 8, dtype=torch.int64)}, "the mask is of torch.int64"),
        ({"mask": torch.ones(2, 8, dtype=torch.bool)}, "the mask has the shape"),
        ({"mask": torch.ones(2, 4, 8, 8, dtype=torch.bool)}, "4 heads"),
    ],
)
def test_calls_that_do_not_say_what_is_seen(further, words):
    with pytest.raises(attn_rs.AttnError, match=words):
        call(**further)


def test_calls_without_a_mask():
    every = torch.ones(8, 8, dtype=torch.bool)
    for further, seen in [
        ({"is_causal": False}, every),
        ({"is_causal": True}, every.tril()),
        ({"is_causal": True, "sliding_window": 3}, every.tril() & every.triu(-2)),
        ({"queries": 1}, every[:1]),
    ]:
        got, made_of = call(**further)
        torch.testing.assert_close(got, softmax(*made_of, seen), atol=2e-6, rtol=2e-6)
