"""Models of Transformers with random weights on the CPU, against its own attention. Skipped without both."""

import models
import pytest

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
