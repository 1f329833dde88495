//! The stock variants: one file each, in folders by family, written with the public language alone, so that each is
//! also an example.
//!
//! With the feature `inventory` they register themselves; without it, register the table [`variants`].

// The macros emit paths that start with `::attn`. Below the facade, attn-core stands for it.
extern crate attn_core as attn;

pub mod kv_formats;
mod packed_bits;
#[cfg(test)]
mod testing;

use attn::lang::VariantDesc;

/// Lists each stock variant once: `module: Variant` is the file `family/module.rs` and the type in it; braces name what
/// else of that file is public, and `with` names files of the family that hold no variant.
///
/// Declares the modules, re-exports the variants, and makes the table of [`variants`]. A variant registers itself with
/// `inventory` in `#[attention_variant]`, so declaring its module is enough.
macro_rules! stock_variants {
    ($(
        $(#[$doc:meta])*
        mod $family:ident $(with $helper:ident)* {
            $($module:ident: $variant:ident $({ $($also:ident),* })?,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[allow(unreachable_pub)] // `pub` here, so that the crate's root can re-export a whole module
            mod $family {
                $(pub mod $helper;)*
                $(pub mod $module;)*
            }
        )*
        $($(pub use $family::$module::{$variant $($(, $also)*)?};)*)*

        /// The stock variants, for a registry that `inventory` does not fill.
        #[must_use]
        pub fn variants() -> &'static [&'static VariantDesc] {
            attn::variants![$($($variant),*),*]
        }
    };
}

stock_variants! {
    /// Masks: which keys a query attends to.
    mod masks {
        bidirectional_window: BidirectionalWindow,
        block_causal: BlockCausal,
        block_diffusion: BlockDiffusion,
        block_mask: BlockMask,
        causal: Causal,
        causal_documents: CausalDocuments,
        chunked: Chunked,
        custom_mask: CustomMask { CustomMaskError, RequestMask },
        dilated_window: DilatedWindow,
        document_spans: DocumentSpans,
        documents: Documents,
        flash_mask: FlashMask,
        full: Full,
        global_window: GlobalWindow,
        image_spans: ImageSpans,
        multi_item: MultiItem,
        prefix_lm: PrefixLm,
        shared_prefix: SharedPrefix,
        sliding_window: SlidingWindow,
        streaming: Streaming,
        tree: Tree,
    }

    /// Remaps: the positions that the hooks of a composition see.
    mod remap {
        batchify: Batchify,
        cache_positions: CachePositions,
        chunk_positions: ChunkPositions,
        interleaved_positions: InterleavedPositions,
        packed_documents: PackedDocuments,
        positions: Positions,
    }

    /// Biases: numbers added to logits.
    mod bias {
        alibi: Alibi,
        pair_bias: PairBias,
        relative_bias: RelativeBias,
        t5_bias: T5Bias,
    }

    /// Scales: factors and caps of logits.
    mod scale {
        log_scale: LogScale,
        soft_cap: SoftCap,
        temperature: Temperature,
    }

    /// Rotary embeddings of queries and keys.
    mod rotary with rotation {
        llama3_rope: Llama3Rope,
        rope: Rope,
        rope_table: RopeTable,
        yarn: Yarn,
    }

    /// Norms of queries, keys and values.
    mod norm {
        cosine: Cosine,
        qk_norm: QkNorm,
        value_norm: ValueNorm,
    }

    /// Quantisation: scales of stored elements, and what makes keys easier to quantise.
    mod quant {
        hadamard: Hadamard,
        head_scales: HeadScales,
        k_smoothing: KSmoothing,
        token_scales: TokenScales,
    }

    /// Sparse attention: lists of keys, so that no other keys are read.
    mod sparse with quest {
        block_sparse: BlockSparse,
        block_sparse_masked: BlockSparseMasked,
        page_list: PageList { PageListError },
        token_list: TokenList,
    }

    /// Normalisers: how logits become weights.
    mod normalizer {
        dropout: Dropout,
        relu: Relu,
        retention: Retention,
        sigmoid: Sigmoid,
        silu: Silu,
        sink: Sink,
        softmax_n: SoftmaxN,
        softpick: Softpick,
    }

    /// Outputs: transforms of finished rows, and what else is written out.
    mod output {
        differential: Differential,
        head_gate: HeadGate,
        logits_dump: LogitsDump,
        max_logit: MaxLogit,
        output_gate: OutputGate,
        output_norm: OutputNorm,
        output_scale: OutputScale,
    }
}

pub use sparse::{block_sparse, quest};

#[cfg(test)]
mod tests {
    use attn::lang::FieldType;

    /// `attn list` and the README print these lines.
    #[test]
    fn every_variant_has_a_summary_line_and_a_source() {
        let table = super::variants();
        assert!(table.len() >= 36);
        for desc in table {
            let summary = desc.doc.lines().next().unwrap_or_default();
            assert!(summary.ends_with('.') && summary.len() <= 100, "{}: `{summary}`", desc.name);
            assert_eq!(desc.doc.lines().nth(1).unwrap_or_default(), "", "{}: one line, then a blank one", desc.name);
            assert!(desc.doc.contains("arXiv"), "{}: a source", desc.name);
            assert!(desc.file.ends_with(&format!("{}.rs", desc.name)), "{}: {}", desc.name, desc.file);
            for field in desc.fields {
                assert!(!field.doc.is_empty(), "{}.{} has no doc", desc.name, field.name);
                let scalar = matches!(field.ty, FieldType::Scalar(_));
                assert_eq!(scalar, field.shape.is_empty(), "{}.{}", desc.name, field.name);
            }
        }
    }

    #[test]
    fn all_variants_are_registered_by_name() {
        attn::registry::register(super::variants()).expect("no two share a name");
        let registry = attn::Registry::global().expect("no two share a name");
        assert!(super::variants().iter().all(|desc| registry.get(desc.name).is_some()));
        let text = "causal + sliding_window(window=4096) + alibi + qk_norm + rope(interleaved=true) + soft_cap(cap=50)";
        let variant = attn::Variant::parse(text).expect("all are registered");
        let dims = attn::lang::Dims { qo_heads: Some(9), kv_heads: Some(3), head_dim: Some(64), ..Default::default() };
        variant.bind(&dims).expect("the rest has defaults");
    }
}
