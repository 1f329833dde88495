"""CuTe DSL packages without their compiler: kernels are loaded that prebuild_cute.py compiled on another machine.

The compiler alone has 240 MB. With CUTE_AOT=DIR in the environment `activate` finds cutlass, flash_attn and quack in
DIR/site, puts placeholders for the modules of MLIR, and gives cudnn's flex_attention and flash_attn.cute a cache that
loads DIR/kernels. Their own host code runs as it is. What was not compiled is an error that says so. Without CUTE_AOT
nothing is changed.
"""

import hashlib, importlib.abc, importlib.machinery, os, sys, types

CACHES = ("flash_attn.cute.cache_utils", "cudnn.flex_attention.runtime.compile_cache")


class Anything(type):
    """A class that can be a base, a decorator, an annotation, a context or empty; no host code reads more of MLIR."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return anything(name)

    def __call__(cls, *args, **kwargs):
        decorated = len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))
        return args[0] if decorated else anything(cls.__name__)

    def __or__(cls, other):
        return cls

    __ror__ = __or__
    __getitem__ = lambda cls, _: cls
    __iter__ = lambda cls: iter(())
    __enter__ = lambda cls: cls
    __exit__ = lambda cls, *_: False
    __bool__ = lambda cls: False
    __len__ = __int__ = lambda cls: 0
    __mro_entries__ = lambda cls, bases: ()


def anything(name):
    return Anything(name, (), {"__slots__": ()})


class Placeholder(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return anything(name)


class Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The modules of MLIR."""

    def find_spec(self, name, path=None, target=None):
        if name == "cutlass._mlir" or name.startswith("cutlass._mlir."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = Placeholder(spec.name)
        module.__path__, module.__all__ = [], []
        return module

    def exec_module(self, module):
        pass


class Kernels:
    """The cache of one kind of kernel, by keys as text."""

    def __init__(self, folder, name):
        self.folder, self.name, self.loaded = folder, name, {}

    def file(self, key):
        return os.path.join(self.folder, f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.so")

    def __contains__(self, key):
        if key not in self.loaded:
            import tvm_ffi

            if not os.path.exists(self.file(key)):
                raise RuntimeError(f"not compiled beforehand: {os.path.basename(self.file(key))}")
            self.loaded[key] = tvm_ffi.load_module(self.file(key))["func"]
        return True

    def __getitem__(self, key):
        return self.loaded[key]


def use(make_cache):
    """Both packages take their caches from `make_cache(name)`."""
    for name in CACHES:
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].get_jit_cache = make_cache


def activate():
    """Before the packages are imported, and after FlashInfer, which asks whether cutlass can be found."""
    folder = os.environ.pop("CUTE_AOT", None)
    if folder:
        sys.path.insert(0, os.path.join(folder, "site"))
        sys.meta_path.insert(0, Placeholders())
        use(lambda name=None: Kernels(os.path.join(folder, "kernels"), name))
