//! Appends new keys and values to pools.
//!
//! A row is transformed if a variant is given. It is then multiplied by `1 / scale` of its head in f32, and rounded to
//! the type of the pool as [`Element::from_f32`](crate::tensor::Element::from_f32) does, or encoded in the KV format of
//! the variant. Elements that none of these steps changes are copied bit by bit, as are rows that are stored in a
//! format already, with their side data.

use std::sync::{Arc, Mutex, PoisonError};

mod queries;

use super::slot_mapping::PoolShape;
use super::tensor_rows::set_rows;
use super::{ArrayMut, KvMut, KvRef, OpError, SlotMapping, TensorRows, check, elements};
use crate::Variant;
use crate::dtype::{Dtype, Dtypes};
use crate::expr::{ContentError, TensorContent, TensorSlot};
use crate::lang::{BindError, Dims, ErasedVariant, Hook, KvFormats, KvIndex};
use crate::spec::{HeadDimVo, Heads};
use crate::tensor::{KvScales, Scale, TensorError, TensorRef, sides};

pub use queries::{TO as QUERIES, append_with_queries, check_queries};

/// The arguments of an append.
#[derive(Debug)]
pub struct Append<'a> {
    /// The slot of each token.
    pub slot_mapping: SlotMapping<'a>,
    /// Scales by which readers multiply the stored elements.
    pub scales: KvScales<'a>,
    /// The scale by which readers multiply queries that are written beside keys, of all or of each query head.
    pub q_scale: Scale<'a>,
    /// A word in device memory, to which a kernel adds the number of tokens that it skipped, because their slot is
    /// outside of the pool or the page table. On the CPU such a token is an error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> Append<'a> {
    /// Rows without scales, at these slots.
    #[must_use]
    pub fn at(slot_mapping: SlotMapping<'a>) -> Self {
        Append { slot_mapping, scales: KvScales::default(), q_scale: Scale::default(), status: None }
    }
}

/// How keys and values become those that a cache holds: the transforms of a variant
/// ([`KvStored::Transformed`](crate::spec::KvStored)), and its KV formats, bound to heads.
#[derive(Clone, Debug)]
pub struct Transform {
    variant: Variant,
    heads: Heads,
    head_dim_vo: HeadDimVo,
    /// Whether a shape or a condition is over tokens, so that each append checks it.
    over_tokens: bool,
    /// The variant with replaced parameter tensors; `None` if none was replaced. Shared by all clones.
    replaced: Arc<Mutex<Option<Variant>>>,
}

impl Transform {
    /// Binds a variant.
    ///
    /// # Errors
    ///
    /// Invalid heads, a parameter that does not fit, a union, or a transform that reads coordinates that an append does
    /// not know (`kv_len`, `batch`); a tensor with a default over the tokens of an append, which must be given.
    pub fn new(variant: &Variant, heads: Heads) -> Result<Self, OpError> {
        Self::with_values(variant, heads, HeadDimVo::Same)
    }

    /// Binds a variant for values of another head dimension than keys, which value transforms and KV formats depend on.
    ///
    /// # Errors
    ///
    /// The errors of [`Transform::new`].
    pub fn with_values(variant: &Variant, heads: Heads, head_dim_vo: HeadDimVo) -> Result<Self, OpError> {
        heads.check().and_then(|()| head_dim_vo.check(heads)).map_err(TensorError::from)?;
        let types = variant.kv_formats().map(|formats| Dtypes::f32().with_format(formats.id()));
        let over = types.map(|types| variant.over(types, head_dim_vo)).transpose().map_err(TensorError::from)?;
        let variant = over.as_ref().map_or(variant, |(variant, _)| variant);
        if variant.has_union() {
            return Err(OpError::Union { variant: variant.to_string() });
        }
        let read = |word: &str| {
            let transforms = [Hook::KeyTransform, Hook::ValueTransform, Hook::RemapKvPos];
            let hooks = variant.parts().flat_map(|part| part.desc().hooks);
            hooks.filter(|hook| transforms.contains(&hook.hook)).any(|hook| hook.cuda.contains(word))
        };
        for (word, in_text) in [("kv_len", ".kv_len"), ("batch", ".batch")] {
            if read(in_text) {
                return Err(OpError::Word { variant: variant.to_string(), word });
            }
        }
        let variant = variant.bind(&head_dim_vo.dims(heads, heads.dims()))?;
        let fields =
            || moving_parts(&variant).flat_map(|part| part.desc().fields.iter().map(move |field| (part, field)));
        let unset =
            fields().find(|(part, field)| field.has_default_over_batch() && part.to_values().get(field.name).is_none());
        if let Some((_, field)) = unset {
            return Err(BindError::Unset { name: field.name.to_owned() }.into());
        }
        let tokens = ["qo_tokens", "kv_tokens"];
        let over_tokens = fields().any(|(_, field)| field.shape_names(&tokens) || field.require_names(&tokens));
        Ok(Transform { variant, heads, head_dim_vo, over_tokens, replaced: Arc::default() })
    }

    /// Replaces the content of a parameter tensor, for appends on the CPU.
    ///
    /// # Errors
    ///
    /// The errors of [`Variant::set_content`].
    pub fn set_content(&self, name: &str, content: &TensorContent<'_>) -> Result<(), ContentError> {
        self.replace(name, |variant, slot| variant.set_content(slot, content))
    }

    /// Writes rows of a parameter tensor, for appends on the CPU.
    ///
    /// # Errors
    ///
    /// The errors of [`set_rows`].
    pub fn set_rows(&self, name: &str, rows: &TensorRows<'_>) -> Result<(), OpError> {
        self.replace(name, |variant, slot| set_rows(variant, slot, rows))
    }

    fn replace<E: From<ContentError>>(
        &self,
        name: &str,
        with: impl FnOnce(&mut Variant, &TensorSlot) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut variant = replaced.as_ref().unwrap_or(&self.variant).clone();
        with(&mut variant, &self.variant.tensor_slot(name)?)?;
        *replaced = Some(variant);
        Ok(())
    }

    /// The variant with what was replaced.
    pub(super) fn current(&self) -> Variant {
        let replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        replaced.as_ref().unwrap_or(&self.variant).clone()
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// The KV formats that rows are stored in; `None` for numbers.
    #[must_use]
    pub fn formats(&self) -> Option<&KvFormats> {
        self.variant.kv_formats()
    }

    /// The heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.heads
    }

    /// Elements of keys, and of values.
    #[must_use]
    pub fn head_dims(&self) -> [u32; 2] {
        [self.heads.head_dim, self.head_dim_vo.dim(self.heads)]
    }

    /// Whether keys (0) or values (1) are transformed by hooks.
    #[must_use]
    pub fn applies_to(&self, part: usize) -> bool {
        self.variant.has(if part == 0 { Hook::KeyTransform } else { Hook::ValueTransform })
    }

    /// Checks that rows of numbers have the heads that KV formats are bound to.
    pub(super) fn check_formats(&self, names: [&'static str; 2], kv: &KvRef<'_>) -> Result<(), OpError> {
        for (part, (name, tensor)) in names.into_iter().zip(kv.parts()).enumerate() {
            if self.formats().is_some() {
                check::extent(name, &tensor, 1, "heads", self.heads.kv as usize)?;
                check::extent(name, &tensor, 2, "values per head", self.head_dims()[part] as usize)?;
                check::dtype(name, tensor.dtype(), &[Dtype::F16, Dtype::Bf16, Dtype::F32])?;
            }
        }
        Ok(())
    }

    /// Checks that rows have the heads that the transform is bound to, and that its tensors have a row for each.
    fn check(&self, kv: &KvRef<'_>, tokens: usize) -> Result<(), OpError> {
        if self.over_tokens {
            // new keys are both the queries of a step and the keys that its tables are read by
            let tokens = i64::try_from(tokens).ok();
            let dims = Dims { qo_tokens: tokens, kv_tokens: tokens, ..self.heads.dims() };
            moving_parts(&self.variant).try_for_each(|part| part.clone_box().bind(&dims))?;
        }
        let names = ["k", "v"].into_iter().zip(kv.parts()).enumerate();
        for (part, (name, tensor)) in names.filter(|&(part, _)| self.applies_to(part)) {
            check::extent(name, &tensor, 1, "heads", self.heads.kv as usize)?;
            // an append may be of keys alone
            if part == 0 || tensor.shape().last() != Some(&0) {
                check::extent(name, &tensor, 2, "values per head", self.head_dims()[part] as usize)?;
            }
        }
        Ok(())
    }
}

/// The parts with hooks that an append runs.
fn moving_parts(variant: &Variant) -> impl Iterator<Item = &dyn ErasedVariant> {
    let hooks = [Hook::KeyTransform, Hook::ValueTransform, Hook::RemapKvPos];
    variant.parts().filter(move |part| hooks.iter().any(|&hook| part.desc().has(hook)))
}

/// Checks everything except the entries of arrays.
///
/// # Errors
///
/// Tensors of different shapes, arrays of a wrong length, types without conversion, an invalid scale, or a transform
/// without positions.
pub fn check(
    kv: &KvRef<'_>,
    pools: &KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    let from = check::Side { name: "the new rows", k: "k", v: "v", paged: false };
    let to = check::Side { name: "the pool", k: "k pool", v: "v pool", paged: true };
    let formats = transform.and_then(Transform::formats);
    check::both_sides(from, kv, to, pools, formats)?;
    let [source, target] = [*kv, pools.as_ref()].map(|kv| kv.parts().next());
    let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
    append.slot_mapping.check(source.shape()[0])?;
    check_scales(&append.scales, source.shape()[1])?;
    let changed = transform.is_some() || !append.scales.is_one();
    match transform.filter(|_| formats.is_some()) {
        Some(transform) => transform.check_formats(["k", "v"], kv)?,
        None => check_conversion(["k", "k pool"], source.dtype(), target.dtype(), changed)?,
    }
    check::status(append.status.as_ref())?;
    let targets = pools.as_ref();
    let outputs: Vec<_> = check::named(&targets, [to.k, to.v]).collect();
    let rows: Vec<_> = check::named(kv, [from.k, from.v]).collect();
    let inputs = rows.iter().map(|(name, tensor)| (*name, tensor.reach()));
    check::apart(&outputs, inputs.chain(append.slot_mapping.arrays()))?;
    let Some(transform) = transform else { return Ok(()) };
    transform.check(kv, source.shape()[0])?;
    let asks = transform.applies_to(0) || transform.applies_to(1);
    let variant = || transform.variant.to_string();
    if asks && !append.slot_mapping.has_positions() { Err(OpError::Positions { variant: variant() }) } else { Ok(()) }
}

/// 8-bit rows can only be copied unchanged.
fn check_conversion(names: [&'static str; 2], from: Dtype, to: Dtype, changed: bool) -> Result<(), OpError> {
    if from == to && !(changed && from.size() == 1) {
        return Ok(());
    }
    if to == Dtype::U8 && from != to {
        return Err(OpError::NoFormat { tensor: names[1] });
    }
    check::dtype(names[0], from, &[Dtype::F16, Dtype::Bf16, Dtype::F32])
}

pub(super) fn check_scales(scales: &KvScales<'_>, heads: usize) -> Result<(), OpError> {
    check_scale(["k_scale", "k_scales"], &scales.k, heads)?;
    check_scale(["v_scale", "v_scales"], &scales.v, heads)
}

fn check_scale(names: [&'static str; 2], scale: &Scale<'_>, heads: usize) -> Result<(), OpError> {
    if let Some(tensor) = &scale.heads {
        check::rank(names[1], tensor, 1, "1: (heads)")?;
        check::dtype(names[1], tensor.dtype(), &[Dtype::F32])?;
        check::extent(names[1], tensor, 0, "heads", heads)?;
        check::innermost(names[1], tensor)?;
    }
    Ok(scale.check(names)?)
}

/// The scale of each head; scales in device memory are an error.
pub(super) fn scales_of_heads(scale: &Scale<'_>, name: &'static str, heads: usize) -> Result<Vec<f32>, OpError> {
    Ok(scale.on_host(heads).ok_or_else(|| elements::on_device(name))?)
}

/// Appends on the CPU.
///
/// # Errors
///
/// Device memory, and a slot outside of the pool or the page table; the errors of [`check()`]. Nothing is written then.
pub fn append(
    kv: &KvRef<'_>,
    pools: &mut KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    check(kv, pools, append, transform)?;
    let Some(shape) = pools.as_ref().parts().next().map(|pool| pool.shape().to_vec()) else { return Ok(()) };
    let targets = append.slot_mapping.targets(PoolShape { pages: shape[0], page_size: shape[1] })?;
    let heads = shape[2];
    let all_scales =
        [scales_of_heads(&append.scales.k, "k_scales", heads)?, scales_of_heads(&append.scales.v, "v_scales", heads)?];
    let variant = transform.map(Transform::current);
    let formats = variant.as_ref().and_then(Variant::kv_formats);
    let (sources, pool_names) = (["k", "v"], ["k pool", "v pool"]);
    for (part, name) in pool_names.into_iter().enumerate().take(kv.parts().count()) {
        let (pool, side) = pools.planes(part)?;
        if pool.device_ptr().is_some() {
            return Err(elements::on_device(name).into());
        }
        if side.is_some_and(|side| side.device_ptr().is_some()) {
            return Err(elements::on_device(sides::NAMES[part]).into());
        }
    }
    for (part, source) in kv.parts().enumerate() {
        let bytes = source.host_bytes().ok_or_else(|| elements::on_device(sources[part]))?;
        // pools may interleave with each other and with their side data: nothing but a row is borrowed
        let (mut pool, mut side) = pools.planes(part)?;
        let format = formats.map(|formats| formats.part(part));
        let from_side = kv.sides().part(part);
        let from_side = from_side.as_ref().map(|side| side_rows(side, part)).transpose()?;
        let (dtype, dim, width) = (pool.dtype(), source.shape()[2], pool.shape()[3]);
        let side_bytes = side.as_ref().map_or(0, |side| side.shape()[3]);
        if dim == 0 {
            continue; // rows of no elements have no memory
        }
        let scale = if part == 0 { &append.scales.k } else { &append.scales.v };
        let moved = variant.as_ref().filter(|_| transform.is_some_and(|transform| transform.applies_to(part)));
        let raw = source.dtype() == dtype && scale.is_one() && moved.is_none();
        let mut row = vec![0.0; dim];
        for (token, target) in targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let (page, slot) = target.page_slot;
            for (head, scale) in all_scales[part].iter().enumerate() {
                let from = elements::offset(&source.strides()[..2], &[token, head], source.dtype().size());
                let at = [page, slot, head];
                let to = pool.host_row_mut(&at, width).ok_or_else(|| elements::on_device(pool_names[part]))?;
                let side = side.as_mut().and_then(|side| side.host_row_mut(&at, side_bytes));
                if raw {
                    to.copy_from_slice(&bytes[from..from + to.len()]);
                    if let Some((to, (from, strides))) = side.zip(from_side) {
                        to.copy_from_slice(&from[elements::offset(&strides[..2], &[token, head], 1)..][..to.len()]);
                    }
                    continue;
                }
                elements::read(source.dtype(), &bytes[from..], &mut row);
                if let Some(variant) = moved {
                    let (batch, kv_pos, kv_head) = (target.request, target.position, head as i32);
                    let index = KvIndex { batch, kv_pos, kv_token: token as i32, kv_head, ..KvIndex::default() };
                    match part {
                        0 => variant.key_row(&mut row, index),
                        _ => variant.value_row(&mut row, index),
                    }
                }
                let inverse = 1.0 / scale;
                row.iter_mut().for_each(|x| *x *= inverse);
                match format {
                    None => elements::write(dtype, to, &row),
                    Some(format) => format.encode_row(&row, to, side.unwrap_or(&mut []), head as i32),
                }
            }
        }
    }
    Ok(())
}

/// The bytes of side data, and its strides.
pub(super) fn side_rows<'a>(side: &'a TensorRef<'_>, part: usize) -> Result<(&'a [u8], &'a [i64]), OpError> {
    Ok((side.host_bytes().ok_or_else(|| elements::on_device(sides::NAMES[part]))?, side.strides()))
}

#[cfg(test)]
mod tests;
