"""A layer of attention: its variant, and runs of its plans. Nothing here is of vLLM."""

import re

import attn_rs

from . import kinds
from .formats import Storage
from .options import Options

_numbers: dict = {}


class Layer:
    """What `Attention` layers of a model ask for, as kinds and parameter tensors."""

    def __init__(
        self,
        num_heads,
        head_size,
        scale,
        num_kv_heads,
        options: Options,
        alibi_slopes=None,
        sliding_window=None,
        kv_cache_dtype="auto",
        logits_soft_cap=None,
        sinks=None,
    ):
        self.storage = Storage.of(kv_cache_dtype, options.kv_format)
        self.head_size = head_size
        self._kinds, self._keys = [], []
        for causal in (False, True):
            of_model = kinds.of_model(
                causal=causal,
                window=sliding_window,
                soft_cap=logits_soft_cap,
                slopes=alibi_slopes is not None,
                sinks=sinks is not None,
            )
            kind = kinds.Kind(
                options.expression(of_model, sliding_window is not None),
                num_heads,
                num_kv_heads,
                head_size,
                float(scale),
                self.storage.kv_dtype,
                self.storage.kv_format,
            )
            self._kinds.append(kind)
            self._keys.append(_numbers.setdefault(kind, len(_numbers)))
        given = {"alibi.slopes": alibi_slopes, "sink.logits": sinks}
        parts = set(re.findall(r"\w+", self._kinds[1].expression))
        self._tensors = {name: x for name, x in given.items() if x is not None and name.partition(".")[0] in parts}
        self._of_plan, self._views, self._encoder = {}, (None, None), None

    def kind(self, causal: bool) -> kinds.Kind:
        return self._kinds[causal]

    def key(self, causal: bool) -> int:
        """The number of the kind."""
        return self._keys[causal]

    def params(self) -> dict:
        """The parameter tensors of the layer, copied from the device: not under a capture. An expression of the user
        may have none of them."""
        return {name: _numbers_of(tensor) for name, tensor in self._tensors.items()}

    def forget(self):
        """Parameter tensors are read anew: weights were loaded."""
        self._of_plan.clear()

    def of_plan(self, attention, causal):
        """This layer's attention for a plan, or None where the plan's is the same."""
        if not self._tensors:
            return None
        of_layer = self._of_plan.get(id(attention))
        if of_layer is None:
            kind = self.kind(causal)
            mine = attention.with_parameters(kind.expression, self.params(), kind.scale)
            # the attention is kept, so that its id is no other's
            of_layer = self._of_plan[id(attention)] = (attention, mine)
        return of_layer[1]

    def views(self, cache):
        """Keys, values and side data of a cache, which stays where it is."""
        address, views = self._views
        if address != cache.data_ptr():
            views = self.storage.views(cache, self.head_size)
            self._views = (cache.data_ptr(), views)
        return views

    def append(self, key, value, cache, slots, k_scale=1.0, v_scale=1.0):
        """Stores new keys and values. Nothing is stored for a slot below 0."""
        k, v, k_side, v_side = self.views(cache)
        if self.storage.kv_format is not None and self._encoder is None:
            dtype = str(key.dtype).removeprefix("torch.")
            self._encoder = self.kind(True).attention(self.params(), key.device, dtype, None)
        rows = slots.shape[0]
        if rows != key.shape[0]:
            # one of them is padded
            rows = min(rows, key.shape[0])
            key, value, slots = key[:rows], value[:rows], slots[:rows]
        attn_rs.append(
            key,
            value,
            k,
            v,
            slots,
            kv_layout="HND",
            k_scale=k_scale,
            v_scale=v_scale,
            attention=self._encoder,
            k_side=k_side,
            v_side=v_side,
        )

    def run(self, metadata, query, cache, output, k_scale=1.0, v_scale=1.0):
        """Attention of the batch of a step: `query` and `output` are (rows, heads, head size)."""
        k, v, k_side, v_side = self.views(cache)
        for planned, first, end in metadata.launches(self, query):
            q, o = query, output
            if first or end is not None:
                q, o = query[first:end], output[first:end]
            layer = self.of_plan(planned.attention, metadata.causal)
            planned.native.run(q, k, v, o, None, layer, False, k_scale, v_scale, None, k_side, v_side, False)


def _numbers_of(tensor):
    return tensor.detach().float().cpu().tolist() if hasattr(tensor, "detach") else [float(x) for x in tensor]
