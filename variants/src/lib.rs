//! The stock variants, one small file each, written with the public language alone: each is also an example.
//!
//! They register themselves where the feature `inventory` is on; [`variants`] is the table for everybody else.

// The macros emit paths that start with `::attn`; in a crate below the facade that is attn-core.
extern crate attn_core as attn;

mod alibi;
mod causal;
mod cosine;
mod full;
mod head_scales;
mod llama3_rope;
mod log_scale;
mod output_norm;
mod output_scale;
mod qk_norm;
mod relative_bias;
mod relu;
mod retention;
mod rope;
mod rope_table;
mod rotation;
mod sigmoid;
mod sink;
mod sliding_window;
mod soft_cap;
mod softmax_n;
mod t5_bias;
mod temperature;
#[cfg(test)]
mod testing;
mod yarn;

pub use alibi::Alibi;
pub use causal::Causal;
pub use cosine::Cosine;
pub use full::Full;
pub use head_scales::HeadScales;
pub use llama3_rope::Llama3Rope;
pub use log_scale::LogScale;
pub use output_norm::OutputNorm;
pub use output_scale::OutputScale;
pub use qk_norm::QkNorm;
pub use relative_bias::RelativeBias;
pub use relu::Relu;
pub use retention::Retention;
pub use rope::Rope;
pub use rope_table::RopeTable;
pub use sigmoid::Sigmoid;
pub use sink::Sink;
pub use sliding_window::SlidingWindow;
pub use soft_cap::SoftCap;
pub use softmax_n::SoftmaxN;
pub use t5_bias::T5Bias;
pub use temperature::Temperature;
pub use yarn::Yarn;

use attn::lang::VariantDesc;

/// The stock variants, for a registry that `inventory` does not fill.
#[must_use]
pub fn variants() -> &'static [&'static VariantDesc] {
    attn::variants![
        Alibi,
        Causal,
        Cosine,
        Full,
        HeadScales,
        Llama3Rope,
        LogScale,
        OutputNorm,
        OutputScale,
        QkNorm,
        RelativeBias,
        Relu,
        Retention,
        Rope,
        RopeTable,
        Sigmoid,
        Sink,
        SlidingWindow,
        SoftCap,
        SoftmaxN,
        T5Bias,
        Temperature,
        Yarn,
    ]
}

#[cfg(test)]
mod tests {
    use attn::lang::{FieldType, Hook};

    /// What `attn list` and the README print comes from here.
    #[test]
    fn every_variant_says_what_it_is_in_a_line() {
        let table = super::variants();
        assert!(table.len() >= 23);
        for desc in table {
            let summary = desc.doc.lines().next().unwrap_or_default();
            assert!(summary.ends_with('.') && summary.len() <= 100, "{}: `{summary}`", desc.name);
            assert_eq!(desc.doc.lines().nth(1).unwrap_or_default(), "", "{}: one line, then a blank one", desc.name);
            assert!(desc.doc.contains("arXiv"), "{}: a source", desc.name);
            assert!(desc.file.ends_with(&format!("{}.rs", desc.name)), "{}: {}", desc.name, desc.file);
            for field in desc.fields {
                assert!(!field.doc.is_empty(), "{}.{} has no doc", desc.name, field.name);
                let tensor = matches!(field.ty, FieldType::Tensor { .. });
                assert_eq!(tensor, !field.shape.is_empty(), "{}.{}", desc.name, field.name);
            }
            assert_eq!(desc.has(Hook::LogitsMask), desc.has(Hook::TileClass), "{}: tiles are classed", desc.name);
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
