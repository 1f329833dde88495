//! The bytes of a part's struct, in the layout of C.

use attn_core::lang::desc::Elem;
use attn_core::lang::divide::{signed, unsigned};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormatDesc};
use attn_core::lang::param_tensor::OutBuffer;
use attn_core::lang::params::{ArgVisitor, ErasedParams, TensorArg};
use attn_core::lang::{ErasedVariant, FieldDesc, FieldType, VariantDesc};

use bytemuck::bytes_of;

use super::declared::Declared;
use super::member::{DataMember, MemberKind, members};

/// The target of a pointer in the kernel arguments.
#[derive(Clone, Copy, Debug)]
pub enum Pointee<'a> {
    /// A table that kernels read, with these bytes.
    Table(&'a [u8]),
    /// f32 values that kernels store to.
    Out(&'a OutBuffer),
}

/// Size and alignment of the struct of a part; an empty one takes a byte.
pub fn part_layout(desc: &VariantDesc) -> (usize, usize) {
    layout_of(&desc.into())
}

/// Size and alignment of the struct of a KV format; an empty one takes a byte.
pub fn kv_format_layout(desc: &KvFormatDesc) -> (usize, usize) {
    layout_of(&desc.into())
}

fn layout_of(declared: &Declared) -> (usize, usize) {
    let (_, size, align) = members(declared);
    (size, align)
}

/// The members of a part's struct with their offsets, in order, for tests that compare them with a compiler's.
pub fn part_offsets(desc: &VariantDesc) -> Vec<(String, usize)> {
    members(&desc.into()).0.into_iter().map(|member| (member.name, member.offset)).collect()
}

/// The bytes of the struct of one part. `upload` copies the target of a pointer to device memory and returns its
/// address, which is valid for as long as the bytes are used.
///
/// # Errors
/// The first error of `upload`.
pub fn part_args<E>(
    part: &dyn ErasedVariant,
    upload: &mut impl FnMut(Pointee<'_>) -> Result<u64, E>,
) -> Result<Vec<u8>, E> {
    args(&part.desc().into(), part, upload)
}

/// The bytes of the struct of a KV format, as [`part_args`].
///
/// # Errors
/// The first error of `upload`.
pub fn kv_format_args<E>(
    format: &dyn ErasedKvFormat,
    upload: &mut impl FnMut(Pointee<'_>) -> Result<u64, E>,
) -> Result<Vec<u8>, E> {
    args(&format.desc().into(), format, upload)
}

fn args<E>(
    declared: &Declared,
    params: &dyn ErasedParams,
    upload: &mut impl FnMut(Pointee<'_>) -> Result<u64, E>,
) -> Result<Vec<u8>, E> {
    let (members, size, _) = members(declared);
    let fields = declared.fields;
    let mut writer = PartArgsWriter { fields, members, bytes: vec![0; size], field: 0, upload, error: None };
    params.visit_args(&mut writer);
    writer.error.map_or(Ok(writer.bytes), Err)
}

struct PartArgsWriter<'a, U, E> {
    fields: &'static [FieldDesc],
    members: Vec<DataMember>,
    bytes: Vec<u8>,
    /// The number of the next field.
    field: usize,
    upload: &'a mut U,
    error: Option<E>,
}

impl<U: FnMut(Pointee<'_>) -> Result<u64, E>, E> PartArgsWriter<'_, U, E> {
    /// The member of this kind that belongs to the next field.
    fn member(&self, kind: MemberKind) -> Option<&DataMember> {
        self.members.iter().find(|member| member.field == self.field && member.kind == kind)
    }

    fn has(&self, kind: MemberKind) -> bool {
        self.member(kind).is_some()
    }

    /// Writes the member of this kind, if the next field has one.
    fn put(&mut self, kind: MemberKind, bytes: &[u8]) {
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

    /// Writes a pointer and extents; binding has checked that these are below 2^31.
    fn put_tensor(&mut self, address: u64, shape: &[i64]) {
        let extents = shape.iter().flat_map(|&n| i32::try_from(n).unwrap_or(i32::MAX).to_ne_bytes());
        let bytes: Vec<u8> = address.to_ne_bytes().into_iter().chain(extents).collect();
        self.put(MemberKind::Field, &bytes);
    }
}

impl<U: FnMut(Pointee<'_>) -> Result<u64, E>, E> ArgVisitor for PartArgsWriter<'_, U, E> {
    fn scalar(&mut self, bits: u32) {
        self.put(MemberKind::Field, &bits.to_ne_bytes());
        let bytes = match self.fields.get(self.field).map(|field| field.ty) {
            Some(FieldType::Scalar(Elem::I32)) => bytes_of(&signed::Divisor::new(bits.cast_signed())).to_vec(),
            Some(FieldType::Scalar(Elem::U32)) => bytes_of(&unsigned::Divisor::new(bits)).to_vec(),
            _ => bits.to_ne_bytes().to_vec(),
        };
        self.put(MemberKind::Divisor, &bytes);
        self.field += 1;
    }

    fn tensor(&mut self, tensor: TensorArg<'_>) {
        let address = self.address(Pointee::Table(tensor.bytes));
        self.put_tensor(address, tensor.shape);
        if self.has(MemberKind::Ranges) {
            let blocks = tensor.bounds.blocks();
            let address =
                if blocks.is_empty() { 0 } else { self.address(Pointee::Table(bytemuck::cast_slice(blocks))) };
            let whole = tensor.bounds.whole().into_iter().flat_map(u32::to_ne_bytes);
            let bytes: Vec<u8> = address.to_ne_bytes().into_iter().chain(whole).collect();
            self.put(MemberKind::Ranges, &bytes);
        }
        self.field += 1;
    }

    fn out(&mut self, buffer: Option<&OutBuffer>, shape: &[i64]) {
        let address = buffer.map_or(0, |buffer| self.address(Pointee::Out(buffer)));
        self.put_tensor(address, shape);
        self.field += 1;
    }
}
