//! What has parameters: the parts of a variant, and its KV formats.

use super::tree::Variant;
use crate::lang::{
    FieldDesc, KvFormats, VariantDesc,
    param_tensor::OutBuffer,
    params::{ArgVisitor, Dims, ErasedParams, TensorArg},
};

/// A part or a KV format: what has parameters.
pub(super) struct Owner<'v> {
    /// The prefix of its parameters' names.
    pub(super) name: &'static str,
    pub(super) fields: &'static [FieldDesc],
    pub(super) params: &'v dyn ErasedParams,
    /// `None` for a KV format.
    pub(super) variant: Option<&'static VariantDesc>,
    /// 0 or 1 for the format of keys or of values.
    pub(super) format: Option<usize>,
}

impl Owner<'_> {
    /// The dimensions that its parameters are bound to.
    pub(super) fn dims(&self, dims: &Dims) -> Dims {
        self.format.map_or(*dims, |part| KvFormats::dims_of(part, dims))
    }

    /// The number of the field with this name.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The parameter tensor of a field; `None` for one that was not given.
    pub(super) fn tensor(&self, field: usize) -> Option<HostTensor> {
        struct Finder {
            left: Option<usize>,
            found: Option<HostTensor>,
        }
        impl Finder {
            fn is_it(&mut self) -> bool {
                let is_it = self.left == Some(0);
                self.left = self.left.and_then(|left| left.checked_sub(1));
                is_it
            }
        }
        impl ArgVisitor for Finder {
            fn scalar(&mut self, _bits: u32) {
                self.is_it();
            }
            fn tensor(&mut self, tensor: TensorArg<'_>) {
                if self.is_it() {
                    let (address, bytes) = (tensor.bytes.as_ptr() as usize, tensor.bytes.len());
                    self.found = Some(HostTensor { address, shape: tensor.shape.to_vec(), bytes });
                }
            }
            fn out(&mut self, _buffer: Option<&OutBuffer>, _shape: &[i64]) {
                self.is_it();
            }
        }
        let mut finder = Finder { left: Some(field), found: None };
        self.params.visit_args(&mut finder);
        finder.found
    }
}

/// The elements of a parameter tensor on the host.
pub(super) struct HostTensor {
    pub(super) address: usize,
    pub(super) shape: Vec<i64>,
    pub(super) bytes: usize,
}

/// The parts, and then the formats of keys and values: what has parameters.
pub(super) fn owners(variant: &Variant) -> Vec<Owner<'_>> {
    let parts = variant.parts().map(|part| {
        let desc = part.desc();
        Owner { name: desc.name, fields: desc.fields, params: part, variant: Some(desc), format: None }
    });
    let formats = variant.kv_formats().into_iter().flat_map(KvFormats::owners).enumerate();
    let formats = formats.map(|(i, (name, format))| Owner {
        name,
        fields: format.desc().fields,
        params: format,
        variant: None,
        format: Some(i),
    });
    parts.chain(formats).collect()
}
