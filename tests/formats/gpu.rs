//! KV formats on a GPU: appends write the bytes of the CPU, gathers give its bits, and attention is near the f64
//! reference, launched, and captured and replayed. Skipped without a GPU.

use attn::batch::{PageTableBuf, indptr};
use attn::lang::{KvFormats, Tensor2};
use attn::ops::*;
use attn::prelude::*;
use attn::{
    AttentionOptions, BatchCapacity, DeviceBuffer, Dtype, Dtypes, Engine, Error, Graph, HeadDimVo, Heads, KvScales,
    PageOrder, PlanOptions, Scale, Stream, Variant,
};
use attn_core::cpu::{Problem, RowRounding, oracle_with};
use attn_core::lang::kv_format::RowBytes;
use attn_core::plan::WorkList;
use attn_core::spec::KernelKind;
use attn_core::tensor::{KvSides, Out};
use attn_tests::synthetic::values;
use attn_variants::kv_formats::PerChannel;
use half::{bf16, f16};

const PAGES: usize = 64;

/// A cache in KV formats: pools of codes and of side data, of keys and of values.
struct Cache {
    of: Of,
    codes: Vec<DeviceBuffer>,
    sides: Vec<Option<DeviceBuffer>>,
}

/// What a cache holds.
#[derive(Clone)]
struct Of {
    formats: KvFormats,
    order: PageOrder,
    slots: usize,
    heads: usize,
    /// Elements of keys and of values.
    dims: [usize; 2],
    /// Values are the first elements of keys.
    latent: bool,
}

impl Of {
    fn new(formats: KvFormats, order: PageOrder, slots: usize, heads: usize, dim: usize) -> Of {
        Of { formats, order, slots, heads, dims: [dim, dim], latent: false }
    }

    fn heads(&self, group: usize) -> Heads {
        Heads { qo: (self.heads * group) as u32, kv: self.heads as u32, head_dim: self.dims[0] as u32 }
    }

    fn head_dim_vo(&self) -> HeadDimVo {
        if self.latent { HeadDimVo::SharedWithKeys(self.dims[1] as u32) } else { HeadDimVo::Same }
    }

    fn variant(&self, expr: &str) -> Variant {
        Variant::parse(expr).expect(expr).with_kv_formats(self.formats.clone())
    }

    fn parts(&self) -> usize {
        if self.latent { 1 } else { 2 }
    }

    fn row(&self, part: usize) -> RowBytes {
        RowBytes::of(self.formats.part(part), self.dims[part] as u32)
    }

    fn shape(&self, bytes: usize) -> [usize; 4] {
        match self.order {
            PageOrder::Nhd => [PAGES, self.slots, self.heads, bytes],
            PageOrder::Hnd => [PAGES, self.heads, self.slots, bytes],
        }
    }
}

impl Cache {
    /// A cache of bytes that every format reads as NaN, if it can.
    fn new(engine: &Engine, of: &Of) -> Cache {
        let pool = |bytes: usize| engine.upload_bytes(&vec![0xff; of.shape(bytes).iter().product()]).expect("memory");
        let rows = || (0..of.parts()).map(|part| of.row(part));
        let codes = rows().map(|row| pool(row.codes)).collect();
        let sides = rows().map(|row| (row.side > 0).then(|| pool(row.side))).collect();
        Cache { of: of.clone(), codes, sides }
    }

    fn write(&mut self) -> Result<KvMut<'_>, Error> {
        let of = &self.of;
        let mut codes =
            self.codes.iter_mut().enumerate().map(|(part, codes)| codes.tensor_mut(&of.shape(of.row(part).codes)));
        let mut sides =
            self.sides.iter_mut().enumerate().map(|(part, side)| {
                side.as_mut().map(|side| side.tensor_mut(&of.shape(of.row(part).side))).transpose()
            });
        let (k_side, v_side) = (sides.next().transpose()?.flatten(), sides.next().transpose()?.flatten());
        let k = codes.next().transpose()?.expect("keys");
        let sides = KvSidesMut::paged_in(k_side, v_side, of.order)?;
        Ok(match codes.next().transpose()? {
            Some(v) => KvMut::paged_in(k, v, of.order)?.with_sides(sides),
            None => KvMut::latent(k).with_sides(sides),
        })
    }

    fn read(&self) -> Result<Kv<'_>, Error> {
        let of = &self.of;
        let codes = |part: usize| self.codes[part].tensor(&of.shape(of.row(part).codes));
        let side = |part: usize| {
            let side = self.sides.get(part).and_then(Option::as_ref);
            side.map(|side| side.tensor(&of.shape(of.row(part).side))).transpose()
        };
        let kv = if of.latent {
            Kv::latent_pages(codes(0)?, of.order)?
        } else {
            Kv::paged_in(codes(0)?, codes(1)?, of.order)?
        };
        Ok(kv.with_sides(KvSides::paged_in(side(0)?, side(1)?, of.order)?))
    }

    fn kv_ref(&self) -> Result<KvRef<'_>, Error> {
        let kv = self.read()?;
        let codes = KvRef::latent(kv.k).with_sides(kv.sides);
        Ok(if self.of.latent { codes } else { KvRef::from(kv) })
    }

    fn bytes(&self, engine: &Engine) -> Vec<Vec<u8>> {
        let buffers = self.codes.iter().chain(self.sides.iter().flatten());
        buffers.map(|buffer| engine.download_bytes(buffer).expect("read")).collect()
    }

    /// The same bytes in the memory of another engine.
    fn on(&self, from: &Engine, engine: &Engine) -> Cache {
        let copy =
            |buffer: &DeviceBuffer| engine.upload_bytes(&from.download_bytes(buffer).expect("read")).expect("memory");
        let codes = self.codes.iter().map(copy).collect();
        Cache { of: self.of.clone(), codes, sides: self.sides.iter().map(|side| side.as_ref().map(copy)).collect() }
    }
}

/// A GPU, or `None` with a message.
fn gpu() -> Option<Engine> {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    attn::registry::register_kv_formats(attn_variants::kv_formats::all()).expect("no two share a name");
    attn_tests::gpu::gpu()
}

fn upload(engine: &Engine, dtype: Dtype, values: &[f32]) -> DeviceBuffer {
    let uploaded = match dtype {
        Dtype::F16 => engine.upload(&values.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>()),
        Dtype::Bf16 => engine.upload(&values.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>()),
        _ => engine.upload(values),
    };
    uploaded.expect("memory")
}

fn formats(text: &str) -> KvFormats {
    KvFormats::parse(text).expect(text)
}

/// Every stock format, over heads of 128 elements or of 64.
fn of_each() -> Vec<Of> {
    let scales =
        || Tensor2::new((0..3 * 128).map(|i| 0.004 * (1 + i % 7) as f32).collect(), [3, 128]).expect("a table");
    let channels = KvFormats::new(PerChannel { bits: 8, scales: scales() }, PerChannel { bits: 4, scales: scales() });
    let texts = [
        "int8",
        "int4(group=32)",
        "int4(group=32, zero=true)",
        "nvfp4",
        "mx_fp8",
        "turbo4",
        "bf16 / f16",
        "int8 / int4(group=64)",
    ];
    let orders = [PageOrder::Nhd, PageOrder::Hnd].into_iter().cycle();
    let texts = texts.into_iter().zip(orders).flat_map(|(text, order)| {
        [128, 64].map(|dim| Of::new(formats(text), order, if dim == 64 { 16 } else { 5 }, 3, dim))
    });
    let latent = Of { dims: [576, 512], latent: true, ..Of::new(formats("ds_mla"), PageOrder::Nhd, 5, 1, 576) };
    texts.chain([Of::new(channels, PageOrder::Hnd, 5, 3, 128), latent]).collect()
}

/// Rows with numbers of all sizes, zeros, ties, NaN and infinities.
fn rows(of: &Of, part: usize, tokens: usize, special: bool) -> Vec<f32> {
    let dim = of.dims[part];
    let mut all = values(tokens * of.heads * dim, part as u32 + 1);
    if special {
        for (number, row) in all.chunks_mut(dim).enumerate() {
            match number % 11 {
                0 => row.fill(0.0),
                1 => row.iter_mut().for_each(|x| *x *= 1e-6),
                2 => row.iter_mut().for_each(|x| *x = x.powi(5) * 300.0),
                3 => row[dim / 3] = f32::NAN,
                4 => row[dim - 1] = f32::NEG_INFINITY,
                5 => row
                    .iter_mut()
                    .enumerate()
                    .for_each(|(d, x)| *x = (d % 31) as f32 - 15.0 + f32::from(d % 2 == 0) / 2.0),
                6 => row[1..].fill(-0.0),
                _ => {}
            }
        }
    }
    all
}

/// Runs work, launched or captured and replayed, and waits for it.
fn run(engine: &Engine, captured: bool, mut work: impl FnMut(&Stream) -> Result<(), Error>) {
    let stream = engine.stream().expect("a stream");
    if captured && !engine.is_cpu() {
        let mut graph = Graph::capture(&stream, || work(&stream)).expect("captured");
        // SAFETY: everything that it reads and writes lives until the stream is synchronised.
        unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
    } else {
        work(&stream).expect("sound");
    }
    stream.synchronize().expect("it ran");
}

/// Appends rows of a type at slots.
fn append(engine: &Engine, cache: &mut Cache, from: Dtype, slots: &[i64], special: bool, captured: bool) {
    let of = cache.of.clone();
    let tokens = slots.len();
    let sources: Vec<_> = (0..of.parts()).map(|part| upload(engine, from, &rows(&of, part, tokens, special))).collect();
    let (slots, heads) = (DeviceArray::upload(engine, slots).expect("memory"), of.heads(1));
    let transform =
        KvTransform::with_values(engine, &of.variant("full"), heads, of.head_dim_vo()).expect("formats of the heads");
    transform.prepare(from, Dtype::U8).expect("a kernel");
    let of_heads = upload(engine, Dtype::F32, &[0.5, 1.0, 3.0][..of.heads]);
    run(engine, captured, |stream| {
        let tensor = |part: usize| sources[part].tensor(&[tokens, of.heads, of.dims[part]]);
        let new = if of.latent { KvRef::latent(tensor(0)?) } else { KvRef::new(tensor(0)?, tensor(1)?) };
        let scales = KvScales { k: Scale { all: 1.5, heads: Some(of_heads.tensor(&[of.heads])?) }, v: Scale::of(0.75) };
        let slots = SlotMapping::Slots { slots: slots.array(), positions: None };
        append_paged(stream, &new, &mut cache.write()?, &Append { scales, ..Append::at(slots) }, Some(&transform))
    });
}

#[test]
fn appends_write_the_bytes_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let slots: Vec<i64> = (0..40).map(|i| if i % 9 == 4 { -1 } else { i * 7 }).collect();
    for of in of_each() {
        for (from, captured) in [(Dtype::F16, false), (Dtype::Bf16, true), (Dtype::F32, false)] {
            let cpu = Engine::cpu();
            let [mut want, mut got] = [&cpu, &gpu].map(|engine| Cache::new(engine, &of));
            append(&cpu, &mut want, from, &slots, true, false);
            append(&gpu, &mut got, from, &slots, true, captured);
            let (want, got) = (want.bytes(&cpu), got.bytes(&gpu));
            for (plane, (want, got)) in want.iter().zip(&got).enumerate() {
                let differ = want.iter().zip(got).filter(|(want, got)| want != got).count();
                assert_eq!(
                    differ,
                    0,
                    "{} of {:?}, from {from}: bytes of plane {plane} of {}",
                    of.formats,
                    of.dims,
                    want.len()
                );
            }
        }
    }
}

#[test]
fn gathers_give_the_bits_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let cpu = Engine::cpu();
    for of in of_each() {
        let mut cache = Cache::new(&cpu, &of);
        let slots: Vec<i64> = (0..(PAGES * of.slots) as i64).collect();
        append(&cpu, &mut cache, Dtype::F32, &slots, true, false);
        let lens = [11usize, 0, 2 * of.slots, 3];
        let tokens: usize = lens.iter().sum();
        let pages: Vec<i32> = (0..).map(|i| (i * 13 + 5) % PAGES as i32).take(20).collect();
        for (to, captured) in [(Dtype::F16, false), (Dtype::Bf16, true), (Dtype::F32, false)] {
            let gathered = [(&cpu, false), (&gpu, captured)].map(|(engine, captured)| {
                let cache = cache.on(&cpu, engine);
                let count = |part: usize| tokens * of.heads * of.dims[part];
                let mut out: Vec<_> =
                    (0..of.parts()).map(|part| upload(engine, to, &vec![f32::NAN; count(part)])).collect();
                let per_request = lens.map(|len| len.div_ceil(of.slots) as u32);
                let (ends, starts) = (lens.map(|len| len as u32), indptr(&per_request).expect("few"));
                let ends = DeviceArray::upload(engine, &indptr(&ends).expect("few")).expect("memory");
                let starts = DeviceArray::upload(engine, &starts).expect("memory");
                let pages = DeviceArray::upload(engine, &pages).expect("memory");
                let variant = of.variant("full");
                let transform =
                    KvTransform::with_values(engine, &variant, of.heads(1), of.head_dim_vo()).expect("formats");
                transform.prepare(Dtype::U8, to).expect("a kernel");
                run(engine, captured, |stream| {
                    let mut tensors = out
                        .iter_mut()
                        .enumerate()
                        .map(|(part, out)| out.tensor_mut(&[tokens, of.heads, of.dims[part]]));
                    let k = tensors.next().expect("keys")?;
                    let mut to = match tensors.next().transpose()? {
                        Some(v) => KvMut::new(k, v),
                        None => KvMut::latent(k),
                    };
                    let rows = PageTableRows::Csr { indptr: starts.array(), pages: pages.array() };
                    let gather = Gather { scales: KvScales::of(0.5, 3.0), ..Gather::new(ends.array(), rows) };
                    gather_with(stream, &cache.kv_ref()?, &mut to, &gather, Some(&transform))
                });
                out.iter().map(|out| engine.download_f32(out).expect("read")).collect::<Vec<_>>()
            });
            let [want, got] = gathered;
            for (want, got) in want.iter().flatten().zip(got.iter().flatten()) {
                let same = want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan();
                assert!(same, "{} of {:?} to {to}: {got}, not {want}", of.formats, of.dims);
            }
        }
    }
}

/// The lengths of a batch.
struct Lens {
    qo: &'static [u32],
    kv: &'static [u32],
}

fn pages_of(of: &Of, kv: &[u32]) -> PageTableBuf {
    let mut next = 0;
    PageTableBuf::from_lens(kv, of.slots as u32, PAGES as u32, || {
        next = (next + 27) % PAGES as i32;
        next
    })
}

/// A full cache, in the memory of the CPU.
fn full_cache(of: &Of) -> Cache {
    let cpu = Engine::cpu();
    let mut cache = Cache::new(&cpu, of);
    let slots: Vec<i64> = (0..(PAGES * of.slots) as i64).collect();
    append(&cpu, &mut cache, Dtype::F32, &slots, false, false);
    cache
}

/// Whether a number is further away than a tolerance, or NaN.
fn beyond(got: f32, want: f64, tolerance: f64) -> bool {
    let distance = (f64::from(got) - want).abs();
    distance.is_nan() || distance > tolerance
}

/// Compares the outputs and log-sum-exps of a batch with the f64 reference.
fn near(
    what: &str,
    (of, expr, group): (&Of, &str, usize),
    cache: &Cache,
    lens: &Lens,
    q: &[f32],
    (o, lse): (&[f32], &[f32]),
) {
    let heads = of.heads(group);
    let (variant, _) = of.variant(expr).over(Dtypes::new(Dtype::Bf16, Dtype::U8), of.head_dim_vo()).expect("formats");
    let (qo, table) = (indptr(lens.qo).expect("few"), pages_of(of, lens.kv));
    let layout = Batch::paged(&qo, &table.table()).validate().expect("a batch");
    let variant = variant.bind(&of.head_dim_vo().dims(heads, layout.dims(heads))).expect("bound");
    let q16: Vec<bf16> = q.iter().map(|&x| bf16::from_f32(x)).collect();
    let tokens = qo[qo.len() - 1] as usize;
    let problem = Problem {
        variant: &variant,
        heads,
        head_dim_vo: of.head_dim_vo(),
        sm_scale: heads.default_sm_scale(),
        layout: &layout,
        work: &WorkList::default(),
        q: TensorRef::host(&q16, &[tokens, heads.qo as usize, of.dims[0]]).expect("a tensor"),
        kv: cache.read().expect("tensors").with_scales(KvScales::of(0.5, 2.0)),
    };
    let want = oracle_with(&problem, RowRounding::Elements).expect("a sound problem");
    let bad = o.iter().zip(&want.o).find(|(got, want)| beyond(**got, **want, 0.02 * (1.0 + want.abs())));
    assert!(bad.is_none() && o.len() == want.o.len(), "{what}: {bad:?}");
    let far = |(got, want): &(&f32, &f64)| **got != **want as f32 && beyond(**got, **want, 2e-3);
    let bad = lse.iter().zip(&want.lse).find(far);
    assert!(bad.is_none() && lse.len() == want.lse.len(), "{what}: lse {bad:?}");
    assert!(want.o.iter().any(|x| x.abs() > 0.05), "{what}: an output");
}

#[test]
fn attention_is_near_the_reference() {
    let Some(gpu) = gpu() else { return };
    let lens = |kernel| match kernel {
        KernelKind::Prefill => Lens { qo: &[70, 0, 3, 33], kv: &[150, 9, 37, 33] },
        KernelKind::Decode => Lens { qo: &[1, 2, 0, 1], kv: &[150, 37, 9, 130] },
        KernelKind::Mixed => Lens { qo: &[1, 70, 1, 0], kv: &[150, 90, 37, 5] },
    };
    let kernels = [KernelKind::Decode, KernelKind::Prefill, KernelKind::Mixed];
    for of in of_each() {
        let of = Of { slots: of.slots.max(5), ..of };
        let (host, group) = (full_cache(&of), if of.latent { 16 } else { 4 });
        let device = host.on(&Engine::cpu(), &gpu);
        let exprs = if of.latent { &["causal"][..] } else { &["causal", "causal + rope + soft_cap(cap=30)"] };
        for (kernel, expr) in kernels.into_iter().flat_map(|kernel| exprs.iter().map(move |&expr| (kernel, expr))) {
            if of.latent && kernel == KernelKind::Mixed {
                continue; // there is no such kernel
            }
            let heads = of.heads(group);
            let options =
                AttentionOptions { kernel: Some(kernel), head_dim_vo: of.head_dim_vo(), ..AttentionOptions::default() };
            let attention = gpu.attention_with(&of.variant(expr), heads, Dtypes::new(Dtype::Bf16, Dtype::U8), options);
            let attention = attention.expect("supported");
            let lens = lens(kernel);
            let (qo, table) = (indptr(lens.qo).expect("few"), pages_of(&of, lens.kv));
            let mut workspace = gpu.workspace();
            let plan = attention.plan(&Batch::paged(&qo, &table.table()), &mut workspace).expect("planned");
            let tokens = qo[qo.len() - 1] as usize;
            let q = values(tokens * heads.qo as usize * of.dims[0], 9);
            let of_q = upload(&gpu, Dtype::Bf16, &q);
            for captured in [false, true] {
                let outputs = tokens * heads.qo as usize;
                let mut o = upload(&gpu, Dtype::Bf16, &vec![f32::NAN; outputs * of.dims[1]]);
                let mut lse = upload(&gpu, Dtype::F32, &vec![f32::NAN; outputs]);
                run(&gpu, captured, |stream| {
                    let q = of_q.tensor(&[tokens, heads.qo as usize, of.dims[0]])?;
                    let kv = device.read()?.with_scales(KvScales::of(0.5, 2.0));
                    let out = Out::with_lse(
                        o.tensor_mut(&[tokens, heads.qo as usize, of.dims[1]])?,
                        lse.tensor_mut(&[tokens, heads.qo as usize])?,
                    );
                    plan.run(stream, q, kv, out)
                });
                let (o, lse) = (gpu.download_f32(&o).expect("read"), gpu.download_f32(&lse).expect("read"));
                let what = format!("{kernel} of {expr} over {} of {:?}, captured: {captured}", of.formats, of.dims);
                near(&what, (&of, expr, group), &host, &lens, &q, (&o, &lse));
            }
        }
    }
}

#[test]
fn a_captured_step_runs_other_batches() {
    let Some(gpu) = gpu() else { return };
    for text in ["int8", "int4(group=32, zero=true)"] {
        let (of, group, expr) = (Of::new(formats(text), PageOrder::Nhd, 16, 3, 128), 4, "causal + rope");
        let (host, heads) = (full_cache(&of), of.heads(4));
        let device = host.on(&Engine::cpu(), &gpu);
        let dtypes = Dtypes::new(Dtype::Bf16, Dtype::U8);
        let attention = gpu.attention(&of.variant(expr), heads, dtypes).expect("supported");
        let batches = [
            Lens { qo: &[1, 1, 1], kv: &[200, 3, 77] },
            Lens { qo: &[1, 1], kv: &[431, 16] },
            Lens { qo: &[1, 1, 1, 1], kv: &[1, 100, 301, 90] },
        ];
        let capacity = BatchCapacity::decode(4, 900).in_pages(16, PAGES as u32);
        let (stream, mut workspace) = (gpu.stream().expect("a stream"), gpu.workspace());
        let tables: Vec<_> =
            batches.iter().map(|lens| (indptr(lens.qo).expect("few"), pages_of(&of, lens.kv))).collect();
        let first = Batch::paged(&tables[0].0, &tables[0].1.table());
        let options = PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
        let mut plan = attention.plan_with(&first, &mut workspace, options).expect("planned");
        let q = values(4 * heads.qo as usize * 128, 3);
        let of_q = upload(&gpu, Dtype::Bf16, &q);
        let mut o = upload(&gpu, Dtype::Bf16, &vec![f32::NAN; q.len()]);
        let mut lse = upload(&gpu, Dtype::F32, &vec![f32::NAN; 4 * heads.qo as usize]);
        let shape = [4, heads.qo as usize, 128];
        let mut graph = Graph::capture(&stream, || {
            let out = Out::with_lse(o.tensor_mut(&shape)?, lse.tensor_mut(&shape[..2])?);
            plan.run(&stream, of_q.tensor(&shape)?, device.read()?.with_scales(KvScales::of(0.5, 2.0)), out)
        })
        .expect("captured");
        for (lens, (qo, table)) in batches.iter().zip(&tables) {
            plan.update(&stream, &Batch::paged(qo, &table.table())).expect("within the capacity");
            // SAFETY: everything that it reads and writes lives until the stream is synchronised.
            unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
            stream.synchronize().expect("it ran");
            let rows = lens.qo.len() * heads.qo as usize;
            let (o, lse) = (gpu.download_f32(&o).expect("read"), gpu.download_f32(&lse).expect("read"));
            let q = &q[..rows * 128];
            near(
                &format!("{text}, {:?}", lens.kv),
                (&of, expr, group),
                &host,
                lens,
                q,
                (&o[..rows * 128], &lse[..rows]),
            );
        }
    }
}
