//! Queries and keys in host memory.

use super::{IndexKeys, IndexQueries, ScoreSizes, Visible};
use crate::dtype::Dtype;
use crate::ops::slot_mapping::{HostPageTable, PoolShape, check_entry};
use crate::ops::{OpError, elements};
use crate::tensor::TensorRef;

/// A query: its row, its request, and how many keys it sees.
#[derive(Clone, Copy)]
pub(super) struct Query {
    pub(super) token: usize,
    pub(super) request: usize,
    pub(super) visible: usize,
}

enum KeyLayout<'a> {
    /// Where the keys of each request begin.
    Ragged(&'a [i32]),
    Paged(HostPageTable<'a>, PoolShape),
}

/// The keys of all requests.
pub(super) struct HostKeys<'a> {
    bytes: &'a [u8],
    dtype: Dtype,
    strides: &'a [i64],
    layout: KeyLayout<'a>,
    lens: Vec<usize>,
}

fn bytes<'a>(name: &'static str, of: &TensorRef<'a>) -> Result<&'a [u8], OpError> {
    Ok(of.host_bytes().ok_or_else(|| elements::on_device(name))?)
}

/// Differences of prefix sums that rise from 0 to at most `most`.
fn lens(array: &'static str, sums: &[i32], most: usize) -> Result<Vec<usize>, OpError> {
    let mut before = 0;
    for (index, &sum) in sums.iter().enumerate() {
        check_entry(array, index, sum.into(), before, if index == 0 { 0 } else { most as i64 })?;
        before = i64::from(sum);
    }
    Ok(sums.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect())
}

impl<'a> HostKeys<'a> {
    pub(super) fn new(keys: &'a IndexKeys<'a>) -> Result<Self, OpError> {
        let of = keys.keys();
        let (layout, lens) = match keys {
            IndexKeys::Ragged { kv_indptr, .. } => {
                let sums = kv_indptr.on_host("kv_indptr")?;
                (KeyLayout::Ragged(sums), lens("kv_indptr", sums, of.shape()[0])?)
            }
            IndexKeys::Paged { rows, kv_lens, .. } => {
                let lens = kv_lens.on_host("kv_lens")?;
                for (index, &len) in lens.iter().enumerate() {
                    check_entry("kv_lens", index, len.into(), 0, 1 << 30)?;
                }
                let pool = PoolShape { pages: of.shape()[0], page_size: of.shape()[1] };
                (KeyLayout::Paged(rows.on_host()?, pool), lens.iter().map(|&len| len as usize).collect())
            }
        };
        Ok(HostKeys { bytes: bytes("index keys", of)?, dtype: of.dtype(), strides: of.strides(), layout, lens })
    }

    /// Reads a key.
    pub(super) fn read(&self, query: Query, position: usize, row: &mut [f32]) -> Result<(), OpError> {
        let at = match &self.layout {
            KeyLayout::Ragged(sums) => {
                elements::offset(&self.strides[..1], &[sums[query.request] as usize + position], self.dtype.size())
            }
            KeyLayout::Paged(table, pool) => {
                let (page, slot) = table.locate(*pool, position, query.request, position)?;
                elements::offset(&self.strides[..2], &[page, slot], self.dtype.size())
            }
        };
        elements::read(self.dtype, &self.bytes[at..], row);
        Ok(())
    }
}

/// The queries that are no padding, each with the number of keys that it sees.
pub(super) fn queries(
    queries: &IndexQueries<'_>,
    keys: &HostKeys<'_>,
    sizes: &ScoreSizes,
) -> Result<Vec<Query>, OpError> {
    let sums = queries.qo_indptr.on_host("qo_indptr")?;
    let counts = match &queries.visible {
        Visible::Counts(counts) => Some(counts.on_host("visible")?),
        _ => None,
    };
    let mut all = Vec::new();
    for (request, len) in lens("qo_indptr", sums, sizes.tokens)?.into_iter().enumerate() {
        let kv_len = keys.lens[request];
        for row in 0..len {
            let token = sums[request] as usize + row;
            let visible = match (&queries.visible, counts) {
                (Visible::Causal, _) => (kv_len + row + 1).saturating_sub(len),
                (_, Some(counts)) => counts[token].max(0) as usize,
                _ => kv_len,
            };
            all.push(Query { token, request, visible: visible.min(kv_len) });
        }
    }
    Ok(all)
}

/// Reads the heads of a query token.
pub(super) fn read_query(q: &TensorRef<'_>, token: usize, rows: &mut [f32]) -> Result<(), OpError> {
    let bytes = bytes("q", q)?;
    for (head, row) in rows.chunks_mut(q.shape()[2]).enumerate() {
        let at = elements::offset(&q.strides()[..2], &[token, head], q.dtype().size());
        elements::read(q.dtype(), &bytes[at..], row);
    }
    Ok(())
}

/// The f32 values of a row of a tensor.
pub(super) fn read_row(name: &'static str, of: &TensorRef<'_>, at: &[usize], row: &mut [f32]) -> Result<(), OpError> {
    let start = elements::offset(&of.strides()[..at.len()], at, of.dtype().size());
    elements::read(of.dtype(), &bytes(name, of)?[start..], row);
    Ok(())
}
