"""The compiler of kernels, from the packages of the Python that runs: an environment need not be active."""

import ctypes
import functools
import os
import sysconfig
from pathlib import Path


@functools.cache
def load() -> None:
    """Loads NVRTC with what it needs, so that its name alone finds it. `ATTN_NVRTC` names another; without either, the
    library searches on."""
    if os.environ.get("ATTN_NVRTC"):
        return
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    for folder in (packages / "cu13/lib", packages / "cuda_nvrtc/lib"):
        builtins, library = sorted(folder.glob("libnvrtc-builtins.so*")), sorted(folder.glob("libnvrtc.so*"))
        if not library:
            continue
        try:
            for path in (*builtins, library[-1]):
                ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            return
        except OSError:
            continue
