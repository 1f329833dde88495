"""Transformers' models with random weights on a GPU, against its own attention."""

import models
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture(name="pairs", scope="module", params=models.NAMES)
def the_pairs(request, device):
    """In float32, and in bfloat16."""
    return [models.pair(request.param, device, dtype, head_dim=64) for dtype in (torch.float32, torch.bfloat16)]


def batch(device):
    return torch.randint(3, 128, (2, 150), device=device)


@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_logits(pairs, device, padding):
    ids = batch(device)
    mask = models.masks(ids)[padding]
    seen = (torch.ones_like(ids) if mask is None else mask)[..., None]
    with torch.no_grad():
        (exact, ours), (rounded, ours_rounded) = (
            [model(ids, attention_mask=mask).logits.float() * seen for model in pair] for pair in pairs
        )
    torch.testing.assert_close(ours, exact, atol=2e-4, rtol=2e-4)
    # two bfloat16 models are as far from the exact one as its rounding
    theirs, own = ((of - exact).norm().item() for of in (rounded, ours_rounded))
    assert own < 2 * theirs + 1e-3, (own, theirs)


@pytest.mark.parametrize("further", [{}, {"cache_implementation": "static"}, {"num_beams": 2}], ids=str)
@pytest.mark.parametrize("padding", ["none", "left"])
def test_generation(pairs, device, padding, further):
    ids = batch(device)
    mask = models.masks(ids)[padding]
    mask = torch.ones_like(ids) if mask is None else mask
    how = {"attention_mask": mask, "max_new_tokens": 24, "do_sample": False, "disable_compile": True, **further}
    want, got = (model.generate(ids, **how) for model in pairs[0])
    assert got.tolist() == want.tolist()
    assert pairs[1][1].generate(ids, **how).shape[1] > ids.shape[1]
