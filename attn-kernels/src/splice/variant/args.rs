//! The bytes of a part's struct, by the layout rules of C.

use attn_core::lang::{
    ErasedVariant, FieldType, VariantDesc,
    desc::Elem,
    params::{ArgVisitor, TensorArg},
    table::OutBuffer,
};

use super::member::{Kind, Member, members};
use crate::splice::divisor;

/// What a kernel reaches through a pointer of its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Pointee<'a> {
    /// A table that it reads: the bytes to be there.
    Table(&'a [u8]),
    /// Values of f32 that it stores to.
    Out(&'a OutBuffer),
}

/// Size and alignment of the struct of a part; an empty one takes a byte.
#[must_use]
pub fn part_layout(desc: &VariantDesc) -> (usize, usize) {
    let (_, size, align) = members(desc);
    (size, align)
}

/// The members of a part's struct with their offsets, in order: for those who check that a compiler agrees.
#[must_use]
pub fn part_offsets(desc: &VariantDesc) -> Vec<(String, usize)> {
    members(desc).0.into_iter().map(|member| (member.name, member.offset)).collect()
}

/// The bytes of the struct of one part. `upload` puts what a pointer points to where the kernel can reach it, and says where: a
/// device address, valid for as long as the bytes are used.
///
/// # Errors
/// The first error of `upload`.
pub fn part_args<E>(
    part: &dyn ErasedVariant,
    upload: &mut impl FnMut(Pointee<'_>) -> Result<u64, E>,
) -> Result<Vec<u8>, E> {
    let desc = part.desc();
    let (members, size, _) = members(desc);
    let mut writer = Writer { desc, members, bytes: vec![0; size], field: 0, upload, error: None };
    part.visit_args(&mut writer);
    writer.error.map_or(Ok(writer.bytes), Err)
}

struct Writer<'a, U, E> {
    desc: &'a VariantDesc,
    members: Vec<Member>,
    bytes: Vec<u8>,
    /// Number of the field that comes next.
    field: usize,
    upload: &'a mut U,
    error: Option<E>,
}

impl<U: FnMut(Pointee<'_>) -> Result<u64, E>, E> Writer<'_, U, E> {
    /// A member of the next field.
    fn member(&self, kind: Kind) -> Option<&Member> {
        self.members.iter().find(|member| member.field == self.field && member.kind == kind)
    }

    fn has(&self, kind: Kind) -> bool {
        self.member(kind).is_some()
    }

    /// Writes a member of the next field, if it has such.
    fn put(&mut self, kind: Kind, bytes: &[u8]) {
        let offset = self.member(kind).map(|member| member.offset);
        if let Some(slot) = offset.and_then(|at| self.bytes.get_mut(at..at + bytes.len())) {
            slot.copy_from_slice(bytes);
        }
    }

    fn address(&mut self, pointee: Pointee<'_>) -> u64 {
        (self.upload)(pointee).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            0
        })
    }

    /// A pointer and extents, which a binding found to be below 2^31.
    fn put_tensor(&mut self, address: u64, shape: &[i64]) {
        let extents = shape.iter().flat_map(|&n| i32::try_from(n).unwrap_or(i32::MAX).to_ne_bytes());
        let bytes: Vec<u8> = address.to_ne_bytes().into_iter().chain(extents).collect();
        self.put(Kind::Field, &bytes);
    }
}

impl<U: FnMut(Pointee<'_>) -> Result<u64, E>, E> ArgVisitor for Writer<'_, U, E> {
    fn scalar(&mut self, bits: u32) {
        self.put(Kind::Field, &bits.to_ne_bytes());
        let words = match self.desc.fields.get(self.field).map(|field| field.ty) {
            Some(FieldType::Scalar(Elem::I32)) => divisor::signed(bits.cast_signed()).to_vec(),
            Some(FieldType::Scalar(Elem::U32)) => divisor::unsigned(bits).to_vec(),
            _ => vec![bits],
        };
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        self.put(Kind::Divisor, &bytes);
        self.field += 1;
    }

    fn tensor(&mut self, tensor: TensorArg<'_>) {
        let address = self.address(Pointee::Table(tensor.bytes));
        self.put_tensor(address, tensor.shape);
        if self.has(Kind::Ranges) {
            let blocks = tensor.ranges.blocks();
            let address =
                if blocks.is_empty() { 0 } else { self.address(Pointee::Table(bytemuck::cast_slice(blocks))) };
            let whole = tensor.ranges.whole().into_iter().flat_map(u32::to_ne_bytes);
            let bytes: Vec<u8> = address.to_ne_bytes().into_iter().chain(whole).collect();
            self.put(Kind::Ranges, &bytes);
        }
        self.field += 1;
    }

    fn out(&mut self, buffer: Option<&OutBuffer>, shape: &[i64]) {
        let address = buffer.map_or(0, |buffer| self.address(Pointee::Out(buffer)));
        self.put_tensor(address, shape);
        self.field += 1;
    }
}
