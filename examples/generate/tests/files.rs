//! Broken, truncated and foreign model files: an error that says what is wrong, no panic, and no large allocation.

#![allow(clippy::unwrap_used)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    io::Cursor,
    sync::atomic::{AtomicUsize, Ordering},
};

use generate::{
    Error,
    model::{gguf::Gguf, math::CpuMath, weights::LlamaWeights},
    tokenizer::Tokenizer,
};
use gguf_rs_lib::{
    builder::gguf_builder::GGUFBuilder,
    format::{
        metadata::{MetadataArray, MetadataValue as Value},
        types::GGUFValueType,
    },
    tensor::TensorType as Kind,
};

/// Remembers the largest allocation.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const WIDTH: usize = 32;
const FFN: usize = 64;

/// The parts of a small file, to change before it is written.
struct Parts {
    metadata: BTreeMap<&'static str, Value>,
    tensors: BTreeMap<String, (Vec<u64>, Kind, Vec<u8>)>,
}

fn list(kind: GGUFValueType, values: Vec<Value>) -> Value {
    Value::Array(Box::new(MetadataArray::new(kind, values).unwrap()))
}

fn texts<T: ToString>(values: &[T]) -> Value {
    list(GGUFValueType::String, values.iter().map(|text| Value::String(text.to_string())).collect())
}

/// A file of one block with a vocabulary of bytes, one merge and one control token.
fn parts() -> Parts {
    let text = |text: &str| Value::String(text.to_owned());
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut tokens: Vec<String> = (0..=255u8).filter(printable).map(|byte| char::from(byte).to_string()).collect();
    tokens.extend((0x100..0x144).map(|code| char::from_u32(code).unwrap().to_string()));
    tokens.extend(["he".to_owned(), "<|end|>".to_owned()]);
    let kinds = (0..tokens.len()).map(|i| Value::I32(if i + 1 == tokens.len() { 3 } else { 1 })).collect();
    let metadata = BTreeMap::from([
        ("general.architecture", text("llama")),
        ("llama.block_count", Value::U32(1)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(WIDTH as u32)),
        ("llama.feed_forward_length", Value::U32(FFN as u32)),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.attention.head_count_kv", Value::U32(1)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("llama.rope.freq_base", Value::F32(10_000.0)),
        ("tokenizer.ggml.model", text("gpt2")),
        ("tokenizer.ggml.pre", text("smollm")),
        ("tokenizer.ggml.tokens", texts(&tokens)),
        ("tokenizer.ggml.token_type", list(GGUFValueType::I32, kinds)),
        ("tokenizer.ggml.merges", texts(&["h e"])),
        ("tokenizer.ggml.eos_token_id", Value::U32(tokens.len() as u32 - 1)),
        ("tokenizer.chat_template", text("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}")),
    ]);
    let mut tensors = BTreeMap::new();
    let mut add = |name: &str, shape: &[usize], kind: Kind, block: (usize, usize)| {
        let dims = shape.iter().rev().map(|&n| n as u64).collect();
        let bytes = shape.iter().product::<usize>() / block.0 * block.1;
        tensors.insert(name.to_owned(), (dims, kind, vec![0; bytes]));
    };
    let (f32, q4) = ((Kind::F32, (1, 4)), (Kind::Q4_1, (32, 20)));
    add("token_embd.weight", &[tokens.len(), WIDTH], Kind::Q8_0, (32, 34));
    add("output_norm.weight", &[WIDTH], f32.0, f32.1);
    for (name, shape, (kind, block)) in [
        ("attn_norm", &[WIDTH][..], f32),
        ("ffn_norm", &[WIDTH], f32),
        ("attn_q", &[WIDTH, WIDTH], q4),
        ("attn_k", &[WIDTH / 2, WIDTH], q4),
        ("attn_v", &[WIDTH / 2, WIDTH], q4),
        ("attn_output", &[WIDTH, WIDTH], q4),
        ("ffn_gate", &[FFN, WIDTH], q4),
        ("ffn_up", &[FFN, WIDTH], q4),
        ("ffn_down", &[WIDTH, FFN], f32),
    ] {
        add(&format!("blk.0.{name}.weight"), shape, kind, block);
    }
    Parts { metadata, tensors }
}

impl Parts {
    fn bytes(self) -> Vec<u8> {
        let mut builder = GGUFBuilder::new();
        for (key, value) in self.metadata {
            builder = builder.add_metadata(key, value);
        }
        for (name, (dims, kind, bytes)) in self.tensors {
            builder = builder.add_tensor(name, dims, kind, bytes).unwrap();
        }
        builder.build_to_bytes().unwrap().0
    }
}

/// Loads everything that a model needs.
fn load(bytes: &[u8]) -> Result<Tokenizer, Error> {
    let file = Gguf::read("test.gguf".to_owned(), Cursor::new(bytes.to_vec()))?;
    let config = file.config()?;
    let tokenizer = Tokenizer::load(&file)?;
    LlamaWeights::load(&config, &file, &CpuMath::new()?)?;
    Ok(tokenizer)
}

#[test]
fn a_small_file_is_sound() {
    let tokenizer = load(&parts().bytes()).unwrap();
    let tokens = tokenizer.encode("the 12é🙂<|end|>").unwrap();
    assert_eq!(tokens.len(), 1 + 1 + 1 + 2 + 2 + 4 + 1, "{tokens:?}");
    assert_eq!(tokenizer.decode(&tokens), "the 12é🙂");
    let messages = [generate::tokenizer::ChatMessage { role: "user".to_owned(), content: "hi".to_owned() }];
    assert_eq!(tokenizer.chat(&messages).unwrap(), "user: hi\n");

    // characters of several tokens come whole, and what cannot become one is replaced
    let mut stream = tokenizer.stream();
    let texts_of: Vec<String> = tokens.iter().map(|&token| stream.push(token)).collect();
    assert_eq!(texts_of.concat(), "the 12é🙂");
    assert!(texts_of.iter().all(|text| !text.contains('\u{fffd}')));
    let smile = tokenizer.encode("🙂").unwrap();
    let mut stream = tokenizer.stream();
    assert_eq!((stream.push(smile[0]), stream.push(smile[1])), (String::new(), String::new()));
    assert_eq!((stream.clone().finish(), stream.push(tokens[0])), ("\u{fffd}", "\u{fffd}t".to_owned()));
}

#[test]
fn errors_name_what_is_wrong() {
    let changed = |key, value| {
        let mut parts = parts();
        parts.metadata.insert(key, value);
        load(&parts.bytes()).unwrap_err()
    };
    let text = |text: &str| Value::String(text.to_owned());
    let error = changed("general.architecture", text("mamba"));
    assert!(matches!(&error, Error::Architecture { got, .. } if got == "mamba"), "{error}");
    for (key, value) in [
        ("tokenizer.ggml.model", text("llama")),
        ("tokenizer.ggml.pre", text("llama-bpe")),
        ("tokenizer.ggml.merges", texts(&["h"])),
        ("tokenizer.ggml.eos_token_id", Value::U32(100_000)),
        ("tokenizer.ggml.token_type", list(GGUFValueType::I32, vec![Value::I32(1)])),
        ("tokenizer.ggml.tokens", texts(&["\u{4e00}"; 258])),
        ("llama.block_count", Value::U32(0)),
        ("llama.context_length", Value::U64(1 << 40)),
        ("llama.rope.freq_base", Value::F32(f32::NAN)),
        ("llama.rope.scaling.type", text("yarn")),
        ("llama.rope.dimension_count", Value::U32(8)),
        ("llama.attention.layer_norm_rms_epsilon", text("small")),
    ] {
        let error = changed(key, value);
        assert!(matches!(&error, Error::Metadata { key: named, .. } if named == key), "{key}: {error}");
        assert!(error.to_string().contains("has to be"), "{error}");
    }
    let error = changed("tokenizer.ggml.merges", texts(&["zz zz"]));
    assert!(matches!(error, Error::Tokenizer(_)), "{error}");
    assert!(matches!(changed("llama.attention.head_count_kv", Value::U32(3)), Error::Attn(_)));
    let error = changed("llama.block_count", Value::U32(2));
    assert!(matches!(&error, Error::Tensor { name, .. } if name.starts_with("blk.1.")), "{error}");

    let tensor = |change: &dyn Fn(&mut Parts)| {
        let mut parts = parts();
        change(&mut parts);
        load(&parts.bytes()).unwrap_err()
    };
    let name = "blk.0.attn_q.weight";
    for change in [
        &(|parts: &mut Parts| drop(parts.tensors.remove(name))) as &dyn Fn(&mut Parts),
        &|parts| parts.tensors.get_mut(name).unwrap().0 = vec![64, 16],
        &|parts| *parts.tensors.get_mut(name).unwrap() = (vec![32, 32], Kind::Q5_0, vec![0; 32 * 22]),
    ] {
        let error = tensor(change);
        assert!(matches!(&error, Error::Tensor { name: named, .. } if named == name), "{error}");
    }
    let missing = Gguf::open("/nowhere/model.gguf".as_ref()).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }), "{missing}");
}

#[test]
fn broken_files_are_refused() {
    let whole = parts().bytes();
    let data = whole.len() - parts().tensors.values().map(|(_, _, bytes)| bytes.len()).sum::<usize>();
    LARGEST.store(0, Ordering::Relaxed);
    for len in (0..data).chain((data..whole.len()).step_by(997)) {
        let error = load(&whole[..len]).expect_err("a part of a file");
        assert!(matches!(error, Error::Gguf { .. }), "{len} of {} bytes: {error}", whole.len());
    }
    // any byte of the header; many changes are of names and texts, and some of them are harmless
    let (mut refused, mut changed) = (0, whole.clone());
    for at in 0..data {
        for flip in [0x01, 0x80, 0xff] {
            changed[at] ^= flip;
            refused += usize::from(load(&changed).is_err());
            changed[at] ^= flip;
        }
    }
    assert!(refused > data, "{refused} of {} changes are refused", data * 3);
    // a small file is below 64 KiB: nothing is allocated by a length that it only claims
    assert!(LARGEST.load(Ordering::Relaxed) < 16 << 20, "{} bytes at once", LARGEST.load(Ordering::Relaxed));
}
