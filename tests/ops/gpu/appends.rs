//! Appends to caches and gathers from them on a GPU, against the CPU.

use attn::ops::*;
use attn::{Dtype, Heads, KvScales, Scale, Variant};
use attn_tests::{synthetic::values, tolerance::ulp};

use crate::gpu::pool::{SLOTS, conversions, page_rows, pools};
use crate::gpu::scenario::{agree, gpu};

#[test]
fn appends_by_slots() {
    let Some(gpu) = gpu() else { return };
    for (from, to) in conversions() {
        for pool in [128, 80, 48, 7].into_iter().flat_map(pools) {
            for scaled in [false, true] {
                if scaled && from.is_fp8() {
                    continue;
                }
                let name = format!("{from} to {to}, {} of {}, scaled: {scaled}", pool.order, pool.dim);
                agree(&gpu, &name, 0.0, |at| {
                    let shape = [SLOTS.len(), pool.heads, pool.dim];
                    let count = shape.iter().product();
                    // with values past the largest fp8 value, and NaN
                    let large = |seed| {
                        values(count, seed)
                            .into_iter()
                            .enumerate()
                            .map(|(i, x)| if i % 97 == 5 { f32::NAN } else { x * x * x * 100.0 })
                    };
                    let [k, v] = [1, 2].map(|seed| at.upload(from, &large(seed).collect::<Vec<_>>()));
                    let mut cache = at.poisoned(to, pool.count());
                    let heads = at.upload(Dtype::F32, &[0.3, 1.0, 77.0]);
                    let slots = at.numbers(&SLOTS);
                    at.run(|stream| {
                        let rows = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
                        let scales = match scaled {
                            true => {
                                KvScales { k: Scale { all: 1.7, heads: Some(heads.tensor(&[3])?) }, v: Scale::of(0.01) }
                            }
                            false => KvScales::default(),
                        };
                        let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: None };
                        append_paged(
                            stream,
                            &rows,
                            &mut pool.write(&mut cache)?,
                            &Append { scales, ..Append::at(slot_mapping) },
                            None,
                        )
                    });
                    at.read(&cache)
                });
            }
        }
    }
}

#[test]
fn appends_and_gathers_by_positions() {
    let Some(gpu) = gpu() else { return };
    let lens = [11usize, 0, 5];
    let tokens = 16;
    for (from, to) in conversions() {
        for (pool, padded) in [128, 80, 7].into_iter().flat_map(pools).zip([false, true].into_iter().cycle()) {
            let name = format!("{from} by way of {to}, {} of {}", pool.order, pool.dim);
            agree(&gpu, &name, 0.0, |at| {
                let shape = [tokens + 2, pool.heads, pool.dim];
                let count: usize = shape.iter().product();
                let [k, v] = [1, 2].map(|seed| at.upload(from, &values(count, seed)));
                let mut cache = at.poisoned(to, pool.count());
                let [mut k_back, mut v_back] = [from; 2].map(|dtype| at.poisoned(dtype, count));
                let of = |r: usize| std::iter::repeat_n(r as i32, lens[r]).chain((r == 1).then_some(-1));
                let requests: Vec<i32> = (0..3).flat_map(of).chain([2]).collect();
                let positions: Vec<i32> = (0..11).chain([3]).chain(0..5).chain([-1]).collect();
                let (requests, positions) = (at.numbers(&requests), at.numbers(&positions));
                let indptr = at.numbers(&[0, 3, 3, 4]);
                let pages = at.numbers(if padded { &[8, 2, 5, -1, -1, -1, 0, -1, 77][..] } else { &[8, 2, 5, 0] });
                let ends = at.numbers(&[0, 11, 11, 16]);
                at.run(|stream| {
                    let rows = page_rows(padded, &indptr, &pages);
                    let slot_mapping =
                        SlotMapping::Positions { requests: requests.array(), positions: positions.array(), rows };
                    let new = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
                    append_paged(stream, &new, &mut pool.write(&mut cache)?, &Append::at(slot_mapping), None)?;
                    let mut back = KvMut::new(k_back.tensor_mut(&shape)?, v_back.tensor_mut(&shape)?);
                    let scales = if from.is_fp8() { KvScales::default() } else { KvScales::of(0.37, 2.0) };
                    let gathering = Gather { scales, ..Gather::new(ends.array(), rows) };
                    gather(stream, &pool.read(&cache)?, &mut back, &gathering)
                });
                [at.read(&cache), at.read(&k_back), at.read(&v_back)].concat()
            });
        }
    }
}

#[test]
fn a_latent_cache() {
    let Some(gpu) = gpu() else { return };
    agree(&gpu, "latent", 0.0, |at| {
        let rows = at.upload(Dtype::Bf16, &values(SLOTS.len() * 576, 1));
        let (mut cache, slots) = (at.poisoned(Dtype::E4m3, 45 * 576), at.numbers(&SLOTS));
        at.run(|stream| {
            let new = KvRef::latent(rows.tensor(&[SLOTS.len(), 1, 576])?);
            let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: None };
            let mut pool = KvMut::latent(cache.tensor_mut(&[9, 5, 1, 576])?);
            append_paged(stream, &new, &mut pool, &Append::at(slot_mapping), None)
        });
        at.read(&cache)
    });
}

/// A latent cache as engines pass it: each row is all keys or all values. `guard` shows writes to the other.
#[test]
fn rows_without_keys_or_values_move_nothing() {
    let Some(gpu) = gpu() else { return };
    for (dim, keys, hooks) in [(576, true, false), (7, true, false), (576, false, false), (64, true, true)] {
        agree(&gpu, &format!("{dim} alone, keys: {keys}, hooks: {hooks}"), 0.0, |at| {
            let (tokens, k_dim, v_dim) = if keys { (SLOTS.len(), dim, 0) } else { (SLOTS.len(), 0, dim) };
            let rows = at.upload(Dtype::Bf16, &values(tokens * dim, 1));
            let (mut cache, mut guard) = (at.poisoned(Dtype::Bf16, 45 * dim), at.poisoned(Dtype::Bf16, 45 * dim));
            let [mut back, mut back_guard] = [tokens * dim; 2].map(|count| at.poisoned(Dtype::Bf16, count));
            let (slots, ends, pages) = (at.numbers(&SLOTS), at.numbers(&[0, 9]), at.numbers(&[8, 0]));
            let positions = at.numbers(&[5; SLOTS.len()]);
            // value_norm has no key transform, and the values here have no elements to transform
            let variant = Variant::parse("value_norm").expect("stock");
            let heads = Heads { qo: 1, kv: 1, head_dim: dim as u32 };
            let through = hooks.then(|| KvTransform::new(&at.engine, &variant, heads).expect("known"));
            if let Some(through) = &through {
                through.prepare(Dtype::Bf16, Dtype::Bf16).expect("compiles");
            }
            at.run(|stream| {
                let new = KvRef::new(rows.tensor(&[tokens, 1, k_dim])?, rows.tensor(&[tokens, 1, v_dim])?);
                let (k, v) = if keys { (&mut cache, &mut guard) } else { (&mut guard, &mut cache) };
                let mut pools = KvMut::new(k.tensor_mut(&[9, 5, 1, k_dim])?, v.tensor_mut(&[9, 5, 1, v_dim])?);
                let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: Some(positions.array()) };
                append_paged(stream, &new, &mut pools, &Append::at(slot_mapping), through.as_ref())?;
                copy_pages(stream, &mut pools, &Array::host(&[[0, 3], [8, 5]]), None)?;
                let (k, v) = if keys { (&mut back, &mut back_guard) } else { (&mut back_guard, &mut back) };
                let mut packed = KvMut::new(k.tensor_mut(&[tokens, 1, k_dim])?, v.tensor_mut(&[tokens, 1, v_dim])?);
                let table = PageTableRows::Padded { pages: pages.array(), max_pages: 2 };
                gather(stream, &pools.as_ref(), &mut packed, &Gather::new(ends.array(), table))
            });
            [&cache, &guard, &back, &back_guard].map(|buffer| at.read(buffer)).concat()
        });
    }
    for keys in [true, false] {
        agree(&gpu, &format!("x-packed, keys alone: {keys}"), 0.0, |at| {
            let packed = at.upload(Dtype::F16, &values(5 * 3 * 16 * 4, 1));
            let [mut cache, mut guard] = [5 * 3 * 16 * 4; 2].map(|count| at.poisoned(Dtype::F16, count));
            let (k_dim, v_dim) = if keys { (16, 0) } else { (0, 16) };
            at.run(|stream| {
                let (k, v) = (packed.tensor(&[5, 3, k_dim / 8, 4, 8])?, packed.tensor(&[5, 3, v_dim, 4])?);
                let (k_pool, v_pool) = if keys { (&mut cache, &mut guard) } else { (&mut guard, &mut cache) };
                let (k_shape, v_shape) = ([5, 4, 3, k_dim], [5, 4, 3, v_dim]);
                let mut pools = KvMut::new(k_pool.tensor_mut(&k_shape)?, v_pool.tensor_mut(&v_shape)?);
                x_packed_to_pages(stream, &k, &v, &mut pools)
            });
            [at.read(&cache), at.read(&guard)].concat()
        });
    }
}

#[test]
fn appends_through_transforms() {
    let Some(gpu) = gpu() else { return };
    let variants = [
        "rope",
        "causal + qk_norm + rope(interleaved=true)",
        "rope(rotary_dim=32) + value_norm",
        "per_head(heads=[0, 0, 1, 1, 0, 0], rope, full)",
    ];
    for (variant, (from, to)) in variants.into_iter().flat_map(|v| {
        [(Dtype::Bf16, Dtype::Bf16), (Dtype::F16, Dtype::E4m3), (Dtype::F32, Dtype::F32)].map(|types| (v, types))
    }) {
        for pool in [128, 96, 34].into_iter().flat_map(pools) {
            let heads = Heads { qo: 6, kv: 3, head_dim: pool.dim as u32 };
            let name = format!("{variant}: {from} to {to}, {} of {}", pool.order, pool.dim);
            agree(&gpu, &name, 1.01 * ulp(to), |at| {
                let shape = [SLOTS.len(), pool.heads, pool.dim];
                let [k, v] = [1, 2].map(|seed| at.upload(from, &values(shape.iter().product(), seed)));
                let mut cache = at.poisoned(to, pool.count());
                let variant = Variant::parse(variant).expect("stock");
                let through = KvTransform::new(&at.engine, &variant, heads).expect("known");
                through.prepare(from, to).expect("compiles");
                let positions = at.numbers(&(0..SLOTS.len() as i32).map(|i| i * 311).collect::<Vec<_>>());
                let slots = at.numbers(&SLOTS);
                at.run(|stream| {
                    let rows = KvRef::new(k.tensor(&shape)?, v.tensor(&shape)?);
                    let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: Some(positions.array()) };
                    append_paged(stream, &rows, &mut pool.write(&mut cache)?, &Append::at(slot_mapping), Some(&through))
                });
                at.read(&cache)
            });
        }
    }
}
