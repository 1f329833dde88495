"""Sampling: from logits to the next token of each row, and verification of drafts, on the CPU and on CUDA with the same
bits.

`sample` applies penalties, a token mask and the temperature, filters by top-k, top-p and min-p, and draws. On a CUDA
device each function is one launch, which a CUDA graph can capture after `prepare` or a first call. Random numbers
depend on the seed and the position of a row alone, and a call advances positions by itself, so that a replayed graph
draws anew.

All tensors of a call are on one device. Outputs share no memory with other tensors of the call; those that are not
given are new memory of the library and the device of the first tensor. `stream` is the address of a CUDA stream, by
default the current one of torch, else the default stream. Arrays of uint32 or uint64 may be of int32 or int64, whose
bits are read as those of unsigned numbers.

What does not fit raises InvalidTensor or InvalidArgument, and nothing is written then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from . import _native
from ._arrays import check_count, check_tensor, empty, named, run_op

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ChainOut",
    "DrawParams",
    "Filters",
    "LogitFilters",
    "SampleOut",
    "SamplingParams",
    "TreeOut",
    "mask_logits",
    "prepare",
    "renorm_probs",
    "sample",
    "sample_probs",
    "softmax",
    "verify_chain",
    "verify_tree",
]


class Filters(TypedDict, total=False):
    """Which tokens of a distribution are kept, as keywords. A parameter of rows is a number for all of them, or an
    array with one a row in memory of the device, which a captured launch reads again at each replay.

    top_k: keeps the k likeliest tokens; int32 of rows. 0 or negative: off, as by default.
    top_p: keeps the fewest likeliest tokens whose probabilities sum to at least p; float32 of rows. 1 or more: off, as
        by default.
    min_p: keeps tokens that are at least this times as likely as the likeliest; float32 of rows. 0: off, as by default.
    order: `"top_k_first"` (default): top-p keeps a share of what top-k has kept. `"joint"`: both look at the whole
        distribution.
    token_mask: allowed tokens (a grammar), (rows, vocab / 32, rounded up) in uint32, of which bit `i % 32` of word
        `i / 32` is 1 if token i is allowed. None: all, as by default.
    indices: int32 of rows: the row of the first argument that each row of results is from. None: its own, as by
        default.
    """

    top_k: Any
    top_p: Any
    min_p: Any
    order: str
    token_mask: Any
    indices: Any


class LogitFilters(Filters, total=False):
    """`Filters` of logits.

    temperature: logits are divided by it; float32 of rows, 1 by default. 0 or negative: greedy, the likeliest token.
    """

    temperature: Any


class DrawParams(Filters, total=False):
    """`Filters`, and what tokens are drawn with.

    seeds: of random numbers; uint64 of rows, 0 by default. Rows with the same seed and position draw with the same
        number, so that requests should have seeds of their own.
    log_probs_of: `"scaled"` (default): log-probabilities are of the distribution before the filters, or `"kept"`: after
        them.
    """

    seeds: Any
    log_probs_of: str


class SamplingParams(DrawParams, total=False):
    """What tokens are drawn from and with: `DrawParams`, the temperature of `LogitFilters`, and penalties for tokens
    that have occurred, which need `counts`.

    repetition: logits of tokens in the prompt or drawn before are divided by it if they are above 0, and else
        multiplied; float32 of rows. 1: off, as by default.
    presence: is subtracted from logits of tokens drawn before; float32 of rows. 0: off, as by default.
    frequency: is subtracted as often as the token was drawn; float32 of rows. 0: off, as by default.
    """

    temperature: Any
    repetition: Any
    presence: Any
    frequency: Any


class SampleOut(NamedTuple):
    """What `sample` wrote; None is what was not asked for."""

    ids: Any
    log_probs: Any
    probs: Any
    top_ids: Any
    top_log_probs: Any


class ChainOut(NamedTuple):
    """What `verify_chain` wrote."""

    ids: Any
    accepted: Any
    emitted: Any


class TreeOut(NamedTuple):
    """What `verify_tree` wrote."""

    ids: Any
    accept_index: Any
    accepted: Any


def sample(
    logits: Any,
    positions: Any,
    *,
    out: Any = None,
    counts: Any = None,
    log_probs: Any = None,
    return_log_probs: bool = False,
    out_probs: Any = None,
    return_probs: bool = False,
    top: int = 0,
    top_ids: Any = None,
    top_log_probs: Any = None,
    stream: int | None = None,
    **params: Unpack[SamplingParams],
) -> SampleOut:
    """Draws a token of each row of logits.

    Defined for every input: NaN counts as -inf; if there is +inf, such tokens share the probability; among equal logits
    the lower id comes first; a row without an allowed token gives -1.

    Args:
        logits: (rows, vocab) in float16, bfloat16 or float32.
        positions: int64 of rows: the position whose random number a row draws with. The call adds 1.
        out: where the tokens go, int32 of rows; by default new memory.
        counts: (rows, vocab) in uint32: how often each token was drawn, plus 2^31 if it is in the prompt. The call
            counts the drawn token. Penalties need it.
        log_probs: where the natural log-probability of the drawn token goes, float32 of rows; by default new memory
            with `return_log_probs`, and else none.
        out_probs: where the probabilities go that the token is drawn from, (rows, vocab) in float32; by default new
            memory with `return_probs`, and else none.
        top: so many of the likeliest tokens are returned as well, in falling order: at most 64.
        top_ids, top_log_probs: where they go, (rows, top) in int32, -1 where there are fewer, and float32, -inf there;
            by default new memory.
        params: `SamplingParams` as keywords.

    Raises:
        WrongType: a keyword that is none, by its name.
    """
    given = (log_probs, return_log_probs, out_probs, return_probs, top, top_ids, top_log_probs)
    return _draw(_native.sample, "logits", logits, positions, out, counts, given, stream, dict(params))


def sample_probs(
    probs: Any,
    positions: Any,
    *,
    out: Any = None,
    counts: Any = None,
    log_probs: Any = None,
    return_log_probs: bool = False,
    out_probs: Any = None,
    return_probs: bool = False,
    top: int = 0,
    top_ids: Any = None,
    top_log_probs: Any = None,
    stream: int | None = None,
    **params: Unpack[DrawParams],
) -> SampleOut:
    """Draws a token of each row of probabilities, (rows, vocab) in float16, bfloat16 or float32, which need not sum to
    1. What is not a positive normal number counts as 0. Other arguments are those of `sample`; temperatures and
    penalties are for logits alone."""
    given = (log_probs, return_log_probs, out_probs, return_probs, top, top_ids, top_log_probs)
    return _draw(_native.sample_probs, "probs", probs, positions, out, counts, given, stream, dict(params))


def _draw(
    native: Any, name: str, x: Any, positions: Any, out: Any, counts: Any, given: Any, stream: Any, params: Any
) -> SampleOut:
    log_probs, return_log_probs, probs, return_probs, top, top_ids, top_log_probs = given
    rows, vocab = _results(name, x, params)
    out = empty(x, (rows,), "int32") if out is None else out
    if log_probs is None and return_log_probs:
        log_probs = empty(x, (rows,), "float32")
    if probs is None and return_probs:
        probs = empty(x, (rows, vocab), "float32")
    if top_ids is not None or top_log_probs is not None or check_count("top", top):
        for given_name, given_top in (("top_ids", top_ids), ("top_log_probs", top_log_probs)):
            if given_top is not None:
                check_tensor(given_name, given_top, 2)
                top = given_top.shape[1]
        top_ids = empty(x, (rows, top), "int32") if top_ids is None else top_ids
        top_log_probs = empty(x, (rows, top), "float32") if top_log_probs is None else top_log_probs
    outputs = {"out": out, "log_probs": log_probs, "out_probs": probs, "counts": counts, "positions": positions}
    tops = {"top_ids": top_ids, "top_log_probs": top_log_probs}
    run_op(native, **{name: x}, **outputs, **tops, **params, stream=stream)
    return SampleOut(out, log_probs, probs, top_ids, top_log_probs)


def _results(name: str, x: Any, params: Any) -> tuple[int, int]:
    """Rows of the results, and the vocabulary."""
    check_tensor(name, x, 2)
    indices = params.get("indices")
    if indices is None:
        return x.shape[0], x.shape[1]
    check_tensor("indices", indices, 1)
    return indices.shape[0], x.shape[1]


def softmax(logits: Any, *, out: Any = None, stream: int | None = None, **filters: Unpack[LogitFilters]) -> Any:
    """The probabilities of logits after token mask, temperature and filters. What is less likely than 2^-36 of the
    likeliest token is 0.

    Args:
        logits: (rows, vocab) in float16, bfloat16 or float32.
        out: where they go, (rows, vocab) in float32; by default new memory.
        filters: `LogitFilters` as keywords.

    Returns:
        The probabilities.
    """
    return _keep(_native.softmax, "logits", logits, out, stream, dict(filters))


def renorm_probs(probs: Any, *, out: Any = None, stream: int | None = None, **filters: Unpack[Filters]) -> Any:
    """Probabilities normalised after the filters.

    Args:
        probs: (rows, vocab) in float16, bfloat16 or float32, which need not sum to 1.
        out: where they go, (rows, vocab) in float32; by default new memory.
        filters: `Filters` as keywords.

    Returns:
        The probabilities.
    """
    return _keep(_native.renorm_probs, "probs", probs, out, stream, dict(filters))


def mask_logits(logits: Any, *, out: Any = None, stream: int | None = None, **filters: Unpack[LogitFilters]) -> Any:
    """The logits that the filters keep, and -inf in place of others. Top-k counts every token that is not -inf.

    Args:
        logits: (rows, vocab) in float16, bfloat16 or float32.
        out: where they go, (rows, vocab) in float32; by default new memory.
        filters: `LogitFilters` as keywords.

    Returns:
        The logits.
    """
    return _keep(_native.mask_logits, "logits", logits, out, stream, dict(filters))


def _keep(native: Any, name: str, x: Any, out: Any, stream: Any, filters: Any) -> Any:
    shape = _results(name, x, filters)
    out = empty(x, shape, "float32") if out is None else out
    run_op(native, **{name: x}, out=out, stream=stream, **filters)
    return out


def verify_chain(
    draft_probs: Any,
    draft_ids: Any,
    target_probs: Any,
    positions: Any,
    *,
    seeds: Any = 0,
    out: Any = None,
    accepted: Any = None,
    emitted: Any = None,
    stream: int | None = None,
) -> ChainOut:
    """Verifies chains of drafts (Leviathan et al., ICML 2023): draft i is emitted with probability
    `min(1, target / draft)`; the first that is not is replaced by a draw from `max(target - draft, 0)`; behind all
    drafts follows a draw from the last target.

    Args:
        draft_probs: (requests, drafts, vocab) in float32: what each draft was drawn from.
        draft_ids: (requests, drafts) in int32: the drafts; -1 behind those of a request with fewer.
        target_probs: (requests, drafts + 1, vocab) in float32: the probabilities of the model, after its filters.
        positions: int64 of requests: the position of the first draft. The call adds the emitted drafts and 1.
        seeds: of random numbers: a number, or uint64 of requests.
        out: where the emitted drafts and one more token go, (requests, drafts + 1) in int32, -1 behind them.
        accepted: where the number of drafts that pass their tests goes, each for itself, int32 of requests.
        emitted: where the number of emitted drafts goes, those before the first that fails, int32 of requests.

    Returns:
        What was written: `ids`, `accepted`, `emitted`.
    """
    check_tensor("draft_probs", draft_probs, 3)
    requests, drafts, _ = draft_probs.shape
    out = empty(draft_probs, (requests, drafts + 1), "int32") if out is None else out
    accepted = empty(draft_probs, (requests,), "int32") if accepted is None else accepted
    emitted = empty(draft_probs, (requests,), "int32") if emitted is None else emitted
    run_op(
        _native.verify_chain,
        draft_probs=draft_probs,
        draft_ids=draft_ids,
        target_probs=target_probs,
        positions=positions,
        seeds=seeds,
        out=out,
        accepted=accepted,
        emitted=emitted,
        stream=stream,
    )
    return ChainOut(out, accepted, emitted)


def verify_tree(
    draft_ids: Any,
    retrieve_index: Any,
    retrieve_next_token: Any,
    retrieve_next_sibling: Any,
    target_probs: Any,
    positions: Any,
    *,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    seeds: Any = 0,
    out: Any = None,
    accept_index: Any = None,
    accepted: Any = None,
    stream: int | None = None,
) -> TreeOut:
    """Verifies trees of drafts, as in SGLang and FlashInfer. Node 0 of a request is its last token, which is no draft.
    Behind an accepted node one random number goes through its children: the first up to which their probabilities add
    up to it is accepted. If none is, a token is drawn from the others.

    Args:
        draft_ids: (requests, nodes) in int32: the token of each node; at most 2048 nodes.
        retrieve_index: (requests, nodes) in int32: where the result of a node goes in `ids`, each elsewhere.
        retrieve_next_token: (requests, nodes) in int32: the first child of a node; -1: none.
        retrieve_next_sibling: (requests, nodes) in int32: the next child of the same parent; -1: none.
        target_probs: (requests, nodes, vocab) in float32: the probabilities of the model behind each node.
        positions: int64 of requests: the position of the token behind node 0. The call adds the accepted drafts and 1.
        threshold_single: a draft whose probability reaches it is accepted without a test. 1: none.
        threshold_acc: divides the probability of drafts: below 1 more are accepted. 1: exact.
        seeds: of random numbers: a number, or uint64 of requests.
        out: where the token behind each accepted node goes, (requests * nodes) in int32; others stay as they are. By
            default new memory, where they are 0.
        accept_index: where the `retrieve_index` of the accepted nodes goes, node 0 first and -1 behind them, (requests,
            nodes) in int32.
        accepted: where the number of accepted drafts goes, node 0 not counted, int32 of requests.

    Returns:
        What was written: `ids`, `accept_index`, `accepted`.
    """
    check_tensor("target_probs", target_probs, 3)
    requests, nodes, _ = target_probs.shape
    out = empty(target_probs, (requests * nodes,), "int32", zero=True) if out is None else out
    accept_index = empty(target_probs, (requests, nodes), "int32") if accept_index is None else accept_index
    accepted = empty(target_probs, (requests,), "int32") if accepted is None else accepted
    run_op(
        _native.verify_tree,
        target_probs=target_probs,
        draft_ids=draft_ids,
        retrieve_index=retrieve_index,
        retrieve_next_token=retrieve_next_token,
        retrieve_next_sibling=retrieve_next_sibling,
        positions=positions,
        threshold_single=threshold_single,
        threshold_acc=threshold_acc,
        seeds=seeds,
        out=out,
        accept_index=accept_index,
        accepted=accepted,
        stream=stream,
    )
    return TreeOut(out, accept_index, accepted)


def prepare(dtype: Any, *, probs: bool = False, device: Any = "cuda") -> None:
    """Prepares sampling from logits of a type, or from probabilities, and verification, so that a CUDA graph can
    capture the first call: kernels are compiled and loaded. On the CPU there is nothing to do.

    Args:
        dtype: `"float16"`, `"bfloat16"`, `"float32"`, or a dtype of torch or numpy.
        probs: whether rows are probabilities (`sample_probs`, `renorm_probs`), and not logits.
        device: `"cuda"`, `"cuda:1"`, or a device of torch.
    """
    _native.prepare_sampling(named(dtype), probs, str(device))
