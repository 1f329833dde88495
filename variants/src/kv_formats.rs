//! KV formats: how rows of keys and values are stored.

mod ds_mla;
mod half;
mod int4;
mod int8;
mod mx_fp8;
mod nvfp4;
mod per_channel;
mod turbo4;

pub use ds_mla::DsMla;
pub use half::{Bf16, F16};
pub use int4::Int4;
pub use int8::Int8;
pub use mx_fp8::MxFp8;
pub use nvfp4::Nvfp4;
pub use per_channel::PerChannel;
pub use turbo4::Turbo4;

use attn::lang::kv_format::KvFormatDesc;

/// The stock KV formats, for a registry that `inventory` does not fill
/// ([`register_kv_formats`](attn::registry::register_kv_formats)).
#[must_use]
pub fn all() -> &'static [&'static KvFormatDesc] {
    attn::kv_formats![Bf16, DsMla, F16, Int4, Int8, MxFp8, Nvfp4, PerChannel, Turbo4]
}

#[cfg(test)]
mod tests {
    use attn::lang::FieldType;

    #[test]
    fn every_format_has_a_summary_line_and_a_source() {
        for desc in super::all() {
            let summary = desc.doc.lines().next().unwrap_or_default();
            assert!(summary.ends_with('.') && summary.len() <= 110, "{}: `{summary}`", desc.name);
            assert_eq!(desc.doc.lines().nth(1).unwrap_or_default(), "", "{}: one line, then a blank one", desc.name);
            assert!(desc.doc.contains("arXiv"), "{}: a source", desc.name);
            for field in desc.fields {
                assert!(!field.doc.is_empty(), "{}.{} has no doc", desc.name, field.name);
                let scalar = matches!(field.ty, FieldType::Scalar(_));
                assert_eq!(scalar, field.shape.is_empty(), "{}.{}", desc.name, field.name);
            }
        }
    }
}
