//! Runs the functions of a KV format over rows between guards, which show what they write outside of their row.

use attn_core::lang::kv_format::{ErasedKvFormat, RowBytes};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// Bytes or elements in front of a row and behind it.
const GUARD: usize = 64;

/// Bytes between guards of `guard`.
#[derive(Clone)]
pub(crate) struct Guarded<T> {
    all: Vec<T>,
    guard: T,
}

impl<T: Copy + PartialEq> Guarded<T> {
    pub(crate) fn new(row: &[T], guard: T) -> Self {
        let around = [guard; GUARD];
        Guarded { all: [&around[..], row, &around[..]].concat(), guard }
    }
    pub(crate) fn row(&self) -> &[T] {
        &self.all[GUARD..self.all.len() - GUARD]
    }
    pub(crate) fn row_mut(&mut self) -> &mut [T] {
        let end = self.all.len() - GUARD;
        &mut self.all[GUARD..end]
    }
    /// Whether both guards are as they were.
    pub(crate) fn is_whole(&self) -> bool {
        let (before, rest) = self.all.split_at(GUARD);
        before.iter().chain(&rest[rest.len() - GUARD..]).all(|x| *x == self.guard)
    }
}

/// Any bytes.
pub(crate) fn bytes(count: usize, rng: &mut SmallRng) -> Vec<u8> {
    (0..count).map(|_| rng.random()).collect()
}

/// Runs a format on the CPU over random rows of any floats and any bytes, for each KV head: it panics outside of a row.
pub(crate) fn stays_within(format: &dyn ErasedKvFormat, dim: usize, kv_heads: i32) {
    let row = RowBytes::of(format, dim as u32);
    let mut rng = SmallRng::seed_from_u64(7);
    for kv_head in (0..kv_heads).cycle().take(24) {
        let x: Vec<f32> = (0..dim).map(|_| f32::from_bits(rng.random())).collect();
        let mut codes = Guarded::new(&bytes(row.codes, &mut rng), 0xa5);
        let mut side = Guarded::new(&bytes(row.side, &mut rng), 0xa5);
        let mut read = Guarded::new(&vec![0.0; dim], 0.5);
        format.decode_row(codes.row(), side.row(), kv_head, read.row_mut());
        format.encode_row(&x, codes.row_mut(), side.row_mut(), kv_head);
        format.decode_row(codes.row(), side.row(), kv_head, read.row_mut());
        assert!(codes.is_whole() && side.is_whole() && read.is_whole(), "{format}");
    }
}
