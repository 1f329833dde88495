//! New keys and values, into pools of pages.

use attn::ops::{Append, KvMut, KvRef, KvSidesMut, PageTableRows, SlotMapping, append_paged};
use attn::{KvScales, PageOrder};
use pyo3::prelude::*;

use crate::argument::{ATTENTION, Arg, TEXT, optional};
use crate::array::{array, counter};
use crate::attention::Attention;
use crate::element::Element;
use crate::engine::{address, stream};
use crate::error::{Failure, call};
use crate::kv_layout::KvLayout;
use crate::producer::{self, view};
use crate::scale::GivenScale;
use crate::tensor::{Named, View, check_apart};

/// Appends new keys and values, (tokens, KV heads, head dim), to pools of pages: at `slots` (`page * page_size + slot`,
/// int64), or at `positions` of the requests `batch_indices` (int32), whose pages a table has. Below 0 nothing is
/// written.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's keywords
#[pyo3(signature = (k, v, k_pool, v_pool, slots=None, *, kv_layout=None, positions=None, attention=None, k_scale=None,
    v_scale=None, stream=None, k_side=None, v_side=None, batch_indices=None, page_indptr=None, page_indices=None,
    block_table=None, status=None, q=None, q_out=None, q_rest=None, q_rest_out=None, q_scale=None))]
pub(crate) fn append(
    py: Python<'_>,
    k: &Bound<'_, PyAny>,
    v: Option<&Bound<'_, PyAny>>,
    k_pool: &Bound<'_, PyAny>,
    v_pool: Option<&Bound<'_, PyAny>>,
    slots: Option<&Bound<'_, PyAny>>,
    kv_layout: Option<Arg<&str>>,
    positions: Option<&Bound<'_, PyAny>>,
    attention: Option<Arg<PyRef<'_, Attention>>>,
    k_scale: Option<&Bound<'_, PyAny>>,
    v_scale: Option<&Bound<'_, PyAny>>,
    stream: Option<Arg<usize>>,
    k_side: Option<&Bound<'_, PyAny>>,
    v_side: Option<&Bound<'_, PyAny>>,
    batch_indices: Option<&Bound<'_, PyAny>>,
    page_indptr: Option<&Bound<'_, PyAny>>,
    page_indices: Option<&Bound<'_, PyAny>>,
    block_table: Option<&Bound<'_, PyAny>>,
    status: Option<&Bound<'_, PyAny>>,
    q: Option<&Bound<'_, PyAny>>,
    q_out: Option<&Bound<'_, PyAny>>,
    q_rest: Option<&Bound<'_, PyAny>>,
    q_rest_out: Option<&Bound<'_, PyAny>>,
    q_scale: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    call(py, || {
        let layout = KvLayout::parse(optional(kv_layout, py, "kv_layout", TEXT)?.unwrap_or("NHD"))?;
        let attention = optional(attention, py, "attention", ATTENTION)?;
        let location = producer::location(k_pool, "k_pool")?;
        let engine = crate::engine::engine(location)?;
        let on = self::stream(py, &engine, location, stream)?;
        let reader = address(&on);
        let read = |object: &Bound<'_, PyAny>, name: &str| view(object, name, reader)?.on(location, name);
        let given = |object: Option<&Bound<'_, PyAny>>, name: &str| object.map(|object| read(object, name)).transpose();
        let pool = |view| layout.pool(view);
        let (k, v) = (read(k, "k")?, given(v, "v")?);
        let (k_pool, v_pool) = (pool(read(k_pool, "k_pool")?), given(v_pool, "v_pool")?.map(pool));
        let (k_side, v_side) = (given(k_side, "k_side")?.map(pool), given(v_side, "v_side")?.map(pool));
        let (k_scale, v_scale) =
            (GivenScale::new(k_scale, "k_scale", read)?, GivenScale::new(v_scale, "v_scale", read)?);
        let q_scale = GivenScale::new(q_scale, "q_scale", read)?;
        let queries = Queries {
            q: given(q, "q")?,
            rest: given(q_rest, "q_rest")?,
            out: given(q_out, "q_out")?,
            rest_out: given(q_rest_out, "q_rest_out")?,
        };
        queries.check()?;
        let slot_arrays = SlotArrays {
            slots: given(slots, "slots")?,
            positions: given(positions, "positions")?,
            batch_indices: given(batch_indices, "batch_indices")?,
            page_indptr: given(page_indptr, "page_indptr")?,
            page_indices: given(page_indices, "page_indices")?,
            block_table: given(block_table, "block_table")?,
        };
        let status = given(status, "status")?;
        let outputs = [
            ("k_pool", Some(&k_pool)),
            ("v_pool", v_pool.as_ref()),
            ("k_side", k_side.as_ref()),
            ("v_side", v_side.as_ref()),
            ("status", status.as_ref()),
            ("q_out", queries.target(0)),
            ("q_rest_out", queries.target(1)),
        ];
        let rows = [
            ("k", Some(&k)),
            ("v", v.as_ref()),
            ("k_scale", k_scale.heads.as_ref()),
            ("v_scale", v_scale.heads.as_ref()),
            ("q_scale", q_scale.heads.as_ref()),
            ("q", queries.q.as_ref().filter(|_| queries.out.is_some())),
            ("q_rest", queries.rest.as_ref().filter(|_| queries.rest_out.is_some())),
        ];
        check_apart(&outputs, &[&rows[..], &slot_arrays.named()].concat())?;
        let absent = |name: &str| Failure::tensor(format!("{name} is None; in this layout it is given"));
        // SAFETY: the caller's tensors, which stay during the call; what is written shares no memory with the rest
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
            let append = Append {
                slot_mapping: slot_arrays.slot_mapping()?,
                scales: KvScales { k: k_scale.scale("k_scale")?, v: v_scale.scale("v_scale")? },
                q_scale: q_scale.scale("q_scale")?,
                status: status.as_ref().map(|status| counter(status, "status")).transpose()?,
            };
            let transform = attention.as_ref().and_then(|attention| attention.transform.as_ref());
            let Some((from, mut out)) = queries.tensors()? else {
                return Ok(py.detach(|| append_paged(&on, &new, &mut pools, &append, transform))?);
            };
            let absent = || Failure::argument("q is given without an attention that stores transformed keys");
            let transform = transform.ok_or_else(absent)?;
            py.detach(|| transform.append_with_queries(&on, from.as_ref(), &mut out, &new, &mut pools, &append))?;
        }
        Ok(())
    })
}

/// Queries that are transformed beside an append, elements of them that are only converted, and where both go: by
/// default they stay in place.
struct Queries {
    q: Option<View>,
    rest: Option<View>,
    out: Option<View>,
    rest_out: Option<View>,
}

impl Queries {
    /// Refuses what is given without what it belongs to.
    fn check(&self) -> Result<(), Failure> {
        let Queries { q, rest, out, rest_out } = self;
        let given = [(rest, "q_rest", q, "q"), (out, "q_out", q, "q"), (rest_out, "q_rest_out", rest, "q_rest")];
        let lonely = given.into_iter().find(|(one, _, other, _)| one.is_some() && other.is_none());
        if let Some((_, one, _, other)) = lonely {
            return Err(Failure::argument(format!("{one} is given without {other}")));
        }
        if rest.is_some() && out.is_some() != rest_out.is_some() {
            return Err(Failure::argument("q_out and q_rest_out go together: give both, or neither for both in place"));
        }
        Ok(())
    }

    /// What is written: an output, or the queries in place.
    fn target(&self, part: usize) -> Option<&View> {
        match part {
            0 => self.out.as_ref().or(self.q.as_ref()),
            _ => self.rest_out.as_ref().or(self.rest.as_ref()),
        }
    }

    /// The queries unless they stay in place, and where they go.
    ///
    /// # Safety
    ///
    /// The conditions of [`View::read`] and [`View::write`].
    unsafe fn tensors<'a>(&self) -> Result<Option<(Option<KvRef<'a>>, KvMut<'a>)>, Failure> {
        let Some(q) = &self.q else { return Ok(None) };
        // SAFETY: the caller guarantees it
        unsafe {
            let from = match (&self.out, &self.rest) {
                (None, _) => None,
                (Some(_), Some(rest)) => Some(KvRef::new(q.read("q")?, rest.read("q_rest")?)),
                (Some(_), None) => Some(KvRef::latent(q.read("q")?)),
            };
            let first = self.target(0).unwrap_or(q).write("q_out")?;
            let out = match self.target(1) {
                Some(rest) => KvMut::new(first, rest.write("q_rest_out")?),
                None => KvMut::latent(first),
            };
            Ok(Some((from, out)))
        }
    }
}

/// The arrays that say where new rows go.
struct SlotArrays {
    slots: Option<View>,
    positions: Option<View>,
    batch_indices: Option<View>,
    page_indptr: Option<View>,
    page_indices: Option<View>,
    block_table: Option<View>,
}

impl SlotArrays {
    fn named(&self) -> [Named<'_>; 6] {
        let SlotArrays { slots, positions, batch_indices, page_indptr, page_indices, block_table } = self;
        [
            ("slots", slots.as_ref()),
            ("positions", positions.as_ref()),
            ("batch_indices", batch_indices.as_ref()),
            ("page_indptr", page_indptr.as_ref()),
            ("page_indices", page_indices.as_ref()),
            ("block_table", block_table.as_ref()),
        ]
    }

    /// # Safety
    ///
    /// The conditions of [`array`].
    unsafe fn slot_mapping<'a>(&self) -> Result<SlotMapping<'a>, Failure> {
        // SAFETY: the caller guarantees it
        let ints = |view: &View, rank, name| unsafe { array::<i32>(view, rank, Element::I32, name) };
        let SlotArrays { slots, positions, batch_indices, page_indptr, page_indices, block_table } = self;
        let positions = positions.as_ref().map(|positions| ints(positions, 1, "positions")).transpose()?;
        match (slots, batch_indices) {
            (Some(slots), None) => {
                let tables =
                    [("page_indptr", page_indptr), ("page_indices", page_indices), ("block_table", block_table)];
                if let Some((name, _)) = tables.iter().find(|(_, table)| table.is_some()) {
                    return Err(Failure::argument(format!("{name} is given beside slots, which need no table")));
                }
                // SAFETY: the caller guarantees it
                Ok(SlotMapping::Slots { slots: unsafe { array(slots, 1, Element::I64, "slots") }?, positions })
            }
            (None, Some(requests)) => {
                let missing = || Failure::argument("positions is None; beside batch_indices each token has one");
                let rows = match (page_indptr, page_indices, block_table) {
                    (Some(indptr), Some(pages), None) => PageTableRows::Csr {
                        indptr: ints(indptr, 1, "page_indptr")?,
                        pages: ints(pages, 1, "page_indices")?,
                    },
                    (None, None, Some(table)) => {
                        let pages = ints(table, 2, "block_table")?;
                        PageTableRows::Padded { pages, max_pages: table.dims.shape()[1] }
                    }
                    _ => {
                        let tables = "page_indptr and page_indices, or block_table";
                        return Err(Failure::argument(format!("batch_indices need the pages of requests: {tables}")));
                    }
                };
                let (requests, positions) = (ints(requests, 1, "batch_indices")?, positions.ok_or_else(missing)?);
                Ok(SlotMapping::Positions { requests, positions, rows })
            }
            (given, _) => {
                let got = if given.is_some() { "both are given" } else { "neither is given" };
                let want = "a token's place is its entry of slots, or of batch_indices and positions";
                Err(Failure::argument(format!("{want}: {got}")))
            }
        }
    }
}
