//! Merges of partial states.

use attn::ops::*;
use attn::{Dtype, Out};
use attn_tests::{synthetic::values, tolerance::ulp};

use crate::gpu::FLOATS;
use crate::gpu::scenario::{agree, gpu};

/// Log-sum-exps of which every fourth has no keys, and outputs that are NaN there.
fn states(rows: usize, dim: usize, seed: u32) -> (Vec<f32>, Vec<f32>) {
    let (mut o, mut lse) = (values(rows * dim, seed), values(rows, seed + 1));
    lse.iter_mut().for_each(|x| *x *= 20.0);
    for row in (seed as usize % 3..rows).step_by(4) {
        lse[row] = f32::NEG_INFINITY;
        o[row * dim..][..dim].fill(f32::NAN);
    }
    (o, lse)
}

#[test]
fn merges() {
    let Some(gpu) = gpu() else { return };
    for (dtype, (tokens, heads, dim)) in FLOATS.into_iter().flat_map(|dtype| {
        [(37, 3, 128), (5, 2, 80), (3, 1, 576), (4, 3, 7), (1, 1, 4100), (0, 2, 64), (600, 2, 0)]
            .map(|size| (dtype, size))
    }) {
        let (rows, shape) = (tokens * heads, [tokens, heads, dim]);
        let name = format!("{dtype} {shape:?}");
        agree(&gpu, &format!("merge_state of {name}"), ulp(dtype), |at| {
            let ((ao, al), (bo, bl)) = (states(rows, dim, 1), states(rows, dim, 2));
            let (ao, bo) = (at.upload(dtype, &ao), at.upload(dtype, &bo));
            let (al, bl) = (at.upload(Dtype::F32, &al), at.upload(Dtype::F32, &bl));
            let (mut o, mut lse) = (at.poisoned(dtype, rows * dim), at.poisoned(Dtype::F32, rows));
            at.run(|stream| {
                let a = StateRef { o: ao.tensor(&shape)?, lse: al.tensor(&shape[..2])? };
                let b = StateRef { o: bo.tensor(&shape)?, lse: bl.tensor(&shape[..2])? };
                merge_state(stream, &a, &b, Out::with_lse(o.tensor_mut(&shape)?, lse.tensor_mut(&shape[..2])?))
            });
            [at.read(&o), at.read(&lse)].concat()
        });
        agree(&gpu, &format!("merge_state_in_place of {name}"), ulp(dtype), |at| {
            let ((ao, al), (bo, bl)) = (states(rows, dim, 3), states(rows, dim, 4));
            let (mut ao, bo) = (at.upload(dtype, &ao), at.upload(dtype, &bo));
            let (mut al, bl) = (at.upload(Dtype::F32, &al), at.upload(Dtype::F32, &bl));
            let mask = at.numbers(&(0..tokens).map(|token| (token % 3) as u8).collect::<Vec<_>>());
            at.run(|stream| {
                let mut a = StateMut { o: ao.tensor_mut(&shape)?, lse: al.tensor_mut(&shape[..2])? };
                let b = StateRef { o: bo.tensor(&shape)?, lse: bl.tensor(&shape[..2])? };
                merge_state_in_place(stream, &mut a, &b, Some(&mask.array()))
            });
            [at.read(&ao), at.read(&al)].concat()
        });
        for count in [0, 1, 2, 5] {
            agree(&gpu, &format!("merge_states of {count} of {name}"), ulp(dtype), |at| {
                let (o, lse) = states(rows * count, dim, 5);
                let (o, lse) = (at.upload(dtype, &o), at.upload(Dtype::F32, &lse));
                let (mut out, mut out_lse) = (at.poisoned(dtype, rows * dim), at.poisoned(Dtype::F32, rows));
                at.run(|stream| {
                    let states = StateRef {
                        o: o.tensor(&[tokens, count, heads, dim])?,
                        lse: lse.tensor(&[tokens, count, heads])?,
                    };
                    merge_states(
                        stream,
                        &states,
                        Out::with_lse(out.tensor_mut(&shape)?, out_lse.tensor_mut(&shape[..2])?),
                    )
                });
                [at.read(&out), at.read(&out_lse)].concat()
            });
        }
        agree(&gpu, &format!("merge_sums of {name}, heads outside"), ulp(dtype), |at| {
            let [a, b] = [1, 2].map(|seed| at.upload(dtype, &values(rows * dim, seed)));
            let mut o = at.poisoned(dtype, rows * dim);
            let turned = [heads, tokens, dim];
            at.run(|stream| {
                let o = o.tensor_mut(&turned)?.permuted(&[1, 0, 2])?;
                merge_sums(stream, &a.tensor(&shape)?, &b.tensor(&turned)?.permuted(&[1, 0, 2])?, o)
            });
            at.read(&o)
        });
    }
    agree(&gpu, "log-sum-exps in base 2", 0.0, |at| {
        let mut lse = at.upload(Dtype::F32, &states(1000, 1, 7).1);
        at.run(|stream| lse_to_base_2(stream, lse.tensor_mut(&[100, 10])?.permuted(&[1, 0])?));
        at.read(&lse)
    });
}
