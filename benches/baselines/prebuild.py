"""Builds the FlashInfer modules of the interleaved benchmark without a GPU, to save compile time on the GPU machine.

    python3 prebuild.py DIR [NAME ..]

writes DIR/MODULE/MODULE.so. Put these folders into flashinfer/data/aot of the GPU machine. It needs flashinfer-python,
torch and nvcc (CUDA_HOME). Of each module only the timed masks are built, full and causal. Other masks fail.
"""

import os, re, shutil, sys, time

os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", "9.0a")
import torch
from flashinfer.jit.attention import modules
from flashinfer.jit.cascade import gen_cascade_module
from flashinfer.jit.page import gen_page_module

B, E, I = torch.bfloat16, torch.float8_e4m3fn, torch.int32
DIM, PLAIN = 128, (0, False, False)  # no positions, no window, no soft cap
CAP, WINDOW, ALIBI, ROPE = (0, False, True), (0, True, False), (2, False, False), (1, False, False)


def module_of(kind):
    """The generator of the module that FlashInfer loads: since 0.7 one for equal strides of keys and values."""
    public = getattr(modules, f"gen_batch_{kind}_module")
    return getattr(modules, f"_gen_batch_{kind}_primary_module", public)


def prefill(backend, options, dim=DIM, q=B, kv=B):
    build = module_of("prefill") if backend == "fa2" else modules.gen_batch_prefill_module
    return lambda: build(backend, q, kv, B, I, dim, dim, *options, False)


MODULES = {
    "decode": lambda: modules.gen_batch_decode_module(B, B, B, I, DIM, DIM, *PLAIN),
    "decode_cap": lambda: modules.gen_batch_decode_module(B, B, B, I, DIM, DIM, *CAP),
    "decode_window": lambda: modules.gen_batch_decode_module(B, B, B, I, DIM, DIM, *WINDOW),
    "decode_e4m3": lambda: modules.gen_batch_decode_module(B, E, B, I, DIM, DIM, *PLAIN),
    "fa2": prefill("fa2", PLAIN),
    "fa2_e4m3": prefill("fa2", PLAIN, kv=E),
    "fa3": prefill("fa3", PLAIN),
    "fa3_e4m3": prefill("fa3", PLAIN, q=E, kv=E),
    "fa3_64": prefill("fa3", PLAIN, 64),
    "fa3_256": prefill("fa3", PLAIN, 256),
    "fa3_cap": prefill("fa3", CAP),
    "fa3_cap_64": prefill("fa3", CAP, 64),
    "fa3_cap_256": prefill("fa3", CAP, 256),
    "fa3_window": prefill("fa3", WINDOW),
    "fa2_alibi": prefill("fa2", ALIBI),
    "fa2_rope": prefill("fa2", ROPE),
    "fa2_cap": prefill("fa2", CAP),
    "fa2_window": prefill("fa2", WINDOW),
    "attention": lambda: module_of("attention")(B, B, B, I, DIM, DIM, 0, False, False),
    "batch_pod": lambda: modules.gen_batch_pod_module(B, B, B, DIM, *PLAIN, False, I, *PLAIN),
    "pod": lambda: modules.gen_pod_module(B, B, B, DIM, *PLAIN, False, I, *PLAIN),
    "cascade": gen_cascade_module,
    "page": gen_page_module,
}


def is_timed(source):
    """Whether a source belongs to a timed mask. For POD that is causal chunks with full decodes."""
    name = os.path.basename(str(source))
    both = re.search(r"mask_(\d)p_(\d)d", name)
    one = re.search(r"mask_(\d)", name)
    return both.groups() == ("1", "0") if both else one is None or one[1] in "01"


def main():
    to, names = sys.argv[1], sys.argv[2:] or list(MODULES)
    for name in names:
        spec, start = MODULES[name](), time.time()
        spec.sources = [source for source in spec.sources if is_timed(source)]
        spec.build(verbose=False)
        folder = os.path.join(to, spec.name)
        os.makedirs(folder, exist_ok=True)
        shutil.copy(spec.jit_library_path, folder)
        print(f"{spec.name}: {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
