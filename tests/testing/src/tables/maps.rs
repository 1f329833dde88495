//! Tables that are no function of one token: trees, block maps, shared prefixes, offsets of masks.

use super::lengths::{Lengths, Token};
use crate::random::Random;

/// The documents that are not empty.
const DOCUMENTS: i64 = 4;

/// Where a shared document starts: sorted positions from 0 to the longest request, in equal parts with noise.
fn shared_start(batch: &Lengths, document: i64) -> i64 {
    let longest = batch.kv_lens.iter().copied().max().map_or(0, i64::from);
    let part = longest / DOCUMENTS;
    match document {
        0 => 0,
        n if n >= DOCUMENTS => longest,
        n => n * part - Random::new(batch.seed, 6000 + n as u64).below(part as u64 / 2 + 1) as i64,
    }
}

/// The starts of documents, and where the last one ends.
pub(super) fn shared_offsets(batch: &Lengths, documents: i64) -> Vec<i64> {
    (0..=documents).map(|document| shared_start(batch, document)).collect()
}

/// The document of a position.
pub(super) fn shared_document(batch: &Lengths, pos: i64) -> i64 {
    (0..DOCUMENTS).rfind(|&document| shared_start(batch, document) <= pos).unwrap_or(0)
}

/// Every third document is its own prefix; the others have the last such one before them.
pub(super) fn shared_prefixes(documents: i64) -> Vec<i64> {
    (0..documents).map(|document| document / 3 * 3).collect()
}

/// The ancestors of each node of a random tree, itself included; queries past the width see what fits.
pub(super) fn ancestors(batch: &Lengths, width: usize) -> Vec<i64> {
    let mut bits = Vec::new();
    for (request, &nodes) in batch.qo_lens.iter().enumerate() {
        let mut random = Random::new(batch.seed, 7000 + request as u64);
        let mut rows: Vec<Vec<i64>> = Vec::new();
        for node in 0..nodes as usize {
            let mut row = match node {
                0 => vec![0; width],
                // chains and branches
                _ if random.below(2) == 0 => rows[node - 1].clone(),
                _ => rows[random.below(node as u64) as usize].clone(),
            };
            if let Some(own) = row.get_mut(node) {
                *own = 1;
            }
            rows.push(row);
        }
        bits.extend(rows.into_iter().flatten());
    }
    bits
}

/// Runs of blocks: a row begins in a run or not, and changes after one block in three; one row in 16 is empty.
pub(super) fn blocks(batch: &Lengths, shape: &[i64]) -> Vec<i64> {
    let (rows, columns) = (shape[..shape.len().saturating_sub(1)].iter().product::<i64>(), shape.last().copied());
    let mut all = Vec::new();
    for row in 0..rows {
        let mut random = batch.random(&Token { request: 0, pos: row }, 8000);
        let (empty, mut inside) = (random.below(16) == 0, random.below(2) == 0);
        for _ in 0..columns.unwrap_or(0) {
            inside ^= random.below(3) == 0;
            all.push(i64::from(inside && !empty));
        }
    }
    all
}

/// The first bit of each request's mask: queries times keys of those before.
pub(super) fn mask_offsets(batch: &Lengths) -> Vec<i64> {
    let lens = batch.qo_lens.iter().zip(&batch.kv_lens);
    let sizes = lens.map(|(&qo, &kv)| i64::from(qo) * i64::from(kv));
    // in the range of i32; positions past the end of the bits read the last one
    let most = i64::from(i32::MAX);
    sizes.scan(0, |sum, size| Some(std::mem::replace(sum, (*sum + size).min(most)))).collect()
}
