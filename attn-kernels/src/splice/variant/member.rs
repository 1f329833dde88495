//! The members of a part's struct in the layout of C: parameters, ranges of parameter tensors, and divisors.

use attn_core::lang::{FieldDesc, FieldType, desc::Elem};

use super::declared::Declared;

/// A data member.
pub(super) struct DataMember {
    pub(super) kind: MemberKind,
    /// The number of its field.
    pub(super) field: usize,
    /// C++ type.
    pub(super) ty: String,
    pub(super) name: String,
    pub(super) offset: usize,
}

/// The content of a data member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberKind {
    /// The parameter.
    Field,
    /// The ranges of a parameter tensor's blocks, for the tile class.
    Ranges,
    /// The precomputed words for a division by a scalar.
    Divisor,
}

/// The members of a part, and the size and alignment of its struct; an empty struct takes a byte.
pub(super) fn members(desc: &Declared) -> (Vec<DataMember>, usize, usize) {
    let (mut members, mut size, mut align) = (Vec::new(), 0usize, 1);
    let mut push = |kind, field: usize, ty: String, name, (bytes, to): (usize, usize)| {
        let offset = size.next_multiple_of(to);
        members.push(DataMember { kind, field, ty, name, offset });
        size = offset + bytes;
        align = align.max(to);
    };
    for (i, field) in desc.fields.iter().enumerate() {
        push(MemberKind::Field, i, cxx_type(field.ty), name(field.name), layout(field.ty));
        if has_ranges(desc, field) {
            push(MemberKind::Ranges, i, "TensorBounds".to_owned(), format!("{}range_", name(field.name)), (16, 8));
        }
    }
    for (i, field) in desc.fields.iter().enumerate() {
        if let FieldType::Scalar(elem @ (Elem::F32 | Elem::I32 | Elem::U32)) = field.ty
            && desc.divisors.contains(&field.name)
        {
            let bytes = if elem == Elem::F32 { 4 } else { 12 };
            let ty = format!("Divisor<{}>", elem_type(elem));
            push(MemberKind::Divisor, i, ty, format!("{}div_", name(field.name)), (bytes, 4));
        }
    }
    (members, size.next_multiple_of(align).max(1), align)
}

/// Whether the tile class reads the ranges of a parameter tensor.
fn has_ranges(desc: &Declared, field: &FieldDesc) -> bool {
    matches!(field.ty, FieldType::Tensor { .. }) && desc.tables.contains(&field.name)
}

/// The member name of a parameter in hooks. A name in capitals gets a suffix, so that it differs from constants.
fn name(field: &str) -> String {
    if field.contains(|c: char| c.is_ascii_lowercase()) { format!("{field}_") } else { format!("{field}_p_") }
}

/// The C++ type of a parameter. A scalar bool takes 4 bytes, as the host passes it.
fn cxx_type(ty: FieldType) -> String {
    match ty {
        FieldType::Scalar(Elem::Bool) => "alignas(4) bool".to_owned(),
        FieldType::Scalar(elem) => elem_type(elem).to_owned(),
        FieldType::Tensor { elem, rank } => format!("Tensor{rank}<{}>", elem_type(elem)),
        FieldType::Out { rank } => format!("OutTensor{rank}"),
    }
}

fn elem_type(elem: Elem) -> &'static str {
    match elem {
        Elem::F32 => "float",
        Elem::F16 => "F16",
        Elem::Bf16 => "Bf16",
        Elem::F8E4M3 => "F8E4M3",
        Elem::F8E5M2 => "F8E5M2",
        Elem::I32 => "int",
        Elem::U32 => "u32",
        Elem::U8 => "u8",
        Elem::Bool => "bool",
        Elem::Bits => "PackedBits",
    }
}

/// Size and alignment of a parameter.
fn layout(ty: FieldType) -> (usize, usize) {
    match ty {
        FieldType::Scalar(_) => (4, 4),
        FieldType::Tensor { rank, .. } | FieldType::Out { rank } => (tensor_bytes(rank), 8),
    }
}

/// Bytes of a tensor: a pointer, and extents of 4 bytes each.
pub(super) fn tensor_bytes(rank: u8) -> usize {
    (8 + 4 * usize::from(rank)).next_multiple_of(8)
}
