"""Exceptions: one class for each kind of error of the Rust library."""


class AttnError(RuntimeError):
    """Any error of attn_rs. Its text says what was asked and what is possible; nothing was launched or written."""


class InvalidArgument(AttnError, ValueError):
    """An argument that is none of its possible values, or an object of another device."""


class WrongType(InvalidArgument, TypeError):
    """An argument of another type."""


class OutOfRange(InvalidArgument, OverflowError):
    """A number that the argument cannot be."""


class InvalidVariant(AttnError, ValueError):
    """An expression that is none, a variant that does not exist, a parameter that does not fit."""


class InvalidBatch(AttnError, ValueError):
    """A batch that contradicts itself, or exceeds the capacity of a plan."""


class InvalidTensor(AttnError, ValueError):
    """A tensor of another shape, type, device, stride or alignment than the batch needs."""


class Unsupported(AttnError, NotImplementedError):
    """Heads, element types or options that no kernel supports."""


class NoDevice(AttnError):
    """No driver, or no such device."""


class CudaFailure(AttnError):
    """The driver, the compiler or a kernel failed."""


class InternalError(AttnError):
    """A bug of the library."""
