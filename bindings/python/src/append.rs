//! New keys and values, into pools of pages.

use attn::ops::{Append, KvMut, KvRef, KvSidesMut, SlotMapping, append_paged};
use attn::{KvScales, PageOrder};
use pyo3::prelude::*;

use crate::argument::{ATTENTION, Arg, NUMBER, TEXT, optional};
use crate::attention::Attention;
use crate::element::Element;
use crate::engine::{address, stream};
use crate::error::{Failure, call};
use crate::kv_layout::KvLayout;
use crate::producer::{self, view};
use crate::tensor::array;

/// Appends new keys and values, (tokens, KV heads, head dim), to pools of pages at `slots` (`page * page_size + slot`,
/// int64; below 0 nothing is written).
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's keywords
#[pyo3(signature = (k, v, k_pool, v_pool, slots, *, kv_layout=None, positions=None, attention=None, k_scale=None,
    v_scale=None, stream=None, k_side=None, v_side=None))]
pub(crate) fn append(
    py: Python<'_>,
    k: &Bound<'_, PyAny>,
    v: Option<&Bound<'_, PyAny>>,
    k_pool: &Bound<'_, PyAny>,
    v_pool: Option<&Bound<'_, PyAny>>,
    slots: &Bound<'_, PyAny>,
    kv_layout: Option<Arg<&str>>,
    positions: Option<&Bound<'_, PyAny>>,
    attention: Option<Arg<PyRef<'_, Attention>>>,
    k_scale: Option<Arg<f32>>,
    v_scale: Option<Arg<f32>>,
    stream: Option<Arg<usize>>,
    k_side: Option<&Bound<'_, PyAny>>,
    v_side: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    call(py, || {
        let layout = KvLayout::parse(optional(kv_layout, py, "kv_layout", TEXT)?.unwrap_or("NHD"))?;
        let attention = optional(attention, py, "attention", ATTENTION)?;
        let k_scale = optional(k_scale, py, "k_scale", NUMBER)?.unwrap_or(1.0);
        let v_scale = optional(v_scale, py, "v_scale", NUMBER)?.unwrap_or(1.0);
        let location = producer::location(k_pool, "k_pool")?;
        let engine = crate::engine::engine(location)?;
        let on = self::stream(py, &engine, location, stream)?;
        let reader = address(&on);
        let read = |object: &Bound<'_, PyAny>, name: &str| view(object, name, reader)?.on(location, name);
        let (k, k_pool) = (read(k, "k")?, read(k_pool, "k_pool")?);
        let v = v.map(|v| read(v, "v")).transpose()?;
        let v_pool = v_pool.map(|pool| read(pool, "v_pool")).transpose()?;
        let sides = [(k_side, "k_side"), (v_side, "v_side")];
        let [k_side, v_side] = sides.map(|(side, name)| side.map(|side| read(side, name)).transpose());
        let (k_side, v_side) = (k_side?, v_side?);
        let slots = read(slots, "slots")?;
        let positions = positions.map(|positions| read(positions, "positions")).transpose()?;
        let mut others = vec![("k", &k), ("slots", &slots)];
        others.extend(v.as_ref().map(|v| ("v", v)));
        others.extend(positions.as_ref().map(|positions| ("positions", positions)));
        v_pool.as_ref().map_or(Ok(()), |pool| pool.check_apart("v_pool", &others))?;
        others.extend(v_pool.as_ref().map(|pool| ("v_pool", pool)));
        k_pool.check_apart("k_pool", &others)?;
        others.push(("k_pool", &k_pool));
        k_side.as_ref().map_or(Ok(()), |side| side.check_apart("k_side", &others))?;
        others.extend(k_side.as_ref().map(|side| ("k_side", side)));
        v_side.as_ref().map_or(Ok(()), |side| side.check_apart("v_side", &others))?;
        let absent = |name: &str| Failure::tensor(format!("{name} is None; in this layout it is given"));
        // SAFETY: the caller's tensors, which stay during the call; pools share no memory with each other or the rest
        unsafe {
            let new = match (layout, &v) {
                (KvLayout::Latent, _) => KvRef::latent(k.read("k")?),
                (_, Some(v)) => KvRef::new(k.read("k")?, v.read("v")?),
                (_, None) => return Err(absent("v")),
            };
            let keys = k_pool.write("k_pool")?;
            let pools = match (layout, &v_pool) {
                (KvLayout::Latent, _) => KvMut::latent(keys),
                (KvLayout::Fused(order), _) => KvMut::fused(keys, order)?,
                (_, None) => return Err(absent("v_pool")),
                (KvLayout::Nhd, Some(pool)) => KvMut::paged_in(keys, pool.write("v_pool")?, PageOrder::Nhd)?,
                (KvLayout::Hnd, Some(pool)) => KvMut::paged_in(keys, pool.write("v_pool")?, PageOrder::Hnd)?,
            };
            let k_side = k_side.as_ref().map(|side| side.write("k_side")).transpose()?;
            let v_side = v_side.as_ref().map(|side| side.write("v_side")).transpose()?;
            let sides = match (layout, k_side) {
                (KvLayout::Hnd, k) => KvSidesMut::paged_in(k, v_side, PageOrder::Hnd)?,
                (KvLayout::Fused(order), Some(pool)) => KvSidesMut::fused(pool, order)?,
                (_, k) => KvSidesMut::new(k, v_side),
            };
            let mut pools = pools.with_sides(sides);
            let slots = array(&slots, Element::I64, "slots")?;
            let positions =
                positions.as_ref().map(|positions| array(positions, Element::I32, "positions")).transpose()?;
            let scales = KvScales::of(k_scale, v_scale);
            let append = Append { scales, ..Append::at(SlotMapping::Slots { slots, positions }) };
            let transform = attention.as_ref().and_then(|attention| attention.transform.as_ref());
            py.detach(|| append_paged(&on, &new, &mut pools, &append, transform))?;
        }
        Ok(())
    })
}
