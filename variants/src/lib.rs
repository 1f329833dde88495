//! The stock variants, one small file each, written with the public language alone: each is also an example.
//!
//! They register themselves where the feature `inventory` is on; [`variants`] is the table for everybody else.

// The macros emit paths that start with `::attn`; in a crate below the facade that is attn-core.
extern crate attn_core as attn;

mod alibi;
mod batchify;
mod bidirectional_window;
mod block_causal;
mod block_diffusion;
mod block_mask;
pub mod block_sparse;
mod block_sparse_masked;
mod causal;
mod causal_documents;
mod chunk_positions;
mod chunked;
mod cosine;
mod custom_mask;
mod dilated_window;
mod document_spans;
mod documents;
mod dropout;
mod flash_mask;
mod full;
mod global_window;
mod head_gate;
mod head_scales;
mod image_spans;
mod k_smoothing;
mod llama3_rope;
mod log_scale;
mod logits_dump;
mod max_logit;
mod multi_item;
mod output_gate;
mod output_norm;
mod output_scale;
mod packed_documents;
mod page_list;
mod pair_bias;
mod positions;
mod prefix_lm;
mod qk_norm;
pub mod quest;
mod relative_bias;
mod relu;
mod retention;
mod rope;
mod rope_table;
mod rotation;
mod shared_prefix;
mod sigmoid;
mod sink;
mod sliding_window;
mod soft_cap;
mod softmax_n;
mod softpick;
mod streaming;
mod t5_bias;
mod temperature;
#[cfg(test)]
mod testing;
mod token_list;
mod token_scales;
mod tree;
mod value_norm;
mod yarn;

pub use alibi::Alibi;
pub use batchify::Batchify;
pub use bidirectional_window::BidirectionalWindow;
pub use block_causal::BlockCausal;
pub use block_diffusion::BlockDiffusion;
pub use block_mask::BlockMask;
pub use block_sparse::BlockSparse;
pub use block_sparse_masked::BlockSparseMasked;
pub use causal::Causal;
pub use causal_documents::CausalDocuments;
pub use chunk_positions::ChunkPositions;
pub use chunked::Chunked;
pub use cosine::Cosine;
pub use custom_mask::{CustomMask, CustomMaskError, MaskOf};
pub use dilated_window::DilatedWindow;
pub use document_spans::DocumentSpans;
pub use documents::Documents;
pub use dropout::Dropout;
pub use flash_mask::FlashMask;
pub use full::Full;
pub use global_window::GlobalWindow;
pub use head_gate::HeadGate;
pub use head_scales::HeadScales;
pub use image_spans::ImageSpans;
pub use k_smoothing::KSmoothing;
pub use llama3_rope::Llama3Rope;
pub use log_scale::LogScale;
pub use logits_dump::LogitsDump;
pub use max_logit::MaxLogit;
pub use multi_item::MultiItem;
pub use output_gate::OutputGate;
pub use output_norm::OutputNorm;
pub use output_scale::OutputScale;
pub use packed_documents::PackedDocuments;
pub use page_list::{PageList, PageListError};
pub use pair_bias::PairBias;
pub use positions::Positions;
pub use prefix_lm::PrefixLm;
pub use qk_norm::QkNorm;
pub use relative_bias::RelativeBias;
pub use relu::Relu;
pub use retention::Retention;
pub use rope::Rope;
pub use rope_table::RopeTable;
pub use shared_prefix::SharedPrefix;
pub use sigmoid::Sigmoid;
pub use sink::Sink;
pub use sliding_window::SlidingWindow;
pub use soft_cap::SoftCap;
pub use softmax_n::SoftmaxN;
pub use softpick::Softpick;
pub use streaming::Streaming;
pub use t5_bias::T5Bias;
pub use temperature::Temperature;
pub use token_list::TokenList;
pub use token_scales::TokenScales;
pub use tree::Tree;
pub use value_norm::ValueNorm;
pub use yarn::Yarn;

use attn::lang::VariantDesc;

/// The stock variants, for a registry that `inventory` does not fill.
#[must_use]
pub fn variants() -> &'static [&'static VariantDesc] {
    attn::variants![
        Alibi,
        Batchify,
        BidirectionalWindow,
        BlockCausal,
        BlockDiffusion,
        BlockMask,
        BlockSparse,
        BlockSparseMasked,
        Causal,
        CausalDocuments,
        ChunkPositions,
        Chunked,
        Cosine,
        CustomMask,
        DilatedWindow,
        DocumentSpans,
        Documents,
        Dropout,
        FlashMask,
        Full,
        GlobalWindow,
        HeadGate,
        HeadScales,
        ImageSpans,
        KSmoothing,
        Llama3Rope,
        LogScale,
        LogitsDump,
        MaxLogit,
        MultiItem,
        OutputGate,
        OutputNorm,
        OutputScale,
        PackedDocuments,
        PageList,
        PairBias,
        Positions,
        PrefixLm,
        QkNorm,
        RelativeBias,
        Relu,
        Retention,
        Rope,
        RopeTable,
        SharedPrefix,
        Sigmoid,
        Sink,
        SlidingWindow,
        SoftCap,
        SoftmaxN,
        Softpick,
        Streaming,
        T5Bias,
        Temperature,
        TokenList,
        TokenScales,
        Tree,
        ValueNorm,
        Yarn,
    ]
}

#[cfg(test)]
mod tests {
    use attn::lang::FieldType;

    /// What `attn list` and the README print comes from here.
    #[test]
    fn every_variant_says_what_it_is_in_a_line() {
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
    fn all_are_registered_by_name() {
        attn::registry::register(super::variants()).expect("no two share a name");
        let registry = attn::Registry::global().expect("no two share a name");
        assert!(super::variants().iter().all(|desc| registry.get(desc.name).is_some()));
        let text = "causal + sliding_window(window=4096) + alibi + qk_norm + rope(interleaved=true) + soft_cap(cap=50)";
        let variant = attn::Variant::parse(text).expect("all are there");
        let dims = attn::lang::Dims { qo_heads: Some(9), kv_heads: Some(3), head_dim: Some(64), ..Default::default() };
        variant.bind(&dims).expect("the rest has defaults");
    }
}
