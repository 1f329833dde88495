"""How keys and values lie in a cache of vLLM, (blocks, KV heads, slots, elements): K and V of a slot side by side.

A KV format has a record for each slot and head: codes of K, codes of V, side data of K and of V, and padding to 16
bytes. vLLM allocates it as twice as many bytes as half of the record.
"""

import re
from dataclasses import dataclass

from .errors import Refused

#: names of vLLM for FP8 caches, whose tensors are of uint8
FP8 = {"fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2"}
PLAIN = ("auto", "float16", "bfloat16")
#: names under which KV formats are values of `--kv-cache-dtype`, where vLLM takes such names
NAMED = {
    "attn_rs_int8": "int8",
    "attn_rs_int4": "int4(group=32)",
    "attn_rs_int8_int4": "int8 / int4(group=32)",
    "attn_rs_int4_zero": "int4(group=32, zero=true)",
    "attn_rs_mx_fp8": "mx_fp8",
    "attn_rs_nvfp4": "nvfp4",
}
_PART = re.compile(r"(\w+)\s*(?:\(([^)]*)\))?")


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def row_bytes(part: str, dim: int) -> tuple[int, int]:
    """Bytes of codes and of side data of a row, by the table of the book's page on KV formats."""
    match = _PART.fullmatch(part.strip())
    if match is None:
        raise Refused(f"KV format `{part}` is no name with parameters, such as int4(group=32)")
    name, given = match[1], dict(p.split("=") for p in (match[2] or "").replace(" ", "").split(",") if "=" in p)
    if name == "int8":
        return dim, 4
    if name == "int4":
        numbers = 4 if given.get("zero") == "true" else 2
        return dim // 2, _up(dim // int(given.get("group", 32)) * numbers, 4)
    if name == "nvfp4":
        return dim // 2, _up(dim // 16, 4)
    if name == "mx_fp8":
        return dim, _up(dim // 32, 4)
    if name == "turbo4":
        return dim // 2, 4
    known = "int8, int4, nvfp4, mx_fp8, turbo4"
    raise Refused(f"KV format `{name}` is not one that attn-rs-vllm lays out in a cache: {known}")


@dataclass(frozen=True)
class Record:
    """Where the bytes of a slot of one head lie."""

    k_codes: int
    v_codes: int
    k_side: int
    v_side: int

    @staticmethod
    def of(kv_format: str, dim: int) -> "Record":
        keys, _, values = kv_format.partition("/")
        (k_codes, k_side), (v_codes, v_side) = row_bytes(keys, dim), row_bytes(values or keys, dim)
        return Record(k_codes, v_codes, k_side, v_side)

    @property
    def bytes(self) -> int:
        return _up(self.k_codes + self.v_codes + self.k_side + self.v_side, 16)

    def split(self, cache):
        """Views of a cache of bytes: codes of K and V, side data of K and V."""
        views, first = [], 0
        for length in (self.k_codes, self.v_codes, self.k_side, self.v_side):
            views.append(cache[..., first : first + length])
            first += length
        return views


@dataclass(frozen=True)
class Storage:
    """What a cache stores."""

    #: type of the elements of a plain cache, by its name in torch; None for the type of queries
    kv_dtype: str | None
    #: KV format, in place of a type
    kv_format: str | None

    @staticmethod
    def of(cache_dtype: str, option: str) -> "Storage":
        """Of `--kv-cache-dtype` and the option `kv_format`."""
        named = NAMED.get(cache_dtype)
        if option and (named or cache_dtype in FP8):
            raise Refused(f"option kv_format is {option!r} beside --kv-cache-dtype {cache_dtype}; give one of them")
        if option or named:
            return Storage(None, option or named)
        if cache_dtype in FP8:
            return Storage(FP8[cache_dtype], None)
        if cache_dtype not in PLAIN:
            known = f"there are {', '.join((*PLAIN, *FP8))}, and KV formats by the option kv_format"
            raise Refused(f"--kv-cache-dtype {cache_dtype} is not known to attn-rs-vllm; {known}")
        return Storage(None if cache_dtype == "auto" else cache_dtype, None)

    def views(self, cache, dim: int):
        """Keys, values and their side data, or None without such, of a cache as vLLM gives it."""
        if self.kv_format is not None:
            import torch

            record = Record.of(self.kv_format, dim)
            of_bytes = cache if cache.dtype == torch.uint8 else cache.view(torch.uint8)
            if of_bytes.shape[-1] < record.bytes:
                raise Refused(
                    f"KV format {self.kv_format!r} needs {record.bytes} bytes for a slot of a head, and vLLM allocated "
                    f"{of_bytes.shape[-1]}"
                )
            k, v, k_side, v_side = record.split(of_bytes)
            return k, v, k_side, v_side
        if self.kv_dtype is not None and cache.element_size() == 1:
            import torch

            cache = cache.view(getattr(torch, self.kv_dtype))
        return cache[..., :dim], cache[..., dim : 2 * dim], None, None
