//! Bounds of the elements in a box of indices, for tile classes of masks that read a parameter tensor.
//!
//! Bounds are exact for boxes of up to 16 elements and, along a `#[monotone]` axis, for boxes of up to 8 rows.
//! Otherwise they come from minima and maxima of blocks, computed once: blocks of 32 elements of a row (for rank 1 also
//! of runs of 2, 4, 8 .. blocks, so that any range needs two look-ups, as in a sparse table), and of 32 x 32 elements
//! of the last two axes. At most 64 blocks are visited; beyond that, the bounds of the whole tensor are given.
//! `attn-kernels/cuda/lang/table_interval.cuh` visits the same blocks in the same way, so both sides give bit-identical
//! bounds.

/// Boxes of up to this many elements are visited element by element.
const FEW: i64 = 16;
/// Greatest number of blocks visited along an axis.
const BLOCKS: i64 = 8;
/// Greatest number of blocks visited.
const MOST_BLOCKS: i64 = 64;

/// A minimum and a maximum: the bits of an i32 or u32; bools, bits and u8 widened.
pub type MinMax = [u32; 2];

/// Element bounds of a tensor of integers or bools.
pub trait ElementBounds: std::fmt::Debug {
    /// The least and greatest element; zeros for a tensor of floats, or without elements.
    fn whole(&self) -> MinMax;
    /// The blocks in the order of `blocks`; empty for a tensor that is monotone or of floats.
    fn blocks(&self) -> &[MinMax];
}

/// A shape or an index, extended to four axes: missing outer axes have extent 1.
pub(super) type Four = [i64; 4];

/// Extends a shape or an index to four axes.
pub(super) fn four(axes: &[i64], missing: i64) -> Four {
    let mut four = [missing; 4];
    for (slot, &x) in four.iter_mut().rev().zip(axes.iter().rev()) {
        *slot = x;
    }
    four
}

/// Bounds of the elements at these offsets.
fn over(indices: impl Iterator<Item = i64>, value: &impl Fn(i64) -> i64) -> (i64, i64) {
    join(indices.map(|index| (value(index), value(index))))
}

fn join(ranges: impl Iterator<Item = (i64, i64)>) -> (i64, i64) {
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0))
}

fn stored((lo, hi): (i64, i64)) -> MinMax {
    [lo as u32, hi as u32]
}

/// Bounds of the whole tensor.
pub(super) fn whole(len: i64, value: impl Fn(i64) -> i64) -> MinMax {
    stored(over(0..len, &value))
}

/// The blocks of a tensor: for every row its blocks of 32 elements; then for rank 1 the runs of 2^k blocks (`k >= 1`)
/// from each block on; for higher ranks, for every matrix of the last two axes, its blocks of 32 x 32, row by row.
pub(super) fn blocks(rank: usize, extent: Four, value: impl Fn(i64) -> i64) -> Vec<MinMax> {
    let [a, b, rows, columns] = extent;
    let across = columns.div_euclid(32) + i64::from(columns % 32 != 0);
    let mut wide: Vec<(i64, i64)> = Vec::new();
    for row in 0..a * b * rows {
        for block in 0..across {
            let indices = row * columns + block * 32..row * columns + columns.min(block * 32 + 32);
            wide.push(over(indices, &value));
        }
    }
    if rank <= 1 {
        let (count, mut run) = (wide.len(), 1);
        while 2 * run <= count {
            let before = wide.len() - count;
            let pair = |i: usize| join([i, (i + run).min(count - 1)].into_iter().map(|at| wide[before + at]));
            let longer: Vec<_> = (0..count).map(pair).collect();
            wide.extend(longer);
            run *= 2;
        }
    } else {
        for matrix in 0..a * b {
            for first in (0..rows).step_by(32) {
                for block in 0..across {
                    let each = first..rows.min(first + 32);
                    let range = join(each.map(|row| wide[((matrix * rows + row) * across + block) as usize]));
                    wide.push(range);
                }
            }
        }
    }
    wide.into_iter().map(stored).collect()
}

/// A tensor and its blocks.
pub(super) struct BoundsQuery<'a, V> {
    pub(super) rank: usize,
    pub(super) extent: Four,
    /// An element by its offset.
    pub(super) value: V,
    /// Widens a stored bound.
    pub(super) wide: fn(u32) -> i64,
    /// `None` if the tensor is monotone.
    pub(super) blocks: Option<&'a [MinMax]>,
}

impl<V: Fn(i64) -> i64> BoundsQuery<'_, V> {
    /// Bounds of the elements in a box of indices, inclusive and within the tensor; `None` where the bounds of the
    /// whole tensor are to be used.
    pub(super) fn range(&self, lo: Four, hi: Four) -> Option<(i64, i64)> {
        let [_, b, rows, columns] = self.extent;
        let count = |axis: usize| hi[axis] - lo[axis] + 1;
        let matrix = |i: i64, j: i64| i * b + j;
        let matrices = move || (lo[0]..=hi[0]).flat_map(move |i| (lo[1]..=hi[1]).map(move |j| matrix(i, j)));
        let all_rows = move || matrices().flat_map(move |m| (lo[2]..=hi[2]).map(move |row| m * rows + row));
        let small = |axes: std::ops::Range<usize>, most: i64| {
            axes.map(|axis| count(axis).min(most + 1)).product::<i64>() <= most
        };
        if small(0..4, FEW) {
            let indices = all_rows().flat_map(move |row| (lo[3]..=hi[3]).map(move |column| row * columns + column));
            return Some(over(indices, &self.value));
        }
        let few_rows = small(0..3, BLOCKS);
        let Some(blocks) = self.blocks else {
            let ends = |row: i64| ((self.value)(row * columns + lo[3]), (self.value)(row * columns + hi[3]));
            return few_rows.then(|| join(all_rows().map(ends)));
        };
        let block = |at: i64| {
            let [lo, hi] = blocks.get(at as usize).copied().unwrap_or_default();
            ((self.wide)(lo), (self.wide)(hi))
        };
        let across = columns.div_euclid(32) + i64::from(columns % 32 != 0);
        let (first, last) = (lo[3] / 32, hi[3] / 32);
        if self.rank <= 1 {
            let level = (last - first + 1).ilog2();
            let at = i64::from(level) * across;
            return Some(join([block(at + first), block(at + last + 1 - (1 << level))].into_iter()));
        }
        if last - first >= BLOCKS {
            return None;
        }
        if few_rows {
            return Some(join(all_rows().flat_map(|row| (first..=last).map(move |c| row * across + c)).map(block)));
        }
        let (top, bottom) = (lo[2] / 32, hi[2] / 32);
        let down = rows.div_euclid(32) + i64::from(rows % 32 != 0);
        if !small(0..2, BLOCKS)
            || bottom - top >= BLOCKS
            || count(0) * count(1) * (bottom - top + 1) * (last - first + 1) > MOST_BLOCKS
        {
            return None;
        }
        let squares = self.extent[0] * b * rows * across;
        let down_at = |m: i64| (top..=bottom).map(move |r| squares + (m * down + r) * across);
        Some(join(matrices().flat_map(down_at).flat_map(|at| (first..=last).map(move |c| at + c)).map(block)))
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::interval::IntervalOf;
    use crate::lang::param_tensor::bounds::ElementBounds as _;
    use crate::lang::{Bits, Tensor, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4, param_tensor::ParamElement};
    use proptest::prelude::*;

    /// The exact bounds of a box, by visiting each element.
    fn exact<T: ParamElement, const RANK: usize>(
        t: &Tensor<T, RANK>,
        lo: [i64; RANK],
        hi: [i64; RANK],
        value: impl Fn(&T::Value) -> i64,
    ) -> (i64, i64) {
        let shape = t.shape();
        let inside = |index: usize| {
            let mut rest = index as i64;
            (0..RANK).rev().all(|axis| {
                let i = rest % shape[axis];
                rest /= shape[axis];
                (lo[axis].clamp(0, shape[axis] - 1)..=hi[axis].clamp(0, shape[axis] - 1)).contains(&i)
            })
        };
        let values: Vec<i64> = t.values().enumerate().filter(|(i, _)| inside(*i)).map(|(_, x)| value(&x)).collect();
        (values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0))
    }

    fn noise(n: usize, seed: u32) -> impl Iterator<Item = u32> {
        (0..n as u32).map(move |i| crate::random::bits(seed, 0, i, 0))
    }

    #[test]
    fn bounds_of_a_range_are_exact_up_to_a_block_at_either_end() {
        let t: Tensor1<i32> = noise(1000, 1).map(|x| (x >> 8) as i32 - (1 << 23)).collect();
        for n in 0..4000u32 {
            let (a, b) = (
                (crate::random::bits(2, 0, n, 0) % 1100) as i64 - 50,
                (crate::random::bits(3, 0, n, 0) % 1100) as i64 - 50,
            );
            let (lo, hi) = (a.min(b), a.max(b));
            let (least, most) = t.interval_of(&[lo], &[hi]).expect("integers");
            let (lo, hi) = (lo.clamp(0, 999), hi.clamp(0, 999));
            let tight = exact(&t, [lo], [hi], |x| i64::from(*x));
            let wide = exact(&t, [lo / 32 * 32], [hi / 32 * 32 + 31], |x| i64::from(*x));
            assert!(least <= tight.0 && most >= tight.1, "sound: {lo} to {hi}");
            assert_eq!((least, most), if hi - lo < 16 { tight } else { wide }, "{lo} to {hi}");
        }
    }

    #[test]
    fn monotone_tensors_have_exact_bounds_without_blocks() {
        let mut t: Tensor1<u32> = (0..5000u32).map(|i| i / 7 * 3).collect();
        t.set_monotone();
        assert!(t.blocks().is_empty());
        assert_eq!(t.interval_of(&[33], &[4000]), Some((12, 1713)));
        assert_eq!(t.interval_of(&[-5], &[1 << 40]), Some((0, 2142)));
        let mut rows = Tensor2::new((0..40i32).map(|i| i / 10 * -100 + i % 10).collect(), [4, 10]).expect("forty");
        rows.set_monotone();
        assert_eq!(rows.interval_of(&[1, 3], &[2, 8]), Some((-197, -92)));
    }

    #[test]
    fn tables_without_integers_or_elements() {
        assert_eq!(Tensor1::from([1.0f32, 2.0]).interval_of(&[0], &[1]), None);
        assert_eq!(Tensor1::<i32>::from(vec![]).interval_of(&[0], &[7]), Some((0, 0)));
        assert_eq!(Tensor2::<u8>::unset().interval_of(&[0, 0], &[7, 7]), Some((0, 0)));
        assert_eq!(Tensor0::from(-7i32).interval_of(&[], &[]), Some((-7, -7)));
        assert_eq!(Tensor1::from([u32::MAX, 3]).interval_of(&[0], &[1]), Some((3, i64::from(u32::MAX))));
    }

    #[test]
    fn blocks_of_32_by_32_tell_block_masks_exactly() {
        // a mask of 64 x 64 blocks, as in block-sparse attention
        let on = |i: usize, j: usize| (i / 64 * 7 + j / 64 * 3).is_multiple_of(5);
        let bools = (0..256 * 256).map(|index| on(index / 256, index % 256)).collect();
        let t = Tensor2::<Bits>::from_values(bools, [256, 256]).expect("square");
        for i in 0..4 {
            for j in 0..4 {
                let want = i64::from(on(i * 64, j * 64));
                let (lo, hi) = ([i as i64 * 64, j as i64 * 64], [i as i64 * 64 + 63, j as i64 * 64 + 63]);
                assert_eq!(t.interval_of(&lo, &hi), Some((want, want)));
            }
        }
        // too many blocks: the bounds of the whole tensor
        assert_eq!(t.interval_of(&[0, 0], &[255, 255]), Some((0, 1)));
    }

    proptest! {
        /// Bounds contain every element of the box, and are exact for a few elements.
        #[test]
        fn every_answer_is_sound(
            shape in [1usize..5, 1usize..6, 1usize..80, 1usize..90],
            seed: u32,
            ends in [(-3i64..8, -3i64..8), (-3i64..8, -3i64..8), (-3i64..90, -3i64..90), (-3i64..100, -3i64..100)],
        ) {
            let values: Vec<u8> = noise(shape.iter().product(), seed).map(|x| (x >> 24) as u8).collect();
            let lo = ends.map(|(a, b)| a.min(b));
            let hi = ends.map(|(a, b)| a.max(b));
            let t = Tensor4::new(values.clone(), shape).expect("as many");
            let (least, most) = t.interval_of(&lo, &hi).expect("integers");
            let tight = exact(&t, lo, hi, |x| i64::from(*x));
            prop_assert!(least <= tight.0 && most >= tight.1);
            let len = shape[1] * shape[2] * shape[3];
            let t = Tensor3::new(values[..len].to_vec(), [shape[1], shape[2], shape[3]]).expect("as many");
            let (lo, hi): ([i64; 3], [i64; 3]) = ([lo[1], lo[2], lo[3]], [hi[1], hi[2], hi[3]]);
            let (least, most) = t.interval_of(&lo, &hi).expect("integers");
            let tight = exact(&t, lo, hi, |x| i64::from(*x));
            prop_assert!(least <= tight.0 && most >= tight.1);
            let one = t.interval_of(&lo, &lo).expect("integers");
            prop_assert_eq!(one, exact(&t, lo, lo, |x| i64::from(*x)));
        }
    }
}
