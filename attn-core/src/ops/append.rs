//! New keys and values into pools.
//!
//! A row goes through the transform of a variant if there is one, is divided by the scale of its head (multiplied by `1 / scale`, in f32), and rounded to
//! the type of the pool as [`Element::from_f32`](crate::tensor::Element::from_f32) does. Where nothing of this changes an element, its bits are copied.

use super::{ArrayMut, KvMut, KvRef, OpError, Places, check, elements, places::Pool};
use crate::{
    Variant,
    dtype::Dtype,
    lang::{Hook, KvIndex},
    spec::Heads,
    tensor::{KvScales, Scale},
};

/// How rows are appended.
#[derive(Debug)]
pub struct Append<'a> {
    /// Where each token's rows go.
    pub places: Places<'a>,
    /// What the stored elements will be multiplied by where they are read.
    pub scales: KvScales<'a>,
    /// One word of the device, to which a kernel adds the tokens that it left out since their place is outside of the pool or the page table. On
    /// the CPU such a token is an error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> Append<'a> {
    /// As they are, to these places.
    #[must_use]
    pub fn at(places: Places<'a>) -> Self {
        Append { places, scales: KvScales::default(), status: None }
    }
}

/// The transforms of keys and values that a cache is said to hold ([`KvStored::Transformed`](crate::spec::KvStored)): those of a variant, bound to heads.
#[derive(Clone, Debug)]
pub struct Transform {
    variant: Variant,
    heads: Heads,
}

impl Transform {
    /// Binds a variant.
    ///
    /// # Errors
    ///
    /// Heads that are none, a parameter that does not fit; a union; a transform that reads index words that an append does not know (`kv_len`,
    /// `kv_token`, `batch`).
    pub fn new(variant: &Variant, heads: Heads) -> Result<Self, OpError> {
        heads.check().map_err(crate::tensor::TensorError::from)?;
        if variant.has_union() {
            return Err(OpError::Union { variant: variant.to_string() });
        }
        let read = |word: &str| {
            let moves = [Hook::KeyTransform, Hook::ValueTransform, Hook::RemapKvPos];
            let hooks = variant.parts().flat_map(|part| part.desc().hooks);
            hooks.filter(|hook| moves.contains(&hook.hook)).any(|hook| hook.cuda.contains(word))
        };
        for (word, in_text) in [("kv_len", ".kv_len"), ("kv_token", ".kv_token"), ("batch", ".batch")] {
            if read(in_text) {
                return Err(OpError::Word { variant: variant.to_string(), word });
            }
        }
        Ok(Transform { variant: variant.bind(&heads.dims())?, heads })
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.variant
    }

    /// Whether keys (0) or values (1) are transformed.
    #[must_use]
    pub fn moves(&self, part: usize) -> bool {
        self.variant.has(if part == 0 { Hook::KeyTransform } else { Hook::ValueTransform })
    }

    /// Checks that rows are of the heads that it is bound to.
    fn check(&self, kv: &KvRef<'_>) -> Result<(), OpError> {
        let names = ["k", "v"].into_iter().zip(kv.parts()).enumerate();
        for (part, (name, tensor)) in names.filter(|&(part, _)| self.moves(part)) {
            check::extent(name, &tensor, 1, "heads", self.heads.kv as usize)?;
            if part == 0 {
                check::extent(name, &tensor, 2, "values per head", self.heads.head_dim as usize)?;
            }
        }
        Ok(())
    }
}

/// Checks what can be seen from the host: all but the numbers in arrays.
///
/// # Errors
///
/// Tensors that do not go together, arrays of other lengths, types that are not converted, a scale that is none, a transform without positions.
pub fn check(
    kv: &KvRef<'_>,
    pools: &KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    let from = check::Side { name: "the new rows", k: "k", v: "v", paged: false };
    let to = check::Side { name: "the pool", k: "k pool", v: "v pool", paged: true };
    check::both(from, kv, to, pools)?;
    let [source, target] = [*kv, pools.as_ref()].map(|kv| kv.parts().next());
    let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
    append.places.check(source.shape()[0])?;
    scales(&append.scales, source.shape()[1])?;
    let changed = transform.is_some() || !append.scales.is_one();
    converts(["k", "k pool"], source.dtype(), target.dtype(), changed)?;
    check::status(append.status.as_ref())?;
    let Some(transform) = transform else { return Ok(()) };
    transform.check(kv)?;
    let asks = transform.moves(0) || transform.moves(1);
    let variant = || transform.variant.to_string();
    if asks && !append.places.has_positions() { Err(OpError::Positions { variant: variant() }) } else { Ok(()) }
}

/// Rows of 8 bits are copied as they are or not at all.
fn converts(names: [&'static str; 2], from: Dtype, to: Dtype, changed: bool) -> Result<(), OpError> {
    if from == to && !(changed && from.is_fp8()) {
        return Ok(());
    }
    check::dtype(names[0], from, &[Dtype::F16, Dtype::Bf16, Dtype::F32])
}

pub(super) fn scales(scales: &KvScales<'_>, heads: usize) -> Result<(), OpError> {
    for (names, scale) in [(["k_scale", "k_scales"], &scales.k), (["v_scale", "v_scales"], &scales.v)] {
        if let Some(tensor) = &scale.heads {
            check::rank(names[1], tensor, 1, "1: (kv_heads)")?;
            check::dtype(names[1], tensor.dtype(), &[Dtype::F32])?;
            check::extent(names[1], tensor, 0, "heads", heads)?;
            check::innermost(names[1], tensor)?;
        }
        scale.check(names)?;
    }
    Ok(())
}

/// The scale of each head, from memory of the host.
pub(super) fn by_head(scale: &Scale<'_>, name: &'static str, heads: usize) -> Result<Vec<f32>, OpError> {
    Ok(scale.on_host(heads).ok_or_else(|| elements::on_device(name))?)
}

/// Appends on the CPU.
///
/// # Errors
///
/// As [`check()`], memory of a device, and a place outside of the pool or the page table. Nothing is written then.
pub fn append(
    kv: &KvRef<'_>,
    pools: &mut KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    check(kv, pools, append, transform)?;
    let Some(shape) = pools.as_ref().parts().next().map(|pool| pool.shape().to_vec()) else { return Ok(()) };
    let targets = append.places.targets(Pool { pages: shape[0], page_size: shape[1] })?;
    let heads = shape[2];
    let all_scales = [by_head(&append.scales.k, "k_scales", heads)?, by_head(&append.scales.v, "v_scales", heads)?];
    let (sources, pool_names) = (["k", "v"], ["k pool", "v pool"]);
    for (part, name) in pool_names.into_iter().enumerate().take(kv.parts().count()) {
        pools.part(part)?.host_bytes_mut().ok_or_else(|| elements::on_device(name))?;
    }
    for (part, source) in kv.parts().enumerate() {
        let bytes = source.host_bytes().ok_or_else(|| elements::on_device(sources[part]))?;
        let mut pool = pools.part(part)?;
        let (strides, dtype, dim) = (pool.strides().to_vec(), pool.dtype(), source.shape()[2]);
        let to = pool.host_bytes_mut().ok_or_else(|| elements::on_device(pool_names[part]))?;
        if dim == 0 {
            continue; // rows without values, which lie nowhere
        }
        let scale = if part == 0 { &append.scales.k } else { &append.scales.v };
        let moved = transform.filter(|transform| transform.moves(part));
        let raw = source.dtype() == dtype && scale.is_one() && moved.is_none();
        let mut row = vec![0.0; dim];
        for (token, target) in targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let (page, slot) = target.place;
            for (head, scale) in all_scales[part].iter().enumerate() {
                let from = elements::offset(&source.strides()[..2], &[token, head], source.dtype().size());
                let at = elements::offset(&strides[..3], &[page, slot, head], dtype.size());
                if raw {
                    let length = dim * dtype.size();
                    to[at..at + length].copy_from_slice(&bytes[from..from + length]);
                    continue;
                }
                elements::read(source.dtype(), &bytes[from..], &mut row);
                if let Some(transform) = moved {
                    let (batch, kv_pos, kv_head) = (target.request, target.position, head as i32);
                    let index = KvIndex { batch, kv_pos, kv_head, ..KvIndex::default() };
                    match part {
                        0 => transform.variant.key_row(&mut row, index),
                        _ => transform.variant.value_row(&mut row, index),
                    }
                }
                let inverse = 1.0 / scale;
                row.iter_mut().for_each(|x| *x *= inverse);
                elements::write(dtype, &mut to[at..], &row);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
