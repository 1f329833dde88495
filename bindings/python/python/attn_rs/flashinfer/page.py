"""`flashinfer.page` and `flashinfer.quantization`: appends to paged caches, and packed bits."""

from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from .. import ops
from .._append import append
from .._arrays import is_capturing, version_of
from ._bindings import Cache, Maybe, Number, Tensor, unpack

__all__ = ["append_paged_kv_cache", "append_paged_mla_kv_cache", "get_batch_indices_positions", "get_seq_lens",
    "nvfp4_quantize_append_paged_kv_cache", "nvfp4_quantize_append_paged_kv_cache_with_slot_mapping",
    "packbits", "segment_packbits"]  # fmt: skip


def get_batch_indices_positions(append_indptr: Tensor, seq_lens: Tensor, nnz: int, batch_indices: Maybe = None,
        positions: Maybe = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The request of each new token and its position; request -1 for rows past the last one."""
    at = torch.arange(nnz, device=append_indptr.device)
    which = torch.searchsorted(append_indptr[1:].long().contiguous(), at, right=True)
    inside, own = which < len(seq_lens), which.clamp(max=len(seq_lens) - 1)
    at = at + seq_lens[own] - append_indptr[1:][own]
    found = torch.where(inside, which, -1).int(), torch.where(inside, at, 0).int()
    rows, places = (x if to is None else to.copy_(x) for x, to in zip(found, (batch_indices, positions), strict=True))
    return rows, places


def get_seq_lens(kv_indptr: Tensor, kv_last_page_len: Tensor, page_size: int) -> Tensor:
    """The number of keys of each request."""
    return torch.clamp(kv_indptr.diff() - 1, min=0) * page_size + kv_last_page_len


def append_paged_kv_cache(append_key: Tensor, append_value: Tensor, batch_indices: Tensor, positions: Tensor,
        paged_kv_cache: Cache, kv_indices: Tensor, kv_indptr: Tensor, kv_last_page_len: Tensor, kv_layout: str = "NHD",
        **nvfp4: Any) -> None:  # fmt: skip
    """Writes new keys and values, in one launch; for a request below 0 nothing. `kv_last_page_len` is not read."""
    places = {"batch_indices": batch_indices, "positions": positions, "page_indptr": kv_indptr}
    nvfp4 |= {name: x.int() for name, x in {**places, "page_indices": kv_indices}.items()}
    append(append_key, append_value, *unpack(paged_kv_cache, kv_layout), None, kv_layout=kv_layout, **nvfp4)


def append_paged_mla_kv_cache(append_ckv: Tensor, append_kpe: Tensor, batch_indices: Tensor, positions: Tensor,
        ckv_cache: Tensor, kpe_cache: Tensor, kv_indices: Tensor, kv_indptr: Tensor,
        kv_last_page_len: Tensor) -> None:  # fmt: skip
    """Writes new compressed keys and rotary keys, in one launch."""
    pools, places = (ckv_cache[:, :, None], kpe_cache[:, :, None]), (kv_indices, kv_indptr, kv_last_page_len)
    append_paged_kv_cache(append_ckv[:, None], append_kpe[:, None], batch_indices, positions, pools, *places)


def nvfp4_quantize_append_paged_kv_cache(append_key: Tensor, append_value: Tensor, batch_indices: Tensor,
        positions: Tensor, paged_kv_cache: Cache, kv_cache_sf: Cache, kv_indices: Tensor, kv_indptr: Tensor,
        kv_last_page_len: Tensor, k_scale: Number, v_scale: Number, kv_layout: str = "NHD") -> None:  # fmt: skip
    """Writes new keys and values as NVFP4, with the scales of their blocks, in one launch."""
    arrays = batch_indices, positions, paged_kv_cache, kv_indices, kv_indptr, kv_last_page_len, kv_layout
    append_paged_kv_cache(append_key, append_value, *arrays, **_nvfp4(kv_cache_sf, k_scale, v_scale, kv_layout))


def nvfp4_quantize_append_paged_kv_cache_with_slot_mapping(append_key: Tensor, append_value: Tensor,
        slot_mapping: Tensor, paged_kv_cache: Cache, kv_cache_sf: Cache, k_scale: Number, v_scale: Number,
        kv_layout: str = "NHD") -> None:  # fmt: skip
    """The same by slots, `page * page_size + slot`; below 0 nothing is written. A CUDA graph reads scales anew."""
    for name, scale in (("k_scale", k_scale), ("v_scale", v_scale)):
        if not (isinstance(scale, Tensor) and scale.device == append_key.device) and is_capturing(append_key):
            raise ValueError(f"{name} is a number of the host: during CUDA graph capture it is float32 on the device")
    rows, (k_pool, v_pool) = len(slot_mapping), unpack(paged_kv_cache, kv_layout)
    nvfp4 = _nvfp4(kv_cache_sf, k_scale, v_scale, kv_layout)
    append(append_key[:rows], append_value[:rows], k_pool, v_pool, slot_mapping, kv_layout=kv_layout, **nvfp4)


def _nvfp4(sf: Cache, k_scale: Number, v_scale: Number, kv_layout: str) -> dict[str, Any]:
    k_side, v_side = (side.view(torch.uint8) for side in unpack(sf, kv_layout))
    scales = {"k_scale": _decode_scale("k_scale", k_scale), "v_scale": _decode_scale("v_scale", v_scale)}
    return {"kv_format": "nvfp4", "k_side": k_side, "v_side": v_side, **scales}


# scales on devices that were read, and how often each was changed then
_read: Any = WeakTensorKeyDictionary()


def _decode_scale(name: str, scale: Number) -> Number:
    """A scale on the device as it is, read on the host where it is new or has changed; another as a number."""
    on_device = isinstance(scale, Tensor) and scale.is_cuda
    if on_device and (is_capturing(scale) or _read.get(scale, -1) == version_of(scale)):
        return scale
    if not 0 < (number := float(scale)) < float("inf"):
        raise ValueError(f"{name} is {number}; it is a positive finite global decode scale")
    if on_device:
        _read[scale] = version_of(scale)
    return scale if on_device else number


def packbits(x: Tensor, bitorder: str = "big") -> Any:
    """Eight bools to a byte."""
    return ops.packbits(x.reshape(-1).bool(), bitorder=bitorder)


def segment_packbits(x: Tensor, indptr: Tensor, bitorder: str = "big") -> tuple[Tensor, Tensor]:
    """Each segment from a byte on, and where they begin in bytes. The number of bytes is read on the host."""
    bits, ends = ops.segment_packbits(x.reshape(-1).bool(), indptr.int(), bitorder=bitorder)
    return bits[: int(ends[-1])], ends.to(indptr.dtype)
