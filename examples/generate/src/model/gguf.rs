//! Models in GGUF files, the format of llama.cpp.
//!
//! `gguf-rs-lib` reads the file: it checks every length against limits and against the file before it allocates. This
//! file takes from it what a Llama needs. (candle-core reads GGUF too, and brings 150 crates; the checks of `ggus`
//! panic.)

pub(crate) mod keys;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
    sync::{Mutex, PoisonError},
};

use attn::Heads;
use gguf_rs_lib::{
    GGUFError,
    format::metadata::{Metadata, MetadataValue},
    reader::file_reader::GGUFFileReader,
};

use super::{config::LlamaConfig, dequant::dequantize, weights::Checkpoint};
use crate::Error;
use keys::May;

/// Bytes of a file.
trait Input: Read + Seek + Send {}
impl<T: Read + Seek + Send> Input for T {}

/// An open GGUF file. Its header is read; its tensors are read one at a time.
pub struct Gguf {
    file: String,
    reader: Mutex<GGUFFileReader<Box<dyn Input>>>,
    metadata: Metadata,
    /// The tensors that were read.
    used: Mutex<BTreeSet<String>>,
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gguf").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Gguf {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], and [`Error::Gguf`] for a file that is not sound.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        match File::open(path) {
            Ok(input) => Self::read(file, BufReader::new(input)),
            Err(source) => Err(Error::Io { file, source }),
        }
    }

    /// Reads a file from memory or elsewhere; `file` is its name in errors.
    pub fn read(file: String, input: impl Read + Seek + Send + 'static) -> Result<Self, Error> {
        match GGUFFileReader::new(Box::new(input) as Box<dyn Input>) {
            Ok(reader) => {
                let (metadata, used) = (reader.metadata().clone(), Mutex::default());
                Ok(Gguf { file, metadata, reader: Mutex::new(reader), used })
            }
            Err(source) => Err(Error::Gguf { file, source }),
        }
    }

    /// The shape of the model.
    ///
    /// # Errors
    ///
    /// [`Error::Architecture`]; [`Error::Metadata`] for values that are missing, contradict each other or ask for what
    /// this program does not do; [`Error::Unknown`] for keys that it does not know.
    pub fn config(&self) -> Result<LlamaConfig, Error> {
        let got = self.text("general.architecture")?;
        if got != "llama" {
            return Err(Error::Architecture { file: self.file.clone(), got: got.to_owned() });
        }
        for &(key, may) in keys::FILE {
            if self.value(key).is_some_and(|value| !may.allows(value)) {
                return Err(self.unsupported(key, may.words()));
            }
        }
        let size = |key: &str| self.size(&format!("llama.{key}"));
        let (width, qo) = (size("embedding_length")?, size("attention.head_count")?);
        let head_dim = match self.value("llama.attention.key_length") {
            Some(_) => size("attention.key_length")?,
            None => width / qo,
        };
        if head_dim % 2 == 1 {
            // RoPE turns pairs
            let given = self.has_key("llama.attention.key_length");
            let key = if given { "llama.attention.key_length" } else { "llama.attention.head_count" };
            return Err(self.unsupported(key, "of an even head dim"));
        }
        let kv = size("attention.head_count_kv")?;
        let heads = Heads { qo: qo as u32, kv: kv as u32, head_dim: head_dim as u32 }; // sizes are below 2^24
        heads.check().map_err(attn::Error::from)?;
        self.expect("llama.rope.dimension_count", head_dim)?;
        self.expect("llama.attention.value_length", head_dim)?;
        self.check_keys("llama.", keys::LLAMA)?;
        let vocab = self.texts("tokenizer.ggml.tokens")?.len();
        if self.has_key("llama.vocab_size") && size("vocab_size")? != vocab {
            return Err(self.unsupported("llama.vocab_size", "the number of tokens of the tokenizer"));
        }
        let rope_theta = match self.value("llama.rope.freq_base") {
            Some(_) => self.positive("llama.rope.freq_base")?,
            None => 10_000.0,
        };
        Ok(LlamaConfig {
            layers: size("block_count")?,
            width,
            heads,
            ffn: size("feed_forward_length")?,
            vocab,
            context: size("context_length")?,
            norm_eps: self.positive("llama.attention.layer_norm_rms_epsilon")?,
            rope_theta,
        })
    }

    /// Refuses keys below `prefix` that are not in a table, and values that it does not allow.
    pub(crate) fn check_keys(&self, prefix: &str, table: &[(&str, May)]) -> Result<(), Error> {
        let mut keys: Vec<&str> = self.metadata.keys().map(String::as_str).collect();
        // a file has no order that is kept, and errors have one
        keys.sort_unstable();
        for key in keys {
            let Some(name) = key.strip_prefix(prefix) else { continue };
            match (May::of(table, name), self.value(key)) {
                (Some(may), Some(value)) if !may.allows(value) => return Err(self.unsupported(key, may.words())),
                (None, _) => return Err(self.unknown("key", key)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the file has a key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    fn unknown(&self, what: &'static str, name: &str) -> Error {
        Error::Unknown { file: self.file.clone(), what, name: name.to_owned() }
    }

    /// The name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<&str, Error> {
        self.value(key).and_then(MetadataValue::as_str).ok_or_else(|| self.unsupported(key, "a text"))
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, Error> {
        self.list(key, MetadataValue::as_str, "a list of texts")
    }

    /// A list of integers.
    pub fn integers(&self, key: &str) -> Result<Vec<i64>, Error> {
        let integer = |value: &MetadataValue| value.as_i64().or_else(|| i64::try_from(value.as_u64()?).ok());
        self.list(key, integer, "a list of integers")
    }

    /// A token.
    pub fn token(&self, key: &str) -> Result<u32, Error> {
        let token = self.value(key).and_then(MetadataValue::as_u64).and_then(|token| u32::try_from(token).ok());
        token.ok_or_else(|| self.unsupported(key, "a token"))
    }

    /// The error for a value.
    pub(crate) fn unsupported(&self, key: &str, want: &'static str) -> Error {
        let got = match self.value(key) {
            None => "missing".to_owned(),
            Some(MetadataValue::Array(array)) => format!("a list of {}", array.len()),
            Some(MetadataValue::String(text)) => format!("`{}`", text.chars().take(40).collect::<String>()),
            Some(value) => value.to_string_representation(),
        };
        Error::Metadata { file: self.file.clone(), key: key.to_owned(), got, want }
    }

    fn list<'a, T>(
        &'a self,
        key: &str,
        of: impl Fn(&'a MetadataValue) -> Option<T>,
        want: &'static str,
    ) -> Result<Vec<T>, Error> {
        let values = match self.value(key) {
            Some(MetadataValue::Array(array)) => array.iter().map(of).collect(),
            _ => None,
        };
        values.ok_or_else(|| self.unsupported(key, want))
    }

    fn value(&self, key: &str) -> Option<&MetadataValue> {
        self.metadata.get(key)
    }

    /// A size of at least 1. The limit keeps products of three sizes within `usize`.
    fn size(&self, key: &str) -> Result<usize, Error> {
        let size = self.value(key).and_then(MetadataValue::as_u64).filter(|size| (1..=1 << 20).contains(size));
        size.map(|size| size as usize).ok_or_else(|| self.unsupported(key, "an integer from 1 to 2^20"))
    }

    fn positive(&self, key: &str) -> Result<f32, Error> {
        let value = self.value(key).and_then(MetadataValue::as_f64).map(|value| value as f32);
        let value = value.filter(|value| *value > 0.0 && value.is_finite());
        value.ok_or_else(|| self.unsupported(key, "a positive number"))
    }

    /// Checks that a size is the head dim, if it is given.
    fn expect(&self, key: &str, head_dim: usize) -> Result<(), Error> {
        let same = self.value(key).is_none_or(|value| value.as_u64() == Some(head_dim as u64));
        if same { Ok(()) } else { Err(self.unsupported(key, "the head dim")) }
    }
}

impl Checkpoint for Gguf {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = |got: String| {
            let want = format!("of shape {shape:?} in F32, F16, Q8_0 or Q4_1");
            Error::Tensor { file: self.file.clone(), name: name.to_owned(), got, want }
        };
        let info = reader.get_tensor_info(name).ok_or_else(|| wrong("missing".to_owned()))?;
        // a file has the innermost dimension first
        let found: Vec<_> = info.shape().dims().iter().rev().map(|&n| n as usize).collect();
        let (kind, elements) = (info.tensor_type(), shape.iter().product::<usize>());
        let is = || format!("of shape {found:?} in {kind:?}");
        if found != shape {
            return Err(wrong(is()));
        }
        let of_file = |source: GGUFError| Error::Gguf { file: self.file.clone(), source };
        let data = reader.load_tensor_data(name).map_err(of_file)?.ok_or_else(|| wrong("without data".to_owned()))?;
        let values = dequantize(kind, data.as_slice()).filter(|values| values.len() == elements);
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        values.ok_or_else(|| wrong(is()))
    }

    fn check_unused(&self) -> Result<(), Error> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = reader.tensor_names().into_iter().find(|&name| !used.contains(name));
        unused.map_or(Ok(()), |name| Err(self.unknown("tensor", name)))
    }

    fn has(&self, name: &str) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).get_tensor_info(name).is_some()
    }
}
