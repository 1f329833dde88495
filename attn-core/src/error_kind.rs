//! Classes of errors, which bindings map to exceptions and status codes.

/// What an error is about, for callers whose own errors have classes: other languages, servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An object of another backend, or a stream that nothing can be ordered on.
    InvalidArgument,
    /// An expression that is none, a variant that does not exist, a parameter that does not fit.
    InvalidVariant,
    /// A batch that contradicts itself, or exceeds the capacity of a plan.
    InvalidBatch,
    /// A tensor of another shape, type, memory or alignment than the batch needs.
    InvalidTensor,
    /// Heads, element types or options that no kernel supports.
    Unsupported,
    /// No driver, no such device, or a build without the CUDA backend.
    NoDevice,
    /// The driver, the compiler or a kernel failed.
    Cuda,
    /// A bug of the library.
    Internal,
}
