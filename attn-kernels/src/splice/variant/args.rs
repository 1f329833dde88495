//! The bytes of `struct Variant`, by the layout rules of C.

use attn_core::{
    expr::Variant,
    lang::{FieldType, VariantDesc, params::ArgVisitor},
};

/// Size and alignment of a parameter.
fn layout(ty: FieldType) -> (usize, usize) {
    match ty {
        FieldType::Scalar(_) => (4, 4),
        // pointer and two extents
        FieldType::Tensor { .. } => (16, 8),
    }
}

/// Size and alignment of the struct of a part; an empty one takes a byte.
fn part_layout(desc: &VariantDesc) -> (usize, usize) {
    let (mut size, mut align) = (0, 1);
    for field in desc.fields {
        let (field_size, field_align) = layout(field.ty);
        size = usize::next_multiple_of(size, field_align) + field_size;
        align = align.max(field_align);
    }
    (size.next_multiple_of(align).max(1), align)
}

/// The offset of each part, and the size of the whole.
fn offsets(parts: &[&VariantDesc]) -> (Vec<usize>, usize) {
    let (mut size, mut align) = (0, 1);
    let mut offsets = Vec::new();
    for desc in parts {
        let (part_size, part_align) = part_layout(desc);
        size = usize::next_multiple_of(size, part_align);
        offsets.push(size);
        size += part_size;
        align = align.max(part_align);
    }
    (offsets, size.next_multiple_of(align).max(1))
}

/// `sizeof(Variant)` of a composition.
#[must_use]
pub fn struct_size(parts: &[&VariantDesc]) -> usize {
    offsets(parts).1
}

/// The bytes of `struct Variant`. `upload` puts the 4-byte words of a captured tensor where the kernel can read them,
/// and says where: a device address, valid for as long as the bytes are used.
///
/// # Errors
/// The first error of `upload`.
pub fn variant_args<E>(variant: &Variant, upload: impl FnMut(&[u32]) -> Result<u64, E>) -> Result<Vec<u8>, E> {
    let parts: Vec<&VariantDesc> = variant.parts().map(|part| part.desc()).collect();
    let (offsets, size) = offsets(&parts);
    let mut writer = Writer { bytes: vec![0; size], at: 0, upload, error: None };
    for (part, offset) in variant.parts().zip(offsets) {
        writer.at = offset;
        part.visit_args(&mut writer);
    }
    match writer.error {
        Some(error) => Err(error),
        None => Ok(writer.bytes),
    }
}

struct Writer<U, E> {
    bytes: Vec<u8>,
    at: usize,
    upload: U,
    error: Option<E>,
}

impl<U, E> Writer<U, E> {
    fn put(&mut self, bytes: &[u8], align: usize) {
        let from = self.at.next_multiple_of(align);
        self.at = from + bytes.len();
        self.bytes[from..self.at].copy_from_slice(bytes);
    }
}

impl<U: FnMut(&[u32]) -> Result<u64, E>, E> ArgVisitor for Writer<U, E> {
    fn scalar(&mut self, bits: u32) {
        self.put(&bits.to_ne_bytes(), 4);
    }

    fn tensor(&mut self, words: &[u32], shape: &[i64]) {
        let address = match (self.upload)(words) {
            Ok(address) => address,
            Err(error) => {
                self.error.get_or_insert(error);
                0
            }
        };
        // binding refused tables whose extents are beyond the index type
        let extent = |i: usize| shape.get(i).map_or(0, |&n| i32::try_from(n).unwrap_or(i32::MAX));
        self.put(&address.to_ne_bytes(), 8);
        self.put(&extent(0).to_ne_bytes(), 4);
        self.put(&extent(1).to_ne_bytes(), 4);
    }
}
