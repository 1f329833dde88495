//! Broken, truncated and foreign model files: an error that says what is wrong, no panic, and no large allocation.

#![allow(clippy::unwrap_used)]

mod parts;
mod tokens;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    io::Cursor,
    sync::atomic::{AtomicUsize, Ordering},
};

use generate::{
    Error,
    model::{gguf::Gguf, math::CpuMath, weights::LlamaWeights},
    tokenizer::Tokenizer,
};
use gguf_rs_lib::{
    format::{metadata::MetadataValue as Value, types::GGUFValueType},
    tensor::TensorType as Kind,
};
use parts::{Parts, list, parts, texts};

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
        ("tokenizer.ggml.merges", texts(&["h e", "i n", "h e"])),
        ("tokenizer.ggml.eos_token_id", Value::U32(100_000)),
        ("tokenizer.ggml.token_type", list(GGUFValueType::I32, vec![Value::I32(1)])),
        ("tokenizer.ggml.tokens", texts(&["\u{4e00}"; 258])),
        ("llama.block_count", Value::U32(0)),
        ("llama.context_length", Value::U64(1 << 40)),
        ("llama.rope.freq_base", Value::F32(f32::NAN)),
        ("llama.rope.scaling.type", text("yarn")),
        ("llama.rope.dimension_count", Value::U32(8)),
        ("llama.attention.layer_norm_rms_epsilon", text("small")),
        // keys that are known, with values that this program does not do
        ("general.type", text("adapter")),
        ("split.count", Value::U16(2)),
        ("llama.vocab_size", Value::U32(7)),
        ("llama.rope.scaling.factor", Value::F32(8.0)),
        ("llama.rope.scale_linear", Value::F32(2.0)),
        ("llama.attention.sliding_window", Value::U32(16)),
        ("llama.attention.causal", Value::Bool(false)),
        ("llama.attention.scale", Value::F32(0.5)),
        ("llama.final_logit_softcapping", Value::F32(30.0)),
        ("llama.logit_scale", Value::F32(0.5)),
        ("llama.expert_count", Value::U32(8)),
        ("tokenizer.ggml.add_bos_token", Value::Bool(true)),
        ("tokenizer.ggml.add_eos_token", Value::Bool(true)),
        ("tokenizer.ggml.add_space_prefix", Value::Bool(true)),
        ("tokenizer.ggml.eot_token_id", Value::U32(3)),
        ("tokenizer.ggml.bos_token_id", Value::U32(100_000)),
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

/// A key or a tensor that changes what the model says, and is not understood, is refused by its name.
#[test]
fn what_is_not_understood_is_named() {
    let text = |text: &str| Value::String(text.to_owned());
    let with = |key, value| {
        let mut parts = parts();
        parts.metadata.insert(key, value);
        load(&parts.bytes())
    };
    for (key, value) in [
        ("llama.rope.scaling.low_freq_factor", Value::F32(1.0)),
        ("llama.attention.block_count_of_something", Value::U32(1)),
        ("llama.tensor_data_layout", text("Meta AI original pth")),
        ("tokenizer.ggml.precompiled_charsmap", text("x")),
        ("tokenizer.rwkv.world", text("x")),
    ] {
        let error = with(key, value).expect_err(key);
        assert!(matches!(&error, Error::Unknown { what: "key", name, .. } if name == key), "{key}: {error}");
        assert!(error.to_string().contains(&format!("does not know the key `{key}`")), "{error}");
    }
    // and what changes nothing
    let last = parts().metadata.get("tokenizer.ggml.eos_token_id").cloned().unwrap();
    for (key, value) in [
        ("general.type", text("model")),
        ("general.file_type", Value::U32(3)),
        ("general.quantization_version", Value::U32(2)),
        ("split.count", Value::U16(0)),
        ("llama.context_length", Value::U32(1 << 20)),
        ("quantize.imatrix.file", text("x")),
        ("llama.expert_count", Value::U32(0)),
        ("llama.rope.scaling.type", text("none")),
        ("tokenizer.ggml.scores", list(GGUFValueType::F32, vec![Value::F32(0.0)])),
        ("tokenizer.ggml.add_bos_token", Value::Bool(false)),
        ("tokenizer.ggml.eot_token_id", last),
        ("tokenizer.ggml.fim_pre_token_id", Value::U32(1)),
        ("tokenizer.chat_template.tool_use", text("x")),
    ] {
        with(key, value).unwrap();
    }

    // blocks of another version, which no writer makes
    let key = "general.quantization_version";
    let mut of_two = parts();
    of_two.metadata.insert(key, Value::U32(2));
    let mut bytes = of_two.bytes();
    let value = bytes.windows(key.len()).position(|bytes| bytes == key.as_bytes()).unwrap() + key.len() + 4;
    bytes[value] = 3;
    let error = load(&bytes).unwrap_err();
    assert!(matches!(&error, Error::Metadata { key: named, .. } if named == key), "{error}");

    for name in ["rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.attn_q_norm.weight", "blk.7.attn_q.weight", "extra"] {
        let mut parts = parts();
        parts.tensors.insert(name.to_owned(), (vec![8], Kind::F32, vec![0; 32]));
        let error = load(&parts.bytes()).expect_err(name);
        assert!(
            matches!(&error, Error::Unknown { what: "tensor", name: named, .. } if named == name),
            "{name}: {error}"
        );
    }
}

/// RoPE turns pairs of elements.
#[test]
fn an_odd_head_dim_is_refused() {
    for (key, other) in [("llama.attention.key_length", 15), ("llama.attention.head_count", 32)] {
        let mut parts = parts();
        parts.metadata.insert(key, Value::U32(other));
        parts.metadata.remove("llama.rope.dimension_count");
        let error = Gguf::read("test.gguf".to_owned(), Cursor::new(parts.bytes())).unwrap().config().unwrap_err();
        assert!(matches!(&error, Error::Metadata { key: named, .. } if named == key), "{error}");
    }
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
