//! The memory layout of a run's tensors: separate, as the reference has them, or interleaved in one allocation
//! ([`Pool`]).

use super::host::Host;
use super::inputs::{Inputs, TAIL};
use super::{Order, Pool};

/// Padding elements behind a row of a head, and behind a page or token.
const PAD: usize = 16;

/// Tensors with the same strides, in one allocation or in several.
pub(super) struct Interleaved<T = Host> {
    /// The elements, with NaN in padding.
    pub(super) memory: Vec<T>,
    /// For each tensor, its allocation and its first element there.
    pub(super) begins: Vec<(usize, usize)>,
    /// Strides in elements.
    pub(super) strides: Vec<i64>,
}

/// Keys and values in the layout of the pool.
pub(super) fn keys_and_values(inputs: &Inputs, order: Order, pool: Pool) -> Interleaved {
    let shape = &inputs.kv_shape;
    let (heads, dim) = (shape.len() - 2, shape.len() - 1);
    let row = if pool == Pool::Padded { shape[dim] + PAD } else { shape[dim] };
    // dimensions in the order of memory, outermost first
    let mut dims_order: Vec<usize> = (0..shape.len()).collect();
    if order == Order::Hnd {
        dims_order.swap(heads - 1, heads);
    }
    let mut strides = vec![1; shape.len()];
    let mut inner = row;
    for &dim in dims_order[1..dim].iter().rev() {
        strides[dim] = inner as i64;
        inner *= shape[dim];
    }
    // the outermost stride, and the first element of each tensor
    let (outer, begins) = match pool {
        Pool::Split => {
            let memory = vec![inputs.k.clone(), inputs.v.clone()];
            return Interleaved { memory, begins: vec![(0, 0), (1, 0)], strides: inputs.kv_strides.clone() };
        }
        Pool::Padded => (inner + PAD, vec![(0, 0), (1, 0)]),
        Pool::Fused => (2 * inner, vec![(0, 0), (0, inner)]),
        Pool::Packed => {
            let queries = inputs.qo_shape()[1] * row;
            (queries + 2 * inner, vec![(0, queries), (0, queries + inner)])
        }
    };
    strides[dims_order[0]] = outer as i64;
    let memories = begins.last().map_or(0, |last| last.0 + 1);
    let mut memory = vec![Host::nan(inputs.k.dtype(), outer * shape[dims_order[0]] + TAIL); memories];
    for (from, &(to, begin)) in [&inputs.k, &inputs.v].into_iter().zip(&begins) {
        copy(from, &inputs.kv_strides, &mut memory[to], &strides, shape, begin);
    }
    Interleaved { memory, begins, strides }
}

/// Queries in the layout of the pool.
pub(super) fn queries(inputs: &Inputs, pool: Pool) -> Interleaved {
    let shape = inputs.qo_shape();
    let [_, heads, dim] = shape;
    let contiguous = vec![(heads * dim) as i64, dim as i64, 1];
    if pool != Pool::Packed {
        return Interleaved { memory: vec![inputs.stored_q().clone()], begins: vec![(0, 0)], strides: contiguous };
    }
    let token = (heads + 2 * inputs.kv_shape[inputs.kv_shape.len() - 2]) * dim;
    let strides = vec![token as i64, dim as i64, 1];
    let mut memory = Host::nan(inputs.stored_q().dtype(), shape[0] * token + TAIL);
    copy(inputs.stored_q(), &contiguous, &mut memory, &strides, &shape, 0);
    Interleaved { memory: vec![memory], begins: vec![(0, 0)], strides }
}

/// Copies a tensor, row by row.
fn copy(from: &Host, from_strides: &[i64], to: &mut Host, to_strides: &[i64], shape: &[usize], begin: usize) {
    let (outer, row) = (&shape[..shape.len() - 1], shape[shape.len() - 1]);
    let mut at = vec![0usize; outer.len()];
    let offset = |at: &[usize], strides: &[i64]| at.iter().zip(strides).map(|(&at, &n)| at * n as usize).sum::<usize>();
    for _ in 0..outer.iter().product() {
        to.copy_row(begin + offset(&at, to_strides), from, offset(&at, from_strides), row);
        for (digit, &extent) in at.iter_mut().zip(outer).rev() {
            *digit += 1;
            if *digit < extent {
                break;
            }
            *digit = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Case, LayoutKind, Lens};

    /// Checks that every row is where the strides say and everything else is NaN.
    fn check(layout: LayoutKind, order: Order, pool: Pool) {
        let mut case = Case { page_size: 5, kv_layout: layout, page_order: order, pool, ..Case::new("full") };
        case.kv_lens = Lens::List(vec![7, 5]);
        let inputs = Inputs::new(&case, false).expect("sound");
        let interleaved = keys_and_values(&inputs, order, pool);
        let (heads, dim) = (2i64, 64usize);
        let outer = &inputs.kv_shape[..inputs.kv_shape.len() - 2];
        let tokens: usize = outer.iter().product();
        let mut finite = 0;
        for (tensor, host) in [&inputs.k, &inputs.v].into_iter().enumerate() {
            let (memory, begin) = interleaved.begins[tensor];
            let (got, want) = (interleaved.memory[memory].to_f32(), host.to_f32());
            for token in 0..tokens {
                let at = if outer.len() == 2 { vec![token / outer[1], token % outer[1]] } else { vec![token] };
                for head in 0..heads {
                    let offset = |strides: &[i64]| {
                        let token: i64 = at.iter().zip(strides).map(|(&at, n)| at as i64 * n).sum();
                        (token + head * strides[at.len()]) as usize
                    };
                    let (from, to) = (offset(&inputs.kv_strides), begin + offset(&interleaved.strides));
                    let same = got[to..to + dim].iter().zip(&want[from..from + dim]);
                    assert!(same.clone().all(|(a, b)| a.to_bits() == b.to_bits()), "{layout:?} {order:?} {pool:?}");
                    finite += same.filter(|(a, _)| a.is_finite()).count();
                }
            }
        }
        let there: usize = interleaved.memory.iter().map(|m| m.to_f32().iter().filter(|x| x.is_finite()).count()).sum();
        assert_eq!((there, finite), (2 * 12 * 2 * 64, finite), "{layout:?} {order:?} {pool:?}");
        assert_eq!(there, finite);
    }

    #[test]
    fn rows_are_where_strides_say_and_nothing_else_is() {
        for order in [Order::Nhd, Order::Hnd] {
            for pool in [Pool::Split, Pool::Fused, Pool::Padded] {
                check(LayoutKind::Ragged, order, pool);
                check(LayoutKind::Paged, order, pool);
            }
        }
        check(LayoutKind::Ragged, Order::Nhd, Pool::Packed);
        let case = Case { pool: Pool::Packed, ..Case::new("full") };
        let inputs = Inputs::new(&case, false).expect("sound");
        let interleaved = queries(&inputs, Pool::Packed);
        assert_eq!(interleaved.strides, [(4 + 2 * 2) * 64, 64, 1]);
        let (q, want) = (interleaved.memory[0].to_f32(), inputs.q.to_f32());
        assert_eq!(q[512 + 64..][..64], want[256 + 64..][..64]);
        assert!(q[256..512].iter().all(|x| x.is_nan()));
    }
}
