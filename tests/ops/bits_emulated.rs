//! The kernels that pack bools, emulated on the host with threads in random order, equal the CPU.

use attn_core::ops::{Array, ArrayMut, BitOrder, bits};
use attn_kernels::launch::{BitsParams, OP_THREADS};
use attn_kernels::splice::Op;
use attn_tests::{simt::HostOp, synthetic::values};

/// Bools of which about a third are set, each to another number.
fn bools(count: usize) -> Vec<u8> {
    values(count, 9).into_iter().enumerate().map(|(i, x)| if x > 0.7 { i as u8 | 1 } else { 0 }).collect()
}

fn params(bools: &[u8], order: BitOrder, out: &mut [u8]) -> BitsParams {
    BitsParams {
        bools: bools.as_ptr() as u64,
        out: out.as_mut_ptr() as u64,
        count: bools.len() as i64,
        capacity: out.len() as i64,
        big_endian: i32::from(order == BitOrder::Big),
        ..BitsParams::default()
    }
}

/// Byte counts of output beside what is needed, which keep their content.
const REST: usize = 3;

#[test]
fn bools_of_every_length_and_alignment() {
    let folder = tempfile::tempdir().expect("a folder");
    let op = HostOp::compile(Op::Bits, "BitsParams", folder.path());
    let all = bools(6000);
    for order in [BitOrder::Little, BitOrder::Big] {
        for (count, first) in [(0, 0), (1, 0), (8, 3), (10, 1), (99, 0), (128, 0), (999, 5), (5000, 0), (5003, 16)] {
            let bools = &all[first..first + count];
            let [mut want, mut got] = [(); 2].map(|()| vec![7u8; count.div_ceil(8) + REST]);
            bits::packbits(&Array::host(bools), order, &mut ArrayMut::host(&mut want)).expect("sound");
            let params = params(bools, order, &mut got);
            let ctas = (count as u32).div_ceil(16 * OP_THREADS);
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { op.run(Op::Bits.kernels()[0], &params, None, [ctas, 1], 0) };
            assert_eq!(got, want, "{count} bools from {first}, {order:?}");
        }
    }
}

#[test]
fn segments_of_every_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let op = HostOp::compile(Op::Bits, "BitsParams", folder.path());
    for order in [BitOrder::Little, BitOrder::Big] {
        for lens in [&[][..], &[0], &[5, 0, 16, 3, 1], &[777, 999, 128, 5000, 0, 9], &[3; 300]] {
            let ends = lens.iter().scan(0, |end, len| {
                *end += len;
                Some(*end)
            });
            let indptr: Vec<i32> = [0].into_iter().chain(ends).collect();
            let bools = bools(indptr[lens.len()] as usize);
            let [mut want, mut got] = [(); 2].map(|()| vec![7u8; bools.len() / 8 + lens.len() + REST]);
            let [mut want_indptr, mut got_indptr] = [(); 2].map(|()| vec![-1; indptr.len()]);
            let (out, out_indptr) = (&mut ArrayMut::host(&mut want), &mut ArrayMut::host(&mut want_indptr));
            bits::segments(&Array::host(&bools), &Array::host(&indptr), order, out, out_indptr).expect("sound");
            let params = BitsParams {
                indptr: indptr.as_ptr() as u64,
                out_indptr: got_indptr.as_mut_ptr() as u64,
                segments: lens.len() as i32,
                ..params(&bools, order, &mut got)
            };
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { op.run(Op::Bits.kernels()[1], &params, None, [2, lens.len().max(1) as u32], 0) };
            assert_eq!((got, got_indptr), (want, want_indptr), "{lens:?}, {order:?}");
        }
    }
}
