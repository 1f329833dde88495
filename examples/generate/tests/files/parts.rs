//! A small model file, in parts.

use std::collections::BTreeMap;

use gguf_rs_lib::{
    builder::gguf_builder::GGUFBuilder,
    format::{
        metadata::{MetadataArray, MetadataValue as Value},
        types::GGUFValueType,
    },
    tensor::TensorType as Kind,
};

const WIDTH: usize = 32;
const FFN: usize = 64;

/// The parts of a small file, to change before it is written.
pub(crate) struct Parts {
    pub(crate) metadata: BTreeMap<&'static str, Value>,
    pub(crate) tensors: BTreeMap<String, (Vec<u64>, Kind, Vec<u8>)>,
}

pub(crate) fn list(kind: GGUFValueType, values: Vec<Value>) -> Value {
    Value::Array(Box::new(MetadataArray::new(kind, values).unwrap()))
}

pub(crate) fn texts<T: ToString>(values: &[T]) -> Value {
    list(GGUFValueType::String, values.iter().map(|text| Value::String(text.to_string())).collect())
}

/// A file of one block with a vocabulary of bytes, one merge and one control token.
pub(crate) fn parts() -> Parts {
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
    pub(crate) fn bytes(self) -> Vec<u8> {
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
