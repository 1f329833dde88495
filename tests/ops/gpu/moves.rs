//! Copies and swaps of pages, and caches in other layouts.

use attn::ops::*;
use attn::{Dtype, PageOrder, TensorMut};
use attn_tests::synthetic::values;

use crate::gpu::pool::{Pool, pools};
use crate::gpu::scenario::{agree, gpu};

#[test]
fn copies_and_swaps() {
    let Some(gpu) = gpu() else { return };
    for dtype in [Dtype::E4m3, Dtype::Bf16, Dtype::F32] {
        for dim in [64, 7] {
            let [nhd, hnd] = pools(dim);
            let name = |what: &str| format!("{what} of {dtype}, {dim}");
            let pairs = [[0, 3], [5, 1], [8, 7]];
            for on_device in [false, true] {
                agree(&gpu, &name("copies within"), 0.0, |at| {
                    let mut cache = at.upload(dtype, &values(nhd.count(), 1));
                    let list = at.numbers(&pairs);
                    at.run(|stream| {
                        let list = if on_device { list.array() } else { Array::host(&pairs) };
                        copy_pages(stream, &mut nhd.write(&mut cache)?, &list, None)
                    });
                    at.read(&cache)
                });
            }
            for (from, to) in [(&nhd, &hnd), (&hnd, &nhd), (&hnd, &hnd)] {
                agree(&gpu, &name("copies between"), 0.0, |at| {
                    let cache = at.upload(dtype, &values(from.count(), 1));
                    let mut other = at.poisoned(dtype, to.count());
                    at.run(|stream| {
                        copy_pages_between(
                            stream,
                            &from.read(&cache)?,
                            &mut to.write(&mut other)?,
                            &Array::host(&pairs),
                            None,
                        )
                    });
                    at.read(&other)
                });
            }
            agree(&gpu, &name("swaps"), 0.0, |at| {
                let cache = at.upload(dtype, &values(nhd.count(), 1));
                let mut back = at.poisoned(dtype, nhd.count());
                let mut host = HostBuffer::new(&at.engine, dtype, hnd.count()).expect("memory");
                at.run(|stream| {
                    let to = host.tensor_mut(&hnd.shape())?;
                    swap_out(stream, &nhd.read(&cache)?, &mut KvMut::fused(to, hnd.order)?, &Array::host(&pairs))?;
                    let from = KvRef::fused(host.tensor(&hnd.shape())?, hnd.order)?;
                    swap_in(stream, &from, &mut nhd.write(&mut back)?, &Array::host(&[[3, 0], [1, 4], [7, 8]]))
                });
                at.read(&back)
            });
        }
    }
    // more pairs than one launch passes
    agree(&gpu, "a long list", 0.0, |at| {
        let cache = at.upload(Dtype::F16, &values(1000 * 24, 1));
        let mut other = at.poisoned(Dtype::F16, 1000 * 24);
        let pairs: Vec<[i32; 2]> = (0..1000).map(|i| [i, (i * 7 + 3) % 1000]).collect();
        at.run(|stream| {
            let from = KvRef::latent(cache.tensor(&[1000, 3, 1, 8])?);
            let mut to = KvMut::latent(other.tensor_mut(&[1000, 3, 1, 8])?);
            copy_pages_between(stream, &from, &mut to, &Array::host(&pairs), None)
        });
        at.read(&other)
    });
}

#[test]
fn x_packed_caches() {
    let Some(gpu) = gpu() else { return };
    for (dtype, dim, slots, x) in [
        (Dtype::Bf16, 128, 16, 8),
        (Dtype::F16, 80, 8, 8),
        (Dtype::E4m3, 128, 32, 16),
        (Dtype::F32, 64, 5, 4),
        (Dtype::F16, 6, 3, 2),
        (Dtype::Bf16, 256, 300, 8),
    ] {
        for order in [PageOrder::Nhd, PageOrder::Hnd] {
            let pool = Pool { order, pages: 5, slots, heads: 3, dim };
            agree(&gpu, &format!("x-packed {dtype} {dim}, {slots} slots, {order}"), 0.0, |at| {
                let half = pool.count() / 2;
                let [k, v] = [1, 2].map(|seed| at.upload(dtype, &values(half, seed)));
                let mut cache = at.poisoned(dtype, pool.count());
                let [mut k_back, mut v_back] = [half; 2].map(|count| at.poisoned(dtype, count));
                let (k_shape, v_shape) = ([5, 3, dim / x, slots, x], [5, 3, dim, slots]);
                at.run(|stream| {
                    x_packed_to_pages(
                        stream,
                        &k.tensor(&k_shape)?,
                        &v.tensor(&v_shape)?,
                        &mut pool.write(&mut cache)?,
                    )?;
                    let (k, v): (TensorMut<'_>, TensorMut<'_>) =
                        (k_back.tensor_mut(&k_shape)?, v_back.tensor_mut(&v_shape)?);
                    pages_to_x_packed(stream, &pool.read(&cache)?, k, v)
                });
                [at.read(&cache), at.read(&k_back), at.read(&v_back)].concat()
            });
        }
    }
}
