//! Every op on a GPU against the CPU, launched, and captured and replayed. Results are equal, except for merges and
//! transforms, which are within a tolerance. Skipped without a GPU.

extern crate facade as attn;

use half::{bf16, f16};

use attn::ops::*;
use attn::{
    DeviceBuffer, Dtype, Engine, Error, Graph, Heads, KvScales, Out, PageOrder, Scale, Stream, TensorMut, TensorRef,
    Variant,
    lang::{F8E4M3, F8E5M2},
    tensor::Element,
};
use attn_tests::{
    synthetic::values,
    tolerance::{self, ulp},
};

/// How an op is launched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Launched,
    Captured,
}

/// The engine and stream of a scenario.
struct Scenario {
    engine: Engine,
    stream: Stream,
    mode: Mode,
}

impl Scenario {
    fn new(engine: &Engine, mode: Mode) -> Self {
        Scenario { engine: engine.clone(), stream: engine.stream().expect("a stream"), mode }
    }

    /// Runs an op once, and waits for it.
    fn run(&self, mut op: impl FnMut(&Stream) -> Result<(), Error>) {
        if self.mode == Mode::Captured && !self.engine.is_cpu() {
            let mut graph = Graph::capture(&self.stream, || op(&self.stream)).expect("captured");
            // SAFETY: everything that it reads and writes lives until the stream is synchronised.
            unsafe { graph.replay(&self.stream, || Ok(())) }.expect("launched");
        } else {
            op(&self.stream).expect("sound");
        }
        self.stream.synchronize().expect("it ran");
    }

    fn upload(&self, dtype: Dtype, values: &[f32]) -> DeviceBuffer {
        fn of<T: Element>(engine: &Engine, values: &[f32]) -> DeviceBuffer {
            let values: Vec<T> = values.iter().map(|&x| T::from_f32(x)).collect();
            engine.upload(&values).expect("memory")
        }
        match dtype {
            Dtype::F16 => of::<f16>(&self.engine, values),
            Dtype::Bf16 => of::<bf16>(&self.engine, values),
            Dtype::F32 => of::<f32>(&self.engine, values),
            Dtype::E4m3 => of::<F8E4M3>(&self.engine, values),
            Dtype::E5m2 => of::<F8E5M2>(&self.engine, values),
            Dtype::U8 => {
                self.engine.upload_bytes(&values.iter().map(|&x| x as u8).collect::<Vec<_>>()).expect("memory")
            }
        }
    }

    fn poisoned(&self, dtype: Dtype, count: usize) -> DeviceBuffer {
        self.upload(dtype, &vec![f32::NAN; count])
    }

    fn numbers<T: Number>(&self, values: &[T]) -> Numbers<T> {
        Numbers::upload(&self.engine, values).expect("memory")
    }

    fn read(&self, buffer: &DeviceBuffer) -> Vec<f32> {
        self.engine.download_f32(buffer).expect("read")
    }
}

/// A GPU, or `None` with a message.
fn gpu() -> Option<Engine> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    attn_tests::gpu::gpu()
}

/// Checks that a scenario gives the same on the GPU, launched and replayed, as on the CPU, within a tolerance relative
/// to the value.
fn agree(gpu: &Engine, what: &str, tolerance: f32, scenario: impl Fn(&Scenario) -> Vec<f32>) {
    let want = scenario(&Scenario::new(&Engine::cpu(), Mode::Launched));
    for mode in [Mode::Launched, Mode::Captured] {
        let got = scenario(&Scenario::new(gpu, mode));
        tolerance::agree(&format!("{what}, {mode:?}"), &got, &want, tolerance);
    }
}

const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

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

/// A fused pool of pages in an order.
struct Pool {
    order: PageOrder,
    pages: usize,
    slots: usize,
    heads: usize,
    dim: usize,
}

impl Pool {
    fn shape(&self) -> [usize; 5] {
        let &Pool { order, pages, slots, heads, dim } = self;
        match order {
            PageOrder::Nhd => [pages, 2, slots, heads, dim],
            PageOrder::Hnd => [pages, 2, heads, slots, dim],
        }
    }
    fn count(&self) -> usize {
        self.shape().iter().product()
    }
    fn read<'a>(&self, buffer: &'a DeviceBuffer) -> Result<KvRef<'a>, Error> {
        Ok(KvRef::fused(buffer.tensor(&self.shape())?, self.order)?)
    }
    fn write<'a>(&self, buffer: &'a mut DeviceBuffer) -> Result<KvMut<'a>, Error> {
        Ok(KvMut::fused(buffer.tensor_mut(&self.shape())?, self.order)?)
    }
}

fn pools(dim: usize) -> [Pool; 2] {
    [PageOrder::Nhd, PageOrder::Hnd].map(|order| Pool { order, pages: 9, slots: 5, heads: 3, dim })
}

/// Source and destination types of rows.
fn conversions() -> impl Iterator<Item = (Dtype, Dtype)> {
    let floats = FLOATS.into_iter().flat_map(|from| Dtype::ALL.map(|to| (from, to)));
    floats.chain([Dtype::E4m3, Dtype::E5m2].map(|same| (same, same)))
}

/// Each slot of the pool at most once, some padding.
const SLOTS: [i64; 14] = [44, 0, -1, 7, 12, 13, 14, -5, 31, 30, 2, 20, 43, 9];

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

/// The page rows of three requests, padded or compressed.
fn page_rows<'a>(padded: bool, indptr: &'a Numbers<i32>, pages: &'a Numbers<i32>) -> PageTableRows<'a> {
    match padded {
        true => PageTableRows::Padded { pages: pages.array(), max_pages: 3 },
        false => PageTableRows::Csr { indptr: indptr.array(), pages: pages.array() },
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

/// Entries of device arrays outside of the pool write nothing and are counted.
#[test]
fn entries_outside_of_the_pool_are_skipped_and_counted() {
    let Some(gpu) = gpu() else { return };
    let at = Scenario::new(&gpu, Mode::Launched);
    let pool = &pools(64)[0];
    let shape = [4, pool.heads, pool.dim];
    let rows = at.upload(Dtype::F16, &vec![1.0; shape.iter().product()]);
    let (slots, requests, positions) =
        (at.numbers(&[45i64, i64::MAX, -1, 44]), at.numbers(&[0, 3, 1, 0]), at.numbers(&[15, 0, 0, 4]));
    let (indptr, pages) = (at.numbers(&[0, 3, 4, 4]), at.numbers(&[8, 2, 5, 9]));
    for by_slot in [true, false] {
        let mut cache = at.poisoned(Dtype::F16, pool.count());
        let mut status = at.numbers(&[0u32]);
        let slot_mapping = if by_slot {
            SlotMapping::Slots { slots: slots.array(), positions: None }
        } else {
            let rows = page_rows(false, &indptr, &pages);
            SlotMapping::Positions { requests: requests.array(), positions: positions.array(), rows }
        };
        at.run(|stream| {
            let new = KvRef::new(rows.tensor(&shape)?, rows.tensor(&shape)?);
            let append = Append { status: Some(status.array_mut()), ..Append::at(slot_mapping) };
            append_paged(stream, &new, &mut pool.write(&mut cache)?, &append, None)
        });
        let written = at.read(&cache).iter().filter(|x| !x.is_nan()).count();
        assert_eq!(written, 2 * pool.heads * pool.dim, "one token");
        assert_eq!(status.to_vec().expect("read"), [if by_slot { 2 } else { 3 }]);
    }
    // slots are checked even if rows have no values
    for (k_dim, v_dim) in [(0, 64), (64, 0), (0, 0)] {
        let mut status = at.numbers(&[0u32]);
        let [mut k, mut v] = [k_dim, v_dim].map(|dim| at.poisoned(Dtype::F16, 45 * 3 * dim));
        at.run(|stream| {
            let new = KvRef::new(rows.tensor(&[4, 3, k_dim])?, rows.tensor(&[4, 3, v_dim])?);
            let mut pools = KvMut::new(k.tensor_mut(&[9, 5, 3, k_dim])?, v.tensor_mut(&[9, 5, 3, v_dim])?);
            let slot_mapping = SlotMapping::Slots { slots: slots.array(), positions: None };
            let append = Append { status: Some(status.array_mut()), ..Append::at(slot_mapping) };
            append_paged(stream, &new, &mut pools, &append, None)
        });
        assert_eq!(status.to_vec().expect("read"), [2], "{k_dim} and {v_dim}");
    }
    // keys past the capacity of a gather
    for capacity in [4usize, 0] {
        let cache = at.upload(Dtype::F16, &vec![3.0; pool.count()]);
        let [mut k, mut v] = [capacity * 3 * 64; 2].map(|count| at.poisoned(Dtype::F16, count));
        let (ends, indptr, pages) = (at.numbers(&[0, 6, 9]), at.numbers(&[0, 1, 2]), at.numbers(&[8, 0]));
        let mut status = at.numbers(&[0u32]);
        at.run(|stream| {
            let mut packed = KvMut::new(k.tensor_mut(&[capacity, 3, 64])?, v.tensor_mut(&[capacity, 3, 64])?);
            let table = PageTableRows::Csr { indptr: indptr.array(), pages: pages.array() };
            let some = Gather { status: Some(status.array_mut()), ..Gather::new(ends.array(), table) };
            gather(stream, &pool.read(&cache)?, &mut packed, &some)
        });
        assert_eq!(status.to_vec().expect("read"), [9 - capacity as u32]);
        assert!(at.read(&k).iter().chain(&at.read(&v)).all(|&x| x == 3.0), "rows within the capacity are written");
    }
    let mut status = at.numbers(&[0u32]);
    let mut cache = at.upload(Dtype::F16, &vec![3.0; pool.count()]);
    let pairs = at.numbers(&[[0, 9], [-1, 2], [1, 1]]);
    at.run(|stream| copy_pages(stream, &mut pool.write(&mut cache)?, &pairs.array(), Some(&status.array_mut())));
    assert_eq!(status.to_vec().expect("read"), [2]);
    assert!(at.read(&cache).iter().all(|&x| x == 3.0));
}

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

#[test]
fn host_memory_and_misaligned_elements_are_refused() {
    let Some(gpu) = gpu() else { return };
    let stream = gpu.stream().expect("a stream");
    let data = [0f32; 8];
    let mut out = [0f32; 8];
    let state = StateRef {
        o: TensorRef::host(&data, &[1, 1, 8]).expect("fits"),
        lse: TensorRef::host(&data, &[1, 1]).expect("fits"),
    };
    let o = Out::new(TensorMut::host(&mut out, &[1, 1, 8]).expect("fits"));
    let error = merge_state(&stream, &state, &state, o).expect_err("host memory").to_string();
    assert!(error.contains("is in host memory"), "{error}");
    let buffer = gpu.upload(&[0f32; 16]).expect("memory");
    let ptr = buffer.tensor(&[16]).expect("fits").device_ptr().expect("on the device") + 2;
    // SAFETY: nothing is launched with it.
    let lse = unsafe { TensorMut::device(ptr, Dtype::F32, &[3], &[1]) }.expect("a shape");
    let error = lse_to_base_2(&stream, lse).expect_err("between elements").to_string();
    assert!(error.contains("`lse` is at") && error.contains("multiple of 4"), "{error}");
    let error = packbits(&stream, &Array::host(&[1u8]), BitOrder::Little, &mut ArrayMut::host(&mut [0u8]));
    assert!(matches!(error, Err(Error::Op(OpError::Memory { array: "bools", got: "host", .. }))), "{error:?}");
    prepare(&gpu, &[Op::Copy, Op::Merge(Dtype::Bf16)]).expect("compiles");
}
