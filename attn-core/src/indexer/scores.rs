//! Scores on the CPU.

use super::rows::{HostKeys, Query, queries, read_query, read_row};
use super::{IndexKeys, IndexQueries, ScoreSizes, ScoresMut, check};
use crate::ops::slot_mapping::check_entry;
use crate::ops::{OpError, elements};
use crate::tensor::TensorRef;

/// Scores of keys: `scores[t, s] = sum_j weights[t, j] max(q[t, j] . k[s], 0)`, the lightning indexer of DeepSeek-V3.2.
/// `weights` is (qo tokens, index heads) in f32, with every factor.
///
/// # Errors
///
/// A tensor or array that does not fit or is in device memory, a key outside of the pool or the page table, more keys
/// than a row of scores holds. Nothing is written then.
pub fn index_scores(
    of: &IndexQueries<'_>,
    weights: &TensorRef<'_>,
    keys: &IndexKeys<'_>,
    out: &mut ScoresMut<'_>,
) -> Result<(), OpError> {
    let sizes = check::check_index_scores(of, weights, keys, out)?;
    let mut row = vec![0.0; sizes.heads];
    let sum = |query: Query, products: &mut [f32], scores: &mut Vec<f32>| {
        read_row("weights", weights, &[query.token], &mut row)?;
        for products in products.chunks(sizes.heads) {
            scores.push(products.iter().zip(&row).map(|(product, weight)| product.max(0.0) * weight).sum());
        }
        Ok(())
    };
    run(of, keys, sizes, 1, 1, sum, out)
}

/// Scores of blocks: `scores[t, g, b] = max of q[t, g] . k[s]` over the visible keys of the block, as MiniMax-M3 has
/// them. Blocks are ranges of `block_size` positions.
///
/// # Errors
///
/// A size of blocks that is no multiple of 32; the errors of [`index_scores`].
pub fn block_scores(
    of: &IndexQueries<'_>,
    keys: &IndexKeys<'_>,
    block_size: usize,
    out: &mut ScoresMut<'_>,
) -> Result<(), OpError> {
    let sizes = check::check_block_scores(of, keys, block_size, out)?;
    let max = |_: Query, products: &mut [f32], scores: &mut Vec<f32>| {
        let keys = products.len() / sizes.heads;
        for head in 0..sizes.heads {
            for block in (0..keys).step_by(block_size) {
                let products = (block..keys.min(block + block_size)).map(|key| products[key * sizes.heads + head]);
                scores.push(products.fold(f32::NEG_INFINITY, f32::max));
            }
        }
        Ok(())
    };
    run(of, keys, sizes, block_size, sizes.heads, max, out)
}

/// Computes the products of each query with the keys that it sees, (keys, heads), and writes what `score` makes of
/// them: `lists` rows of a score a unit of keys.
fn run(
    of: &IndexQueries<'_>,
    keys: &IndexKeys<'_>,
    sizes: ScoreSizes,
    unit: usize,
    lists: usize,
    mut score: impl FnMut(Query, &mut [f32], &mut Vec<f32>) -> Result<(), OpError>,
    out: &mut ScoresMut<'_>,
) -> Result<(), OpError> {
    let keys = HostKeys::new(keys)?;
    let queries = queries(of, &keys, &sizes)?;
    let mut results = Vec::new();
    let (mut heads, mut key) = (vec![0.0; sizes.heads * sizes.dim], vec![0.0; sizes.dim]);
    for query in queries {
        let units = query.visible.div_ceil(unit);
        check_entry("visible keys or blocks", query.token, units as i64, 0, sizes.columns as i64)?;
        read_query(&of.q, query.token, &mut heads)?;
        let mut products = Vec::with_capacity(query.visible * sizes.heads);
        for position in 0..query.visible {
            keys.read(query, position, &mut key)?;
            products.extend(heads.chunks(sizes.dim).map(|head| product(head, &key)));
        }
        let mut scores = Vec::with_capacity(units * lists);
        score(query, &mut products, &mut scores)?;
        results.push((query.token, units, scores));
    }
    let counts = out.counts.on_host("counts")?;
    let (strides, dtype) = (out.scores.strides().to_vec(), out.scores.dtype());
    let to = out.scores.host_bytes_mut().ok_or_else(|| elements::on_device("scores"))?;
    counts.fill(0);
    for (token, units, scores) in results {
        counts[token] = units as i32;
        for (list, scores) in scores.chunks(units.max(1)).enumerate() {
            let at = elements::offset(&strides[..strides.len() - 1], &[token, list], dtype.size());
            elements::write(dtype, &mut to[at..], scores);
        }
    }
    Ok(())
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}
