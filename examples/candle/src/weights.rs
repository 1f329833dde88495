//! Weights of a GGUF file, dequantised by candle, by the names of Hugging Face's checkpoints.

use std::{collections::HashMap, fs::File, path::Path};

use anyhow::{Context as _, Result};
use attn_candle::Heads;
use candle_core::{DType, Device, Tensor, quantized::gguf_file::Content};
use candle_transformers::models::llama::Config;

/// A model's weights and shape.
pub(crate) struct Weights {
    pub(crate) tensors: HashMap<String, Tensor>,
    pub(crate) config: Config,
    vocabulary: Vec<String>,
}

/// Names of the tensors of a layer, in Hugging Face's checkpoints and in GGUF.
const OF_LAYER: [[&str; 2]; 9] = [
    ["self_attn.q_proj", "attn_q"],
    ["self_attn.k_proj", "attn_k"],
    ["self_attn.v_proj", "attn_v"],
    ["self_attn.o_proj", "attn_output"],
    ["mlp.gate_proj", "ffn_gate"],
    ["mlp.up_proj", "ffn_up"],
    ["mlp.down_proj", "ffn_down"],
    ["input_layernorm", "attn_norm"],
    ["post_attention_layernorm", "ffn_norm"],
];

impl Weights {
    pub(crate) fn read(path: &Path, dtype: DType, device: &Device) -> Result<Self> {
        let mut file = File::open(path)?;
        let content = Content::read(&mut file)?;
        let value = |key: &str| content.metadata.get(key).with_context(|| format!("no `{key}`"));
        let size = |key: &str| anyhow::Ok(value(&format!("llama.{key}"))?.to_u32()? as usize);
        let vocabulary = value("tokenizer.ggml.tokens")?.to_vec()?.iter();
        let vocabulary = vocabulary.map(|token| token.to_string().cloned()).collect::<candle_core::Result<Vec<_>>>()?;
        let config = Config {
            hidden_size: size("embedding_length")?,
            intermediate_size: size("feed_forward_length")?,
            vocab_size: vocabulary.len(),
            num_hidden_layers: size("block_count")?,
            num_attention_heads: size("attention.head_count")?,
            num_key_value_heads: size("attention.head_count_kv")?,
            use_flash_attn: false,
            rms_norm_eps: value("llama.attention.layer_norm_rms_epsilon")?.to_f32()?.into(),
            rope_theta: value("llama.rope.freq_base")?.to_f32()?,
            bos_token_id: None,
            eos_token_id: None,
            rope_scaling: None,
            max_position_embeddings: 2048,
            tie_word_embeddings: !content.tensor_infos.contains_key("output.weight"),
        };
        let mut read =
            |name: &str| content.tensor(&mut file, &format!("{name}.weight"), &Device::Cpu)?.dequantize(&Device::Cpu);
        let mut tensors = HashMap::new();
        let mut put = |name: String, tensor: Tensor| {
            tensors.insert(format!("{name}.weight"), tensor.to_dtype(dtype)?.to_device(device)?);
            candle_core::Result::Ok(())
        };
        for layer in 0..config.num_hidden_layers {
            for [name, of_gguf] in OF_LAYER {
                let tensor = read(&format!("blk.{layer}.{of_gguf}"))?;
                let tensor = match of_gguf {
                    "attn_q" => half_split(&tensor, config.num_attention_heads)?,
                    "attn_k" => half_split(&tensor, config.num_key_value_heads)?,
                    _ => tensor,
                };
                put(format!("model.layers.{layer}.{name}"), tensor)?;
            }
        }
        put("model.embed_tokens".to_owned(), read("token_embd")?)?;
        put("model.norm".to_owned(), read("output_norm")?)?;
        if !config.tie_word_embeddings {
            put("lm_head".to_owned(), read("output")?)?;
        }
        Ok(Weights { tensors, config, vocabulary })
    }

    /// The same weights in another element type.
    pub(crate) fn to_dtype(&self, dtype: DType) -> candle_core::Result<Self> {
        let of = |(name, tensor): (&String, &Tensor)| Ok((name.clone(), tensor.to_dtype(dtype)?));
        let tensors = self.tensors.iter().map(of).collect::<candle_core::Result<_>>()?;
        Ok(Weights { tensors, config: self.config.clone(), vocabulary: self.vocabulary.clone() })
    }

    pub(crate) fn get(&self, name: &str) -> candle_core::Result<Tensor> {
        let tied = name == "lm_head.weight" && self.config.tie_word_embeddings;
        let name = if tied { "model.embed_tokens.weight" } else { name };
        let found = self.tensors.get(name).cloned();
        found.ok_or_else(|| candle_core::Error::msg(format!("the file has no `{name}`")))
    }

    pub(crate) fn heads(&self) -> Heads {
        let Config { num_attention_heads: qo, num_key_value_heads: kv, hidden_size, .. } = self.config;
        Heads { qo: qo as u32, kv: kv as u32, head_dim: (hidden_size / qo) as u32 }
    }

    /// The tokens as text, as far as they are ASCII.
    pub(crate) fn text(&self, ids: &[u32]) -> String {
        let words = ids.iter().filter_map(|&id| self.vocabulary.get(id as usize));
        words.map(|word| word.replace('Ġ', " ").replace('Ċ', "\n")).collect()
    }
}

/// Rows of queries or keys in the order of half-split rotations. GGUF has the pairs of a rotation beside each other.
fn half_split(weight: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let (rows, columns) = weight.dims2()?;
    weight.reshape((heads, rows / heads / 2, 2, columns))?.transpose(1, 2)?.contiguous()?.reshape((rows, columns))
}
