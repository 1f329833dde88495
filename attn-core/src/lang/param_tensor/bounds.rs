//! Bounds of the elements in a box of indices, for tile classes of masks that read a parameter tensor.
//!
//! Bounds are exact for boxes of up to 16 elements and, along a `#[monotone]` axis, for boxes of up to 8 rows.
//! Otherwise they come from minima and maxima of blocks, computed once: blocks of 32 elements of a row (for rank 1 also
//! of runs of 2, 4, 8 .. blocks, so that any range needs two look-ups, as in a sparse table), and of 32 x 32 elements
//! of the last two axes. At most 64 blocks are visited; beyond that, the bounds of the whole tensor are given. Kernels
//! ask in the same way: the query is a header of theirs too.

pub(crate) use device::CUDA;
pub(super) use device::{IndexBox, TensorQuery, WideMinMax, min_max_of};

/// A minimum and a maximum: the bits of an i32 or u32; bools, bits and u8 widened.
pub type MinMax = [u32; 2];

/// Element bounds of a tensor of integers or bools.
pub trait ElementBounds: std::fmt::Debug {
    /// The least and greatest element; zeros for a tensor of floats, or without elements.
    fn whole(&self) -> MinMax;
    /// The blocks in the order of `blocks`; empty for a tensor that is monotone, mutable or of floats.
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
    let across = device::blocks_of(columns as i32);
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
pub(super) struct Bounded<'a, V, W> {
    /// An element by its offset.
    pub(super) value: V,
    /// Widens a stored bound.
    pub(super) wide: fn(u32) -> i64,
    /// The bounds of the whole tensor.
    pub(super) whole: W,
    /// `None` if the tensor is monotone.
    pub(super) blocks: Option<&'a [MinMax]>,
}

impl<V, W> Bounded<'_, V, W> {
    fn widened(&self, [lo, hi]: MinMax) -> WideMinMax {
        WideMinMax { lo: (self.wide)(lo), hi: (self.wide)(hi), any: true }
    }
}

impl<V: Fn(i64) -> i64, W: Fn() -> MinMax> TensorQuery for Bounded<'_, V, W> {
    fn whole(&self) -> WideMinMax {
        self.widened((self.whole)())
    }
    fn is_monotone(&self) -> bool {
        self.blocks.is_none()
    }
    fn element(&self, at: i64) -> WideMinMax {
        let x = (self.value)(at);
        WideMinMax { lo: x, hi: x, any: true }
    }
    fn block(&self, at: i64) -> WideMinMax {
        let block = self.blocks.and_then(|blocks| blocks.get(at as usize));
        self.widened(block.copied().unwrap_or_default())
    }
}

/// The bounds of the elements in a box of indices, from minima and maxima of blocks.
#[allow(unreachable_pub)] // re-exported within the crate
#[attn_macros::device_mod(namespace = "lang::interval", include = "lang/int_fn.cuh")]
mod device {
    /// A minimum and a maximum in 64 bits, of no numbers or some.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WideMinMax {
        pub lo: i64,
        pub hi: i64,
        pub any: bool,
    }

    /// Indices along four axes, from `lo` to `hi` inclusive. A tensor of lower rank has leading axes of extent 1.
    #[derive(Clone, Copy, Debug)]
    pub struct IndexBox {
        pub lo: [i32; 4],
        pub hi: [i32; 4],
        pub extent: [i32; 4],
    }

    /// A tensor and its precomputed bounds.
    pub trait TensorQuery {
        /// The bounds of the whole tensor.
        fn whole(&self) -> WideMinMax;
        /// Whether elements never decrease along the last axis; there are no blocks then.
        fn is_monotone(&self) -> bool;
        /// An element by its offset.
        fn element(&self, at: i64) -> WideMinMax;
        /// The bounds of a block.
        fn block(&self, at: i64) -> WideMinMax;
    }

    pub fn joined(a: WideMinMax, b: WideMinMax) -> WideMinMax {
        let lo = if a.any && a.lo < b.lo { a.lo } else { b.lo };
        let hi = if a.any && a.hi > b.hi { a.hi } else { b.hi };
        WideMinMax { lo, hi, any: a.any || b.any }
    }

    fn count(lo: i32, hi: i32) -> u32 {
        (hi as u32).wrapping_sub(lo as u32).wrapping_add(1)
    }

    /// The number of blocks of 32 elements along an axis.
    pub fn blocks_of(extent: i32) -> i64 {
        i64::from(extent / 32) + i64::from(extent % 32 != 0)
    }

    /// The bounds of the elements, or of the blocks, `first` to `last` of each row.
    // Here and below, innermost loops are not unrolled: the prefill mainloop, which inlines them, would spill.
    fn of_rows<S: TensorQuery>(
        tensor: &S,
        at: IndexBox,
        width: i64,
        first: i32,
        last: i32,
        blocks: bool,
    ) -> WideMinMax {
        let mut found = WideMinMax { lo: 0, hi: 0, any: false };
        for i in at.lo[0]..at.hi[0] + 1 {
            for j in at.lo[1]..at.hi[1] + 1 {
                let matrix = i64::from(i) * i64::from(at.extent[1]) + i64::from(j);
                for k in at.lo[2]..at.hi[2] + 1 {
                    let row = matrix * i64::from(at.extent[2]) + i64::from(k);
                    #[unroll(1)]
                    for c in first..last + 1 {
                        let index = row * width + i64::from(c);
                        found = joined(found, if blocks { tensor.block(index) } else { tensor.element(index) });
                    }
                }
            }
        }
        found
    }

    /// The bounds of the first and the last element of each row.
    fn of_ends<S: TensorQuery>(tensor: &S, at: IndexBox, width: i64) -> WideMinMax {
        let mut found = WideMinMax { lo: 0, hi: 0, any: false };
        for i in at.lo[0]..at.hi[0] + 1 {
            for j in at.lo[1]..at.hi[1] + 1 {
                let matrix = i64::from(i) * i64::from(at.extent[1]) + i64::from(j);
                #[unroll(1)]
                for k in at.lo[2]..at.hi[2] + 1 {
                    let row = (matrix * i64::from(at.extent[2]) + i64::from(k)) * width;
                    let (first, last) =
                        (tensor.element(row + i64::from(at.lo[3])), tensor.element(row + i64::from(at.hi[3])));
                    found = joined(found, WideMinMax { lo: first.lo, hi: last.hi, any: true });
                }
            }
        }
        found
    }

    /// The bounds of the squares of blocks from row `top` to `bottom` and column `first` to `last` of each matrix.
    fn of_squares<S: TensorQuery>(
        tensor: &S,
        at: IndexBox,
        top: i32,
        bottom: i32,
        first: i32,
        last: i32,
    ) -> WideMinMax {
        let (across, down) = (blocks_of(at.extent[3]), blocks_of(at.extent[2]));
        let before = i64::from(at.extent[0]) * i64::from(at.extent[1]) * i64::from(at.extent[2]) * across;
        let mut found = WideMinMax { lo: 0, hi: 0, any: false };
        for i in at.lo[0]..at.hi[0] + 1 {
            for j in at.lo[1]..at.hi[1] + 1 {
                let matrix = i64::from(i) * i64::from(at.extent[1]) + i64::from(j);
                for r in top..bottom + 1 {
                    let row = before + (matrix * down + i64::from(r)) * across;
                    #[unroll(1)]
                    for c in first..last + 1 {
                        found = joined(found, tensor.block(row + i64::from(c)));
                    }
                }
            }
        }
        found
    }

    /// The bounds of the elements in a box of indices, inclusive and within the tensor. Boxes of up to 16 elements are
    /// visited element by element; else at most 64 blocks are visited, at most 8 along an axis.
    ///
    /// A tensor that may have all values of 32 bits is not visited. Such bounds stand for a `#[mutable]` tensor, whose
    /// elements may be others when a plan that was made of them runs.
    pub fn min_max_of<S: TensorQuery>(tensor: &S, rank: i32, at: IndexBox) -> WideMinMax {
        let all = tensor.whole();
        let empty = at.extent[0] == 0 || at.extent[1] == 0 || at.extent[2] == 0 || at.extent[3] == 0;
        if empty || all.hi - all.lo == 0xffff_ffff {
            return all;
        }
        let columns = i64::from(at.extent[3]);
        let (a, b) = (count(at.lo[0], at.hi[0]), count(at.lo[1], at.hi[1]));
        let (rows, across) = (count(at.lo[2], at.hi[2]), count(at.lo[3], at.hi[3]));
        if a.min(17) * b.min(17) * rows.min(17) * across.min(17) <= 16 {
            return of_rows(tensor, at, columns, at.lo[3], at.hi[3], false);
        }
        let few_rows = a.min(9) * b.min(9) * rows.min(9) <= 8;
        if tensor.is_monotone() {
            return if few_rows { of_ends(tensor, at, columns) } else { all };
        }
        let width = blocks_of(at.extent[3]);
        let (first, last) = (at.lo[3] / 32, at.hi[3] / 32);
        if rank <= 1 {
            // runs of 2^level blocks: one from the first block on, and one up to the last
            let level = 31 - ((last - first + 1) as u32).leading_zeros();
            let run = i64::from(level) * width;
            let from = run + i64::from(last) + 1 - (1i64 << level);
            return joined(tensor.block(run + i64::from(first)), tensor.block(from));
        }
        if last - first >= 8 {
            return all;
        }
        if few_rows {
            return of_rows(tensor, at, width, first, last, true);
        }
        let (top, bottom) = (at.lo[2] / 32, at.hi[2] / 32);
        if a.min(9) * b.min(9) > 8 || bottom - top >= 8 {
            return all;
        }
        if a * b * ((bottom - top + 1) as u32) * ((last - first + 1) as u32) > 64 {
            return all;
        }
        of_squares(tensor, at, top, bottom, first, last)
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
