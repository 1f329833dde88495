//! What the keys of a file may say. A key that is not here may change what the model says, and is refused.

use gguf_rs_lib::format::metadata::MetadataValue;

/// What a key may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum May {
    /// Anything: it is read elsewhere, or changes nothing.
    Any,
    /// No, which is what a file without the key means.
    False,
    True,
    /// This number alone.
    Be(f64),
    /// A whole number up to this one.
    Most(u64),
    /// This text alone.
    Say(&'static str),
}

/// Keys of a whole file. Others of `general.` say what it is called, and where it is from.
pub(crate) const FILE: &[(&str, May)] = &[
    ("general.type", May::Say("model")),
    ("general.quantization_version", May::Be(2.0)),
    // one of several files has no output matrix, say, and is no model with a tied one
    ("split.count", May::Most(1)),
];

/// Keys of the shape of a Llama, without `llama.`.
pub(crate) const LLAMA: &[(&str, May)] = &[
    ("block_count", May::Any),
    ("context_length", May::Any),
    ("embedding_length", May::Any),
    ("feed_forward_length", May::Any),
    ("vocab_size", May::Any),
    ("attention.head_count", May::Any),
    ("attention.head_count_kv", May::Any),
    ("attention.key_length", May::Any),
    ("attention.value_length", May::Any),
    ("attention.layer_norm_rms_epsilon", May::Any),
    ("attention.causal", May::True),
    ("attention.max_alibi_bias", May::Be(0.0)),
    ("attention.clamp_kqv", May::Be(0.0)),
    ("attention.scale", May::Be(0.0)),
    ("attention.sliding_window", May::Be(0.0)),
    ("attn_logit_softcapping", May::Be(0.0)),
    ("final_logit_softcapping", May::Be(0.0)),
    ("logit_scale", May::Be(1.0)),
    ("residual_scale", May::Be(1.0)),
    ("embedding_scale", May::Be(1.0)),
    ("use_parallel_residual", May::False),
    ("expert_count", May::Be(0.0)),
    ("expert_used_count", May::Be(0.0)),
    ("rope.dimension_count", May::Any),
    ("rope.freq_base", May::Any),
    ("rope.scale_linear", May::Be(1.0)),
    ("rope.scaling.type", May::Say("none")),
    ("rope.scaling.factor", May::Be(1.0)),
    ("rope.scaling.attn_factor", May::Be(1.0)),
    // of a scaling that there is not
    ("rope.scaling.original_context_length", May::Any),
    ("rope.scaling.finetuned", May::Any),
];

/// Keys of the tokenizer, without `tokenizer.`.
pub(crate) const TOKENIZER: &[(&str, May)] = &[
    ("ggml.model", May::Any),
    ("ggml.pre", May::Any),
    ("ggml.tokens", May::Any),
    ("ggml.token_type", May::Any),
    ("ggml.merges", May::Any),
    // of tokenizers without merges
    ("ggml.scores", May::Any),
    ("ggml.bos_token_id", May::Any),
    ("ggml.eos_token_id", May::Any),
    ("ggml.eot_token_id", May::Any),
    ("ggml.eom_token_id", May::Any),
    ("ggml.unknown_token_id", May::Any),
    ("ggml.padding_token_id", May::Any),
    ("ggml.seperator_token_id", May::Any),
    ("ggml.cls_token_id", May::Any),
    ("ggml.mask_token_id", May::Any),
    ("ggml.add_bos_token", May::False),
    ("ggml.add_eos_token", May::False),
    ("ggml.add_sep_token", May::False),
    ("ggml.add_space_prefix", May::False),
    ("ggml.remove_extra_whitespaces", May::False),
    // tokens for gaps in texts, which nothing here asks for
    ("ggml.prefix_token_id", May::Any),
    ("ggml.suffix_token_id", May::Any),
    ("ggml.middle_token_id", May::Any),
    ("ggml.fim_pre_token_id", May::Any),
    ("ggml.fim_suf_token_id", May::Any),
    ("ggml.fim_mid_token_id", May::Any),
    ("ggml.fim_pad_token_id", May::Any),
    ("ggml.fim_rep_token_id", May::Any),
    ("ggml.fim_sep_token_id", May::Any),
    // the same tokenizer in another format
    ("huggingface.json", May::Any),
    ("chat_template", May::Any),
    // templates for tools, by their names
    ("chat_templates", May::Any),
    ("chat_template.", May::Any),
];

impl May {
    /// What a key may be; `None` for one that is not known.
    pub(crate) fn of(table: &[(&str, May)], key: &str) -> Option<May> {
        let is_meant = |name: &str| name == key || name.ends_with('.') && key.starts_with(name);
        table.iter().find(|(name, _)| is_meant(name)).map(|(_, may)| *may)
    }

    pub(crate) fn allows(self, value: &MetadataValue) -> bool {
        let number = || value.as_f64().or_else(|| value.as_u64().map(|value| value as f64));
        match self {
            May::Any => true,
            May::False => value.as_bool() == Some(false),
            May::True => value.as_bool() == Some(true),
            May::Be(want) => number() == Some(want),
            May::Most(most) => value.as_u64().is_some_and(|value| value <= most),
            May::Say(want) => value.as_str() == Some(want),
        }
    }

    /// What a value has to be.
    pub(crate) fn words(self) -> &'static str {
        match self {
            May::Any => "anything",
            May::False => "false: this program does not do it",
            May::True => "true: this program does nothing else",
            May::Be(0.0) => "0: this program does not do it",
            May::Be(2.0) => "2: this program reads no other blocks",
            May::Most(_) => "at most 1: join the files of a model that has several, by `llama-gguf-split --merge`",
            May::Be(_) => "1: this program does not scale it",
            May::Say(want) => want,
        }
    }
}
