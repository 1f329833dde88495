"""Compiles the CuTe DSL kernels of the baselines cudnn-flex and fa4 for sm_90a without a GPU, for cute_aot.py.

    python3 prebuild_cute.py DIR CASES.jsonl ..

writes DIR/kernels/*.so, and to DIR/site the Python sources that the host code of both needs, without the compiler. Both
baselines run over the cases on fake tensors, on which torch computes shapes alone. It needs torch, nvidia-cutlass-dsl,
apache-tvm-ffi, flash-attn-4, quack-kernels, nvidia-cudnn-frontend and gcc. On the GPU machine set CUTE_AOT=DIR; torch,
apache-tvm-ffi and nvidia-cudnn-frontend must be there.
"""

import contextlib, importlib.metadata, importlib.util, json, os, shutil, subprocess, sys, tempfile

os.environ.update(FLASH_ATTENTION_ARCH="sm_90a", FLASH_ATTENTION_NUM_SMS="132", FLEX_ATTENTION_ARCH="sm_90")
os.environ["CUTE_DSL_ARCH"] = "sm_90a"
os.environ.pop("CUTE_AOT", None)
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import case_files
import cute_aot

SITE = ("cutlass", "flash_attn", "quack")
# The only symbol that a kernel takes from the runtime of CuTe DSL.
SHIM = """
const char *cudaGetErrorString(int code);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void CuteDSLRT_TVMFFISetRaisedCudaError(void *set_error, int code) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", cudaGetErrorString(code));
}
"""
fake, rows = FakeTensorMode(), [0]


def package(name):
    return importlib.util.find_spec(name).submodule_search_locations[0]


def link(obj, to):
    """A library of a kernel's object file, without the runtime of CuTe DSL; it takes libcudart from torch's process."""
    base = importlib.metadata.distribution("nvidia-cutlass-dsl-libs-cu13").locate_file("nvidia_cutlass_dsl/cu13/lib")
    cudart = importlib.metadata.distribution("nvidia-cuda-runtime").locate_file("nvidia/cu13/lib")
    with tempfile.NamedTemporaryFile("w", suffix=".c") as shim:
        shim.write(SHIM)
        shim.flush()
        static = ["-Wl,--gc-sections", f"{base}/libcuda_dialect_runtime_static.a"]
        libraries = [f"-L{cudart}", "-l:libcudart.so.13"]
        subprocess.run(["gcc", "-shared", "-fPIC", "-s", "-o", to, obj, shim.name, *static, *libraries], check=True)


class Compiled(cute_aot.Kernels):
    """Exports each new kernel. What it returns computes nothing, and keeps the rows that it was called for."""

    def __contains__(self, key):
        return os.path.exists(self.file(key))

    def __setitem__(self, key, function):
        assert " at 0x" not in repr(key), f"not the same in another process: {key}"
        with tempfile.TemporaryDirectory() as folder:
            obj = os.path.join(folder, "kernel.o")
            function.export_to_c(object_file_path=obj, function_name="func")
            link(obj, self.file(key))
        print(os.path.basename(self.file(key)), flush=True)

    def __getitem__(self, key):
        def call(first, *_):
            rows[0] = first.shape[1] if first.ndim > 1 else rows[0]

        return call


def without_device():
    """torch and both packages as if a Hopper GPU were there."""
    torch.cuda.device = lambda *_: contextlib.nullcontext()
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    import cudnn.flex_attention.plan.builder as builder
    import cudnn.flex_attention.plan.validation as validation

    validation.get_device_arch = lambda *_: 90
    # the plan is made as on a device; its header, which it reads back, says rows, partial tiles and full tiles
    builder.is_fake_mode = lambda: False
    FakeTensor.tolist = lambda header: [rows[0], 8 * rows[0], 8 * rows[0]] + [0] * (header.shape[0] - 3)
    to = torch.Tensor.to

    def moved(tensor, *args, **kwargs):
        if not args or args[0] != torch.device("cuda"):
            return to(tensor, *args, **kwargs)
        with fake:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")

    torch.Tensor.to = moved


def rows_of(_, shape, dtype):
    with fake:
        return torch.empty(shape, dtype=dtype, device="cuda")


def compiled(name, plan, run, *_, **__):
    with fake:
        plan()
        run()
    return name, None, "compiled"


def main():
    folder, files = sys.argv[1], sys.argv[2:]
    os.makedirs(os.path.join(folder, "kernels"), exist_ok=True)
    cute_aot.use(lambda name=None: Compiled(os.path.join(folder, "kernels"), name))
    without_device()
    import cudnn_flex, fa4, shared_tensors

    shared_tensors.rows = rows_of
    for baseline in (cudnn_flex, fa4):
        baseline.ready, baseline.Check = compiled, lambda *_: None
    for case in (case for file in files for case in case_files.read(file)):
        for run in (cudnn_flex.cudnn_flex, fa4.fa4):
            for name, _, why in run(case):
                print(f"{case['name'][:70]}: {name}: {why}", flush=True)
    skip = shutil.ignore_patterns("__pycache__", "_mlir", "*.so", "*.pyc")
    for name in SITE:
        shutil.copytree(package(name), os.path.join(folder, "site", name), ignore=skip, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
