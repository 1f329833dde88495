//! Linear layers whose rows do not depend on each other.
//!
//! Libraries of matrix products (`gemm`, `matrixmultiply`, BLAS) choose their blocks by the number of rows, and with
//! them the order of sums: a token then has other bits in another batch. Here each element is one dot product, summed
//! in one order. Blocks of several rows and outputs share loads alone.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Outputs of a task.
const PANEL: usize = 32;
/// Outputs and rows of a block in registers.
const BLOCK: usize = 4;

/// `x` times the transposed weights.
pub(super) struct Product<'a> {
    pub(super) arch: Arch,
    /// `[outputs][inputs]`
    pub(super) weight: &'a [f32],
    /// `[rows][inputs]`
    pub(super) x: &'a [f32],
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) rows: usize,
}

impl Product<'_> {
    /// Writes or adds the product to `[rows][outputs]`. `panels` is memory that is kept between calls.
    pub(super) fn run(&self, out: &mut [f32], accumulate: bool, panels: &mut Vec<f32>) {
        let &Product { arch, weight, x, outputs, inputs, rows } = self;
        if rows == 0 {
            return;
        }
        // grows to the largest product once
        panels.resize(panels.len().max(rows * outputs), 0.0);
        let panels = &mut panels[..rows * outputs];
        let tasks = panels.par_chunks_mut(PANEL * rows).zip(weight.par_chunks(PANEL * inputs));
        tasks.for_each(|(out, weight)| arch.dispatch(Panel { weight, x, inputs, out }));
        let put = |(row, out): (usize, &mut [f32])| {
            for (panel, out) in panels.chunks(PANEL * rows).zip(out.chunks_mut(PANEL)) {
                let values = &panel[row * out.len()..][..out.len()];
                match accumulate {
                    true => out.iter_mut().zip(values).for_each(|(out, value)| *out += value),
                    false => out.copy_from_slice(values),
                }
            }
        };
        match rows {
            1 => put((0, out)),
            _ => out.par_chunks_exact_mut(outputs).with_min_len(8).enumerate().for_each(put),
        }
    }
}

/// Some outputs of all rows.
struct Panel<'a> {
    /// `[panel outputs][inputs]`
    weight: &'a [f32],
    /// `[rows][inputs]`
    x: &'a [f32],
    inputs: usize,
    /// `[rows][panel outputs]`
    out: &'a mut [f32],
}

impl WithSimd for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Panel { weight, x, inputs, out } = self;
        let outputs = weight.len() / inputs;
        for (x, out) in x.chunks(BLOCK * inputs).zip(out.chunks_mut(BLOCK * outputs)) {
            match x.len() / inputs {
                BLOCK => block_rows::<S, BLOCK>(simd, weight, x, inputs, out),
                3 => block_rows::<S, 3>(simd, weight, x, inputs, out),
                2 => block_rows::<S, 2>(simd, weight, x, inputs, out),
                _ => block_rows::<S, 1>(simd, weight, x, inputs, out),
            }
        }
    }
}

/// All outputs of a panel for `X` rows.
#[inline(always)]
fn block_rows<S: Simd, const X: usize>(simd: S, weight: &[f32], x: &[f32], inputs: usize, out: &mut [f32]) {
    let outputs = weight.len() / inputs;
    let x: [&[f32]; X] = std::array::from_fn(|row| &x[row * inputs..][..inputs]);
    let mut first = 0;
    while first + BLOCK <= outputs {
        let weights = std::array::from_fn(|i| &weight[(first + i) * inputs..][..inputs]);
        put(&dots::<S, BLOCK, X>(simd, weights, x), first, outputs, out);
        first += BLOCK;
    }
    for output in first..outputs {
        put(&dots::<S, 1, X>(simd, [&weight[output * inputs..][..inputs]], x), output, outputs, out);
    }
}

#[inline(always)]
fn put<const W: usize, const X: usize>(sums: &[[f32; X]; W], first: usize, outputs: usize, out: &mut [f32]) {
    for (i, sums) in sums.iter().enumerate() {
        for (row, sum) in sums.iter().enumerate() {
            out[row * outputs + first + i] = *sum;
        }
    }
}

/// The dot products of `W` rows of weights with `X` rows of equal length. Each pair has an accumulator of its own, so
/// that its bits do not depend on the rows around it.
#[inline(always)]
fn dots<S: Simd, const W: usize, const X: usize>(simd: S, weights: [&[f32]; W], x: [&[f32]; X]) -> [[f32; X]; W] {
    let mut sums = [[simd.splat_f32s(0.0); X]; W];
    let (weights, weight_rests) = split::<S, W>(weights);
    let (x, x_rests) = split::<S, X>(x);
    let len = x[0].len();
    // closures of `map` would be compiled without the vectors of `S`
    #[allow(clippy::needless_range_loop)]
    for i in 0..len {
        for w in 0..W {
            for r in 0..X {
                sums[w][r] = simd.mul_add_e_f32s(weights[w][i], x[r][i], sums[w][r]);
            }
        }
    }
    let mut dots = [[0.0; X]; W];
    for w in 0..W {
        for r in 0..X {
            if !x_rests[r].is_empty() {
                let (weights, x) = (simd.partial_load_f32s(weight_rests[w]), simd.partial_load_f32s(x_rests[r]));
                sums[w][r] = simd.mul_add_e_f32s(weights, x, sums[w][r]);
            }
            dots[w][r] = simd.reduce_sum_f32s(sums[w][r]);
        }
    }
    dots
}

/// Whole vectors of rows of equal length, and the rest of each.
#[inline(always)]
fn split<S: Simd, const N: usize>(rows: [&[f32]; N]) -> ([&[S::f32s]; N], [&[f32]; N]) {
    let (mut vectors, mut rests): ([&[S::f32s]; N], [&[f32]; N]) = ([&[]; N], [&[]; N]);
    for (i, row) in rows.iter().enumerate() {
        let (whole, rest) = S::as_simd_f32s(row);
        let len = S::as_simd_f32s(rows[0]).0.len();
        (vectors[i], rests[i]) = (&whole[..len], rest);
    }
    (vectors, rests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: u32, len: usize) -> Vec<f32> {
        let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(0x9e37_79b1);
        (0..len as u32).map(|i| (hash(i) >> 8) as f32 / 8_388_608.0 - 1.0).collect()
    }

    fn product(weight: &[f32], x: &[f32], inputs: usize, out: &mut [f32], accumulate: bool) {
        let (outputs, rows) = (weight.len() / inputs, x.len() / inputs);
        let product = Product { arch: Arch::new(), weight, x, outputs, inputs, rows };
        product.run(out, accumulate, &mut Vec::new());
    }

    #[test]
    fn a_row_has_its_bits_in_any_batch() {
        for (inputs, outputs) in [(576, 960), (61, 37), (16, 33), (3, 1)] {
            let (weight, x) = (numbers(1, inputs * outputs), numbers(2, 23 * inputs));
            let mut all = vec![0.5; 23 * outputs];
            product(&weight, &x, inputs, &mut all, true);
            for rows in [1, 2, 3, 4, 5, 11] {
                for first in [0, 7, 12] {
                    let mut out = vec![0.5; rows * outputs];
                    product(&weight, &x[first * inputs..][..rows * inputs], inputs, &mut out, true);
                    assert_eq!(out, all[first * outputs..][..rows * outputs], "{rows} rows from {first}");
                }
            }
            let element = |row: usize, output: usize| -> f64 {
                let pairs = x[row * inputs..][..inputs].iter().zip(&weight[output * inputs..][..inputs]);
                0.5 + pairs.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>()
            };
            for (i, got) in all.iter().enumerate() {
                assert!((f64::from(*got) - element(i / outputs, i % outputs)).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn a_product_replaces_or_adds() {
        let mut out = [9.0; 2];
        product(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0], 2, &mut out, false);
        assert_eq!(out, [3.0, 7.0]);
        product(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0], 2, &mut out, true);
        assert_eq!(out, [6.0, 14.0]);
        product(&[1.0, 2.0], &[], 2, &mut [], false);
    }
}
