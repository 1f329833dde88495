"""`flashinfer.sampling` by the samplers of attn_rs: the same distributions, with other random numbers. Without `seed`
these come from torch's generator, or from `generator`; with it they depend on `seed`, `offset` and the row."""

from typing import Any

import torch

from .. import sampling as _sampling
from ._bindings import Maybe, Number, Tensor, bind, shown

__all__ = ["chain_speculative_sampling", "min_p_sampling_from_probs", "sampling_from_logits", "sampling_from_probs",
    "softmax", "top_k_mask_logits", "top_k_renorm_prob", "top_k_renorm_probs", "top_k_sampling_from_probs",
    "top_k_top_p_sampling_from_logits", "top_k_top_p_sampling_from_probs", "top_p_renorm_prob", "top_p_renorm_probs",
    "top_p_sampling_from_probs"]  # fmt: skip

Seed = int | Tensor | None
# rows of one seed draw from seeds that differ in many bits
_MIX = 0x1E3779B97F4A7C15


def _seeds(rows: int, device: torch.device, generator: torch.Generator | None, seed: Seed,
        offset: Seed) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A position and a seed for each row."""
    if seed is None:
        seeds = torch.randint(-(1 << 63), (1 << 63) - 1, (rows,), device=device, generator=generator)
        return torch.zeros_like(seeds), seeds
    first = torch.as_tensor(0 if offset is None else offset, device=device).to(torch.int64)
    seeds = torch.as_tensor(seed, device=device).to(torch.int64) ^ torch.arange(rows, device=device) * _MIX
    return first.expand(rows).clone(), seeds


def _filters(rows: int, thresholds: dict[str, Number]) -> dict[str, Any]:
    """Thresholds as kernels read them: one number, or one of each row."""
    for name, value in thresholds.items():
        if isinstance(value, Tensor):
            if value.dim() != 1:
                shape, got = ("", f"{value.dim()}D") if value.dim() else (" of shape (batch_size,)", "0-dimensional")
                raise ValueError(f"Expected a 1D tensor{shape} or scalar for {name}, got a {got} tensor")
            if len(value) != rows:
                raise ValueError(f"Sampling parameter tensor batch size mismatch: {name} has {len(value)} of {rows}")
            thresholds[name] = value.to(torch.int32 if name == "top_k" else torch.float32).contiguous()
    return thresholds


def _drawing(name: str, *thresholds: str) -> Any:
    """A function that draws from `name` with these thresholds."""
    both, limits = "filter_apply_order" if len(thresholds) > 1 else "", " ".join(thresholds)
    order = f"{name} {limits} | indices {both} deterministic generator check_nan seed offset return_valid"

    @shown(order)
    def draw(*args: Any, **named: Any) -> Any:
        """Draws a token of each row, (rows, vocab), or of those that `indices` name. Thresholds are a number, or one of
        each row of results. With `return_valid` also whether a row has a token to draw; one without gives 0."""
        given = bind(order, args, named)
        source, indices, filters = given[name], given.get("indices"), given.get("filter_apply_order", "top_k_first")
        if filters not in ("top_k_first", "joint"):
            raise ValueError(f"Invalid filter_apply_order: {filters}")
        if given.get("check_nan") and bool(source.isnan().any()):
            raise ValueError(f"Input {name} contains NaN.")
        rows = source.shape[0] if indices is None else len(indices)
        positions, seeds = _seeds(rows, source.device, *(given.get(of) for of in ("generator", "seed", "offset")))
        how = {"order": filters, "indices": None if indices is None else indices.int(), "seeds": seeds}
        how |= _filters(rows, {of: given[of] for of in thresholds})
        draws: Any = _sampling.sample if name == "logits" else _sampling.sample_probs
        ids: Tensor = draws(source, positions, **how).ids
        tokens = ids.clamp(min=0).to(torch.int32 if indices is None else indices.dtype)
        return (tokens, ids >= 0) if given.get("return_valid") else tokens

    return draw


sampling_from_logits = _drawing("logits")
sampling_from_probs = _drawing("probs")
top_p_sampling_from_probs = _drawing("probs", "top_p")
top_k_sampling_from_probs = _drawing("probs", "top_k")
min_p_sampling_from_probs = _drawing("probs", "min_p")
top_k_top_p_sampling_from_logits = _drawing("logits", "top_k", "top_p")
top_k_top_p_sampling_from_probs = _drawing("probs", "top_k", "top_p")


def _keeping(keep: Any, order: str) -> Any:
    name, threshold = order.replace("|", "").split()[:2]

    @shown(order)
    def kept(*args: Any, **named: Any) -> Tensor:
        """What a threshold keeps, a number or one of each row: probabilities sum to 1, and other logits are -inf. Of
        logits divided by `temperature` the probabilities, 0 below 2^-36 of the likeliest token's."""
        given = bind(order, args, named)
        limit = given.get(threshold)
        rows: Tensor = keep(given[name], **_filters(len(given[name]), {threshold: 1.0 if limit is None else limit}))
        return rows.to(given[name].dtype)

    return kept


softmax = _keeping(_sampling.softmax, "logits | temperature enable_pdl")
top_p_renorm_probs = _keeping(_sampling.renorm_probs, "probs top_p | is_deterministic")
top_k_renorm_probs = _keeping(_sampling.renorm_probs, "probs top_k |")
top_k_mask_logits = _keeping(_sampling.mask_logits, "logits top_k |")
top_p_renorm_prob, top_k_renorm_prob = top_p_renorm_probs, top_k_renorm_probs


def chain_speculative_sampling(draft_probs: Tensor, draft_token_ids: Tensor, target_probs: Tensor,
        maybe_output_accepted_token_num: Maybe = None, maybe_output_emitted_draft_token_num: Maybe = None,
        deterministic: bool = True, generator: torch.Generator | None = None, seed: Seed = None,
        offset: Seed = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Verifies chains of drafts: the tokens, the drafts that would be accepted each by itself, and those emitted. Both
    counts are added to the tensors that are given."""
    positions, seeds = _seeds(len(draft_probs), draft_probs.device, generator, seed, offset)
    ids = draft_token_ids.int().contiguous()
    tokens, *found = _sampling.verify_chain(draft_probs, ids, target_probs, positions, seeds=seeds)
    given = maybe_output_accepted_token_num, maybe_output_emitted_draft_token_num
    accepted, emitted = (own if to is None else to.add_(own) for own, to in zip(found, given, strict=True))
    return tokens, accepted, emitted
