//! The bytes of `struct Variant`: the structs of its parts, nested as in the text, in the layout of C.

use attn_core::expr::{Node, PerHeadNode, Variant};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormats};
use attn_core::lang::{ErasedVariant, VariantDesc};

use super::args::{Pointee, kv_format_args, kv_format_layout, part_args, part_layout};
use super::member::tensor_bytes;
use super::shape::Shape;

/// Size and alignment of a table of branches: `Tensor1<int>`.
fn table_layout() -> (usize, usize) {
    (tensor_bytes(1), 8)
}

/// The layout of a struct whose members are pushed one after the other; an empty struct takes a byte.
#[derive(Default)]
struct StructLayout {
    size: usize,
    align: usize,
}

impl StructLayout {
    /// Appends a member; returns its offset.
    fn push(&mut self, (size, align): (usize, usize)) -> usize {
        let offset = self.size.next_multiple_of(align);
        self.size = offset + size;
        self.align = self.align.max(align);
        offset
    }

    fn layout(&self) -> (usize, usize) {
        let align = self.align.max(1);
        (self.size.next_multiple_of(align).max(1), align)
    }
}

/// Size and alignment of the struct of a shape.
fn layout(shape: &Shape<'_>) -> (usize, usize) {
    if let Shape::Part(part) = shape {
        return part_layout(part);
    }
    members(shape).layout()
}

/// The members of the struct of a shape that is no part.
fn members(shape: &Shape<'_>) -> StructLayout {
    let mut all = StructLayout::default();
    if let Shape::PerHead(_) = shape {
        all.push(table_layout());
        if shape.rewrites_keys() {
            all.push(table_layout());
        }
    }
    let (part, inner) = shape.inside();
    part.into_iter().map(part_layout).chain(inner.iter().map(layout)).for_each(|member| {
        all.push(member);
    });
    all
}

/// `sizeof(Variant)` of a shape over tensors, or over rows of KV formats.
pub(super) fn variant_size(shape: &Shape<'_>, formats: Option<&KvFormats>) -> usize {
    let Some(formats) = formats else { return layout(shape).0 };
    let mut all = members(shape);
    owners(formats).for_each(|format| {
        all.push(kv_format_layout(format.desc()));
    });
    all.layout().0
}

/// The formats that are members of `Variant`, in order.
fn owners(formats: &KvFormats) -> impl Iterator<Item = &dyn ErasedKvFormat> {
    let values = (!formats.shares_keys()).then(|| formats.values());
    std::iter::once(formats.keys()).chain(values)
}

/// `sizeof(Variant)` of a list of parts.
pub fn struct_size(parts: &[&VariantDesc]) -> usize {
    layout(&Shape::All(parts.iter().map(|part| Shape::Part(part)).collect())).0
}

/// The bytes of `struct Variant`. `upload` copies the target of a pointer to device memory and returns its address,
/// which is valid for as long as the bytes are used.
///
/// # Errors
/// The first error of `upload`.
pub fn variant_args<E>(variant: &Variant, mut upload: impl FnMut(Pointee<'_>) -> Result<u64, E>) -> Result<Vec<u8>, E> {
    let (shape, formats) = (Shape::of(variant), variant.kv_formats());
    let mut bytes = vec![0; variant_size(&shape, formats)];
    VariantArgsWriter { bytes: &mut bytes, upload: &mut upload }.all(variant, 0)?;
    let Some(formats) = formats else { return Ok(bytes) };
    let mut all = members(&shape);
    for format in owners(formats) {
        let at = all.push(kv_format_layout(format.desc()));
        let of_format = kv_format_args(format, &mut upload)?;
        bytes[at..at + of_format.len()].copy_from_slice(&of_format);
    }
    Ok(bytes)
}

struct VariantArgsWriter<'a, U> {
    bytes: &'a mut [u8],
    upload: &'a mut U,
}

impl<E, U: FnMut(Pointee<'_>) -> Result<u64, E>> VariantArgsWriter<'_, U> {
    /// Writes nodes as the members of one struct at offset `at`.
    fn all(&mut self, variant: &Variant, at: usize) -> Result<(), E> {
        let mut all = StructLayout::default();
        for node in variant.nodes() {
            let offset = all.push(layout(&Shape::of_node(node)));
            self.node(node, at + offset)?;
        }
        Ok(())
    }

    /// Writes an operand; a single node has no struct of its own.
    fn operand(&mut self, variant: &Variant, at: usize) -> Result<(), E> {
        match variant.nodes() {
            [only] => self.node(only, at),
            _ => self.all(variant, at),
        }
    }

    fn node(&mut self, node: &Node, at: usize) -> Result<(), E> {
        let mut all = StructLayout::default();
        match node {
            Node::Part(part) => self.part(&**part, at),
            Node::Remap { map, inner } => {
                let offset = all.push(part_layout(map.desc()));
                self.part(&**map, at + offset)?;
                let offset = all.push(layout(&Shape::operand(inner)));
                self.operand(inner, at + offset)
            }
            Node::PerHead(per_head) => {
                self.tables(per_head, &mut all, at)?;
                self.operands(per_head.branches(), all, at)
            }
            Node::Or(inner) | Node::Union(inner) => self.operands(inner, all, at),
            Node::Not(inner) | Node::Except(inner) => self.operand(inner, at),
            _ => Ok(()),
        }
    }

    fn operands(&mut self, variants: &[Variant], mut all: StructLayout, at: usize) -> Result<(), E> {
        variants.iter().try_for_each(|variant| {
            let offset = all.push(layout(&Shape::operand(variant)));
            self.operand(variant, at + offset)
        })
    }

    fn part(&mut self, part: &dyn ErasedVariant, at: usize) -> Result<(), E> {
        let bytes = part_args(part, self.upload)?;
        self.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn tables(&mut self, per_head: &PerHeadNode, all: &mut StructLayout, at: usize) -> Result<(), E> {
        for table in std::iter::once(per_head.heads()).chain(per_head.kv_heads()) {
            let at = at + all.push(table_layout());
            let values: Vec<u8> = table.iter().flat_map(|branch| branch.to_ne_bytes()).collect();
            let address = (self.upload)(Pointee::Table(&values))?;
            self.bytes[at..at + 8].copy_from_slice(&address.to_ne_bytes());
            let extent = i32::try_from(table.len()).unwrap_or(i32::MAX);
            self.bytes[at + 8..at + 12].copy_from_slice(&extent.to_ne_bytes());
        }
        Ok(())
    }
}
