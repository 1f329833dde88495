"""Attention over several devices, each a rank of a group, over NCCL.

    group = parallel.Communicator.of(torch.distributed.group.WORLD, "cuda:0")

- `DecodeContextParallel`: keys are interleaved over ranks, and the states (o, lse) of all ranks are merged.
- `HeadParallel`: heads are shared out to ranks that hold tokens (Ulysses).
- `PrefillContextParallel`: the tokens of prompts are on several ranks, which gather keys and values.

All ranks make the same calls in the same order. Calls launch and return, and a CUDA graph can capture them after a
first call. Work that waits for a rank that failed never ends on a device: `Communicator.wait` ends it after the limit
of the group, and raises.
"""

from collections.abc import Sequence
from typing import Any

from . import _native
from ._arrays import check_tensor, empty
from ._errors import AttnError
from ._plan import Plan

__all__ = [
    "Communicator",
    "DecodeContextParallel",
    "HeadParallel",
    "PrefillContextParallel",
    "interleaved_lens",
]


class Communicator:
    """A rank of a group of devices. `Communicator.of` makes it for a process group of torch, `Communicator.threads` for
    threads on the CPU."""

    def __init__(self, native: _native.Communicator) -> None:
        self.native = native

    @classmethod
    def of(cls, group: Any, device: Any, *, limit: float = 60.0) -> "Communicator":
        """A communicator of its own for the ranks of a process group of `torch.distributed`, of any backend.

        Args:
            group: the process group, all of whose ranks make this call.
            device: the CUDA device of this rank.
            limit: seconds that ranks wait for each other: here, and in `wait`.

        Raises:
            NoDevice: no NCCL.
            CudaFailure: a rank that did not come, a failure of NCCL.
        """
        import torch.distributed as dist

        rank, first = dist.get_rank(group), dist.get_global_rank(group, 0)
        ids: list[Any] = [None]
        if rank == 0:
            try:
                ids = [_native.Communicator.unique_id()]
            except AttnError as error:
                ids = [error]  # the others wait for it
        dist.broadcast_object_list(ids, src=first, group=group)
        if isinstance(ids[0], AttnError):
            raise ids[0]
        return cls(_native.Communicator.join(str(device), ids[0], rank, dist.get_world_size(group), limit))

    @classmethod
    def threads(cls, ranks: int, *, limit: float = 60.0) -> "list[Communicator]":
        """The ranks of a group of threads on the CPU, one for each thread."""
        return [cls(native) for native in _native.Communicator.threads(ranks, limit)]

    @property
    def rank(self) -> int:
        """The index of this rank."""
        return self.native.rank

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.native.ranks

    def all_gather(self, send: Any, receive: Any = None, *, stream: int | None = None) -> Any:
        """Gathers the tensors of all ranks; what is received has a dimension of ranks before those of `send`."""
        receive = empty(send, (self.ranks, *send.shape)) if receive is None else receive
        self.native.exchange(send, receive, "all_gather", stream)
        return receive

    def all_reduce(self, send: Any, receive: Any = None, *, stream: int | None = None) -> Any:
        """Adds up the tensors of all ranks: float16, bfloat16 or float32."""
        receive = empty(send, send.shape) if receive is None else receive
        self.native.exchange(send, receive, "all_reduce", stream)
        return receive

    def all_to_all(self, send: Any, receive: Any = None, *, stream: int | None = None) -> Any:
        """Sends part `r` of the first dimension of `send` to rank `r`, and receives a part of each rank."""
        receive = empty(send, send.shape) if receive is None else receive
        self.native.exchange(send, receive, "all_to_all", stream)
        return receive

    def wait(self, *, stream: int | None = None) -> None:
        """Waits for the work of a stream, no longer than the limit of the group, which is aborted then."""
        self.native.wait(stream)

    def abort(self, why: str) -> None:
        """Breaks the group: its calls raise, and other ranks get an error where they wait."""
        self.native.abort(why)


def interleaved_lens(kv_lens: Any, communicator: Communicator, interleave: int = 1) -> Any:
    """How many keys of each request this rank holds, where runs of `interleave` keys go to ranks 0, 1, .., and round
    again. `kv_lens` are whole numbers: one, an array, or a tensor on a device, where this can be captured."""
    whole = communicator.ranks * interleave
    rest = kv_lens % whole - communicator.rank * interleave
    own = kv_lens // whole * interleave
    if hasattr(rest, "clip"):
        return own + rest.clip(0, interleave)
    return own + min(max(rest, 0), interleave)


class DecodeContextParallel:
    """Decode whose keys are on several ranks (DCP). Each rank computes all queries over its own keys, by a plan of its
    own, possibly over none; the states of all ranks are exchanged and merged, in the order of ranks.

    A mask or a score of positions sees those of the whole sequence under `remap(interleaved_positions(..), ..)`; one
    query a request, which sees all keys, needs no mask. Sinks are counted once.

    Args:
        plan: a plan, or an attention, of this rank.
        communicator: the group.
        tokens: the most query tokens of a run.
        scatter_heads: whether a rank receives the outputs of its own heads alone, as many as heads / ranks
            (all-to-all); else those of all heads (all-gather).

    Raises:
        Unsupported: a variant with `output_transform`, or that reads coordinates of a rank's keys; heads that do not
            divide.
    """

    def __init__(self, plan: Any, communicator: Communicator, tokens: int, *, scatter_heads: bool = False) -> None:
        attention = plan.attention if isinstance(plan, Plan) else plan
        self.native = _native.DecodeContextParallel(attention, communicator.native, tokens, scatter_heads)
        self._parts = communicator.ranks if scatter_heads else 1

    def run(
        self,
        plan: Plan,
        q: Any,
        k: Any,
        v: Any = None,
        *,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        layer: _native.Attention | None = None,
        k_scale: Any = 1.0,
        v_scale: Any = 1.0,
        q_scale: Any = 1.0,
        stream: int | None = None,
    ) -> Any:
        """Runs the plan over the keys of this rank and merges the states of all; arguments and results are those of
        `Plan.run`, with `scatter_heads` of the heads of this rank."""
        check_tensor("q", q, 3)
        tokens, heads = q.shape[0], q.shape[1] // self._parts
        out = empty(q, (tokens, heads, plan.value_dim)) if out is None else out
        lse = empty(q, (tokens, heads), "float32") if lse is None and return_lse else lse
        scales = {"k_scale": k_scale, "v_scale": v_scale, "q_scale": q_scale}
        plan.native.run(q, k, v, out, lse, layer, stream=stream, parallel=self.native, **scales)
        return (out, lse) if return_lse else out


class HeadParallel:
    """Attention whose heads are shared out to ranks that hold tokens (Ulysses). Each rank receives all tokens of its
    heads, runs a plan over them, and gives the outputs back. Any mask works, as each rank has whole sequences.

    The tokens of a batch are cut into equal parts, in order (`tokens`). Hooks see the heads of the rank from 0 on.

    Args:
        plan: a plan of this rank over the whole batch, ragged, with the heads that `share` gives.
        communicator: the group.
        qo_heads, kv_heads: the heads of all ranks.

    Raises:
        Unsupported: heads that do not divide among the ranks; keys and values in a KV format or in one tensor.
    """

    def __init__(self, plan: Plan, communicator: Communicator, qo_heads: int, kv_heads: int) -> None:
        self._plan, self._heads = plan, qo_heads
        tokens = plan.native.qo_tokens
        self.native = _native.HeadParallel(plan.attention, communicator.native, qo_heads, kv_heads, tokens)

    @staticmethod
    def share(communicator: Communicator, qo_heads: int, kv_heads: int) -> tuple[int, int]:
        """The query and KV heads of a rank; ranks share a KV head where there are more ranks."""
        return _native.HeadParallel.share(communicator.native, qo_heads, kv_heads)

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens of this rank, as (begin, end)."""
        return self.native.tokens

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        out: Any = None,
        layer: _native.Attention | None = None,
        stream: int | None = None,
    ) -> Any:
        """Computes the outputs of the tokens of this rank: `q`, `k` and `v` of (tokens, heads of all, head dim)."""
        check_tensor("q", q, 3)
        shape = (*q.shape[:2], self._plan.value_dim)
        out = empty(q, shape, self._plan.attention.o_dtype) if out is None else out
        self.native.run(self._plan.native, q, k, v, out, layer, stream)
        return out


class PrefillContextParallel:
    """Self-attention of whole prompts whose tokens are on several ranks. Each rank has two chunks of each prompt
    (`chunks`), with their queries, keys and values; keys and values of all ranks are gathered. It is for masks under
    which no query sees a later key, such as `causal` and windows.

    Args:
        attention: an `attn_rs.Attention` of this rank, the same on all.
        communicator: the group.
        lens: the tokens of each prompt.

    Raises:
        Unsupported: a mask under which queries see later keys; keys and values in a KV format or in one tensor.
    """

    def __init__(self, attention: _native.Attention, communicator: Communicator, lens: Sequence[int]) -> None:
        self.native = _native.PrefillContextParallel(attention, communicator.native, list(lens))
        self._value_dim, self._o_dtype = attention.heads[3], attention.o_dtype

    @staticmethod
    def chunks(communicator: Communicator, tokens: int) -> list[tuple[int, int]]:
        """The two chunks of a prompt that a rank has, as (begin, end), in the order of its tensors."""
        return _native.PrefillContextParallel.chunks(communicator.native, tokens)

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        out: Any = None,
        lse: Any = None,
        return_lse: bool = False,
        layer: _native.Attention | None = None,
        stream: int | None = None,
    ) -> Any:
        """Gathers keys and values, and computes the outputs of the tokens of this rank.

        Args:
            q, k, v: of the tokens of this rank, (tokens, heads, head dim), prompt by prompt.
            out, lse, return_lse, layer, stream: as in `Plan.run`.
        """
        check_tensor("q", q, 3)
        out = empty(q, (*q.shape[:2], self._value_dim), self._o_dtype) if out is None else out
        lse = empty(q, tuple(q.shape[:2]), "float32") if lse is None and return_lse else lse
        self.native.run(q, k, v, out, lse, layer, stream)
        return (out, lse) if return_lse else out
