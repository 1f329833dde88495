"""What differs between versions of vLLM: a row for each that is known."""

from dataclasses import dataclass
from importlib import metadata

from .errors import Refused


@dataclass(frozen=True)
class Version:
    """What a version of vLLM has."""

    #: `supported_kv_cache_layouts` in place of the shape and the order of strides of a cache
    has_layouts: bool
    #: `register_kv_cache_dtype`: names of KV formats are values of `--kv-cache-dtype`
    registers_dtypes: bool


TABLE = {
    "0.26": Version(has_layouts=False, registers_dtypes=False),
    "0.33": Version(has_layouts=True, registers_dtypes=True),
}


def of(version: str) -> Version:
    """The row of a version such as `0.26.0`."""
    series = ".".join(version.split(".")[:2])
    if series not in TABLE:
        raise Refused(f"vLLM {version} is not known to attn-rs-vllm: install vLLM {' or '.join(TABLE)}")
    return TABLE[series]


def installed() -> str:
    return metadata.version("vllm")


def of_installed() -> Version:
    return of(installed())


def of_installed_or_none() -> Version | None:
    try:
        return of_installed()
    except (Refused, metadata.PackageNotFoundError):
        return None
