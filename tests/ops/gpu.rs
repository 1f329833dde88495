//! Every op on a GPU against the CPU, launched, and captured and replayed. Results are equal, except for merges and
//! transforms, which are within a tolerance. Skipped without a GPU.

mod appends;
mod merges;
mod moves;
mod pool;
mod queries;
mod refused;
mod scenario;

use attn::{Dtype, ops::*};
use attn_tests::synthetic::values;

use scenario::{agree, gpu};

const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

#[test]
fn bits() {
    let Some(gpu) = gpu() else { return };
    let bools = |count: usize| values(count, 9).into_iter().map(|x| if x > 0.3 { 200 } else { 0 }).collect::<Vec<u8>>();
    let floats = |bytes: Vec<u8>| bytes.into_iter().map(f32::from).collect::<Vec<_>>();
    for order in [BitOrder::Little, BitOrder::Big] {
        for count in [0, 1, 10, 99, 128, 999, 5000, 131_072, 999_999] {
            agree(&gpu, &format!("packbits of {count}"), 0.0, |at| {
                let bools = at.numbers(&bools(count));
                let mut out = at.numbers(&vec![7u8; count / 8 + 3]);
                at.run(|stream| packbits(stream, &bools.array(), order, &mut out.array_mut()));
                floats(out.to_vec().expect("read"))
            });
        }
        for lens in [&[][..], &[0], &[5, 0, 16, 3, 1], &[777, 999, 128, 100_000, 0, 9], &[3; 700]] {
            agree(&gpu, &format!("segments of {lens:?}"), 0.0, |at| {
                let mut ends = vec![0];
                lens.iter().for_each(|len| ends.push(ends[ends.len() - 1] + len));
                let total = ends[lens.len()] as usize;
                let (bools, indptr) = (at.numbers(&bools(total)), at.numbers(&ends));
                let mut out = at.numbers(&vec![7u8; total / 8 + lens.len() + 1]);
                let mut bytes = at.numbers(&vec![-1i32; ends.len()]);
                at.run(|stream| {
                    let (out, bytes) = (&mut out.array_mut(), &mut bytes.array_mut());
                    segment_packbits(stream, &bools.array(), &indptr.array(), order, out, bytes)
                });
                let bytes = bytes.to_vec().expect("read").into_iter().map(|x| x as f32);
                floats(out.to_vec().expect("read")).into_iter().chain(bytes).collect()
            });
        }
    }
}
