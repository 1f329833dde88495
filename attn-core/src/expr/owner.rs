//! Owners of parameters: the parts of a variant, and its KV formats. What sets, lists and checks parameters by name
//! (`parameters`, `missing`) goes over owners, so that the fields of a KV format are found as those of a part are.

use super::tree::Variant;
use crate::lang::{
    FieldDesc, KvFormats, VariantDesc,
    param_tensor::OutBuffer,
    params::{ArgVisitor, Dims, ErasedParams, TensorArg},
};

/// The owners of a variant's parameters: the parts in the order of [`Variant::parts`], then the KV formats of keys and
/// of values. The number of an owner is its place in this list.
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

/// A part or a KV format, and its parameters.
pub(super) struct Owner<'v> {
    /// The prefix of its parameters' names, `soft_cap` in `soft_cap.cap`.
    pub(super) name: &'static str,
    pub(super) fields: &'static [FieldDesc],
    pub(super) params: &'v dyn ErasedParams,
    /// The descriptor of a part; `None` for a KV format.
    pub(super) variant: Option<&'static VariantDesc>,
    /// 0 for the format of keys, 1 for that of values; `None` for a part.
    format: Option<usize>,
}

impl Owner<'_> {
    /// The dimensions that its parameters are bound to. A KV format of values has their head dim.
    pub(super) fn dims(&self, dims: &Dims) -> Dims {
        self.format.map_or(*dims, |part| KvFormats::dims_of(part, dims))
    }

    /// The number of the field with this name.
    pub(super) fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The values of the fields, in their order.
    pub(super) fn values(&self) -> Vec<FieldValue> {
        let mut values = FieldValues::default();
        self.params.visit_args(&mut values);
        values.0
    }

    /// The parameter tensor of a field; `None` if the field is of another kind.
    pub(super) fn tensor(&self, field: usize) -> Option<GivenTensor> {
        match self.values().into_iter().nth(field)? {
            FieldValue::Tensor(tensor) => Some(tensor),
            FieldValue::Scalar | FieldValue::Output { .. } => None,
        }
    }
}

/// The value of a field, by its kind.
pub(super) enum FieldValue {
    Scalar,
    Tensor(GivenTensor),
    Output { is_set: bool },
}

/// Where the elements of a parameter tensor are in host memory. A tensor that was not given has none.
pub(super) struct GivenTensor {
    pub(super) address: usize,
    pub(super) shape: Vec<i64>,
    pub(super) bytes: usize,
}

/// Collects the value of each field that it visits.
#[derive(Default)]
struct FieldValues(Vec<FieldValue>);

impl ArgVisitor for FieldValues {
    fn scalar(&mut self, _bits: u32) {
        self.0.push(FieldValue::Scalar);
    }
    fn tensor(&mut self, tensor: TensorArg<'_>) {
        let (address, bytes) = (tensor.bytes.as_ptr() as usize, tensor.bytes.len());
        self.0.push(FieldValue::Tensor(GivenTensor { address, shape: tensor.shape.to_vec(), bytes }));
    }
    fn out(&mut self, buffer: Option<&OutBuffer>, _shape: &[i64]) {
        self.0.push(FieldValue::Output { is_set: buffer.is_some() });
    }
}
