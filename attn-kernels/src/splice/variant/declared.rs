//! What the struct of a part is made of, whether the part is one of a variant or a KV format.

use attn_core::lang::desc::ConstDesc;
use attn_core::lang::device_type::TypeLink;
use attn_core::lang::kv_format::KvFormatDesc;
use attn_core::lang::{DeviceFn, FieldDesc, VariantDesc};

/// The declarations of a part of a variant, or of a KV format.
#[derive(Clone, Copy)]
pub(super) struct Declared {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) fields: &'static [FieldDesc],
    pub(super) divisors: &'static [&'static str],
    /// Parameter tensors whose ranges the tile class reads.
    pub(super) tables: &'static [&'static str],
    pub(super) device_fns: &'static [&'static DeviceFn],
    pub(super) types: &'static [TypeLink],
    pub(super) consts: &'static [ConstDesc],
}

impl From<&VariantDesc> for Declared {
    fn from(of: &VariantDesc) -> Self {
        let &VariantDesc { name, doc, fields, divisors, device_fns, types, consts, .. } = of;
        Declared { name, doc, fields, divisors, tables: of.mask.tables, device_fns, types, consts }
    }
}

impl From<&KvFormatDesc> for Declared {
    fn from(of: &KvFormatDesc) -> Self {
        let &KvFormatDesc { name, doc, fields, divisors, device_fns, types, consts, .. } = of;
        Declared { name, doc, fields, divisors, tables: &[], device_fns, types, consts }
    }
}
