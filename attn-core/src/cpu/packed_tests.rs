//! Runs over keys and values in KV formats, in every layout of memory: they have the bits of runs over the rows that
//! the stored ones decode to.

use half::f16;

use super::{OracleOut, Problem, RowRounding, oracle, oracle_with, plan_rule, run, work_of};
use crate::batch::{Batch, BlockTable, CascadeLevel, CascadeLevelKv, Layout, PageTable};
use crate::lang::kv_format::samples::{Channels, Int8};
use crate::lang::kv_format::{ErasedKvFormat, KvFormats, RowBytes};
use crate::lang::{AttentionVariant, KvIndex, Row, Tensor2};
use crate::spec::{HeadDimVo, Heads};
use crate::tensor::{Kv, KvScales, KvSides, Out, Scale, TensorError, TensorMut, TensorRef};
use crate::{Variant, VariantParams, attention_variant};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };
const PAGES: usize = 7;
const SLOTS: usize = 4;

/// Keys, doubled; values, less their index.
#[derive(Clone, VariantParams)]
struct Moved;

#[attention_variant]
impl AttentionVariant for Moved {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|_, x| x * 2.0 + at.kv_pos as f32 * 0.01);
    }
    fn value_transform<R: Row>(&self, v: &mut R, _at: KvIndex) {
        v.map(|d, x| x - d as f32);
    }
}

/// Where codes or side data lie in memory, in bytes.
#[derive(Clone, Copy)]
struct Plane {
    first: usize,
    /// The strides of pages, slots and heads.
    page: usize,
    slot: usize,
    head: usize,
}

/// Codes of keys and of values, side data of keys and of values.
type Planes = [Plane; 4];

/// Arranges planes with rows of these bytes in one memory.
type Arrange = fn([usize; 4]) -> Planes;

fn separate(bytes: [usize; 4]) -> Planes {
    let mut at = 0;
    bytes.map(|row| {
        let first = at;
        at += PAGES * SLOTS * 2 * row;
        Plane { first, page: SLOTS * 2 * row, slot: 2 * row, head: row }
    })
}

fn hnd(bytes: [usize; 4]) -> Planes {
    let mut planes = separate(bytes);
    for (plane, row) in planes.iter_mut().zip(bytes) {
        (plane.slot, plane.head) = (row, SLOTS * row);
    }
    planes
}

/// A page is the codes of keys and of values, and then their side data.
fn page_tails(bytes: [usize; 4]) -> Planes {
    let page = SLOTS * 2 * bytes.iter().sum::<usize>();
    let mut at = 0;
    bytes.map(|row| {
        let first = at;
        at += SLOTS * 2 * row;
        Plane { first, page, slot: 2 * row, head: row }
    })
}

/// A row is its codes and then its side data, in a record of 96 bytes; a record of a key is followed by that of its
/// value.
fn records(bytes: [usize; 4]) -> Planes {
    let plane = |first| Plane { first, page: SLOTS * 2 * 192, slot: 2 * 192, head: 192 };
    [plane(0), plane(96), plane(bytes[0]), plane(96 + bytes[1])]
}

const ARRANGEMENTS: [Arrange; 4] = [separate, hnd, page_tails, records];

fn values(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|i| (crate::random::bits(seed, 0, i, 0) >> 8) as f32 / 4_194_304.0 - 2.0).collect()
}

/// A cache in a format, and what it decodes to.
struct Cache {
    memory: Vec<u8>,
    planes: Planes,
    bytes: [usize; 4],
    /// (pages, slots, heads, dim) of keys and of values.
    decoded: [Vec<f32>; 2],
    dims: [usize; 2],
}

impl Cache {
    fn new(formats: &KvFormats, arrange: Arrange, values_dim: usize, latent: bool) -> Self {
        let dims = [HEADS.head_dim as usize, values_dim];
        let row = |part: usize| RowBytes::of(formats.part(part), dims[part] as u32);
        let [k, v] = if latent { [row(0), RowBytes { codes: 0, side: 0 }] } else { [row(0), row(1)] };
        let bytes = [k.codes, v.codes, k.side, v.side];
        let planes = arrange(bytes);
        let mut memory = vec![0xff; PAGES * SLOTS * 2 * (2 * 192)];
        let decoded = [0, 1].map(|part: usize| {
            let mut decoded = Vec::new();
            // values within keys are their first elements
            let (plane, dim) = if latent { (0, dims[0]) } else { (part, dims[part]) };
            let rows = values(PAGES * SLOTS * 2 * dim, 7 + plane as u32);
            for (i, x) in rows.chunks_exact(dim).enumerate() {
                let (page, slot, head) = (i / 2 / SLOTS, i / 2 % SLOTS, i % 2);
                let at = |plane: usize| {
                    let strides = planes[plane];
                    let at = strides.first + page * strides.page + slot * strides.slot + head * strides.head;
                    at..at + bytes[plane]
                };
                let (mut codes, mut side) = (vec![0; bytes[plane]], vec![0; bytes[2 + plane]]);
                let format: &dyn ErasedKvFormat = formats.part(plane);
                format.encode_row(x, &mut codes, &mut side, head as i32);
                let mut back = vec![0.0; dims[part]];
                format.decode_row(&codes, &side, head as i32, &mut back);
                assert!(x.iter().zip(&back).all(|(x, back)| (x - back).abs() < 0.02), "{x:?} {back:?}");
                memory[at(plane)].copy_from_slice(&codes);
                memory[at(2 + plane)].copy_from_slice(&side);
                decoded.extend(back);
            }
            decoded
        });
        Cache { memory, planes, bytes, decoded, dims }
    }

    fn plane(&self, plane: usize, paged: bool) -> Result<Option<TensorRef<'_>>, TensorError> {
        let (bytes, Plane { first, page, slot, head }) = (self.bytes[plane], self.planes[plane]);
        if bytes == 0 {
            return Ok(None);
        }
        let strides = [page, slot, head, 1].map(|stride| stride as i64);
        // a ragged cache is one page
        let (shape, skip) = if paged { ([PAGES, SLOTS, 2, bytes], 0) } else { ([1, PAGES * SLOTS, 2, bytes], 1) };
        TensorRef::bytes(&self.memory[first..], &shape[skip..])?.with_strides(&strides[skip..]).map(Some)
    }

    fn packed(&self, paged: bool, latent: bool) -> Result<Kv<'_>, TensorError> {
        let [k, v, k_side, v_side] = [0, 1, 2, 3].map(|plane| self.plane(plane, paged));
        let k = k?.expect("codes");
        let kv = if latent { Kv::latent(k) } else { Kv::ragged(k, v?.expect("codes")) };
        Ok(kv.with_sides(KvSides::new(k_side?, v_side?)))
    }

    fn plain(&self, paged: bool) -> Result<Kv<'_>, TensorError> {
        let of = |part: usize| {
            let (shape, skip) = if paged { ([PAGES, SLOTS, 2, 0], 0) } else { ([1, PAGES * SLOTS, 2, 0], 1) };
            let shape = [shape[0], shape[1], shape[2], self.dims[part]];
            TensorRef::host(&self.decoded[part], &shape[skip..])
        };
        Ok(Kv::ragged(of(0)?, of(1)?))
    }
}

/// O and LSE of the fast path, and of the oracle.
fn both(variant: &Variant, values_dim: HeadDimVo, layout: &Layout, kv: Kv<'_>) -> (Vec<f32>, Vec<f32>, OracleOut) {
    let q = values(layout.qo_tokens() * 64, 1);
    let work = work_of(variant, &[], layout, HEADS, &plan_rule(HEADS).into()).expect("plans");
    let tokens = layout.qo_tokens();
    let problem = Problem {
        variant,
        heads: HEADS,
        head_dim_vo: values_dim,
        sm_scale: 0.25,
        layout,
        work: &work,
        q: TensorRef::host(&q, &[tokens, 4, 16]).expect("fits"),
        kv,
    };
    let dim = values_dim.dim(HEADS) as usize;
    let (mut o, mut lse) = (vec![0f32; tokens * 4 * dim], vec![0f32; tokens * 4]);
    let out = Out::with_lse(
        TensorMut::host(&mut o, &[tokens, 4, dim]).expect("fits"),
        TensorMut::host(&mut lse, &[tokens, 4]).expect("fits"),
    );
    run(&problem, out).expect("runs");
    (o, lse, oracle(&problem).expect("runs"))
}

/// Channels of one KV head whose steps differ.
fn channels(dim: usize) -> Channels {
    let steps = (0..2 * dim).map(|i| 0.02 + i as f32 * 1e-4).collect();
    Channels { pad: 8, scales: Tensor2::new(steps, [2, dim]).expect("a table") }
}

fn bound(hooks: bool, formats: KvFormats, values_dim: HeadDimVo) -> [Variant; 2] {
    let variant = if hooks { Variant::from(Moved) } else { Variant::full() };
    let dims = values_dim.dims(HEADS, HEADS.dims());
    let packed = variant.clone().with_kv_formats(formats).bind(&dims).expect("binds");
    [packed, variant.bind(&dims).expect("binds")]
}

/// Checks that a run over a packed cache has the bits of one over the rows that it decodes to.
fn same_bits(hooks: bool, formats: KvFormats, values_dim: HeadDimVo, paged: bool, batches: &[Layout]) {
    let latent = values_dim.shares_keys();
    let [packed, plain] = bound(hooks, formats, values_dim);
    let formats = packed.kv_formats().expect("formats");
    for arrange in ARRANGEMENTS {
        let cache = Cache::new(formats, arrange, values_dim.dim(HEADS) as usize, latent);
        // tokens of a ragged cache are not in pages
        let ragged =
            std::ptr::fn_addr_eq(arrange, separate as Arrange) || std::ptr::fn_addr_eq(arrange, records as Arrange);
        if !paged && !ragged {
            continue;
        }
        let heads = [1.5f32, 0.75];
        let scale = Scale { all: 0.5, heads: Some(TensorRef::host(&heads, &[2]).expect("fits")) };
        for scales in [KvScales::default(), KvScales { k: scale, v: Scale::of(0.3) }] {
            for layout in batches {
                let kv = cache.packed(paged, latent).expect("fits").with_scales(scales);
                let got = both(&packed, values_dim, layout, kv);
                let values_dim = HeadDimVo::Dim(values_dim.dim(HEADS));
                let want = both(&plain, values_dim, layout, cache.plain(paged).expect("fits").with_scales(scales));
                assert!(got.0.iter().all(|x| x.is_finite()) && got.0.iter().any(|&x| x != 0.0));
                assert!(got == want, "{packed} {values_dim} paged {paged}");
            }
        }
    }
}

fn pages() -> Vec<Layout> {
    let table = PageTable {
        indptr: &[0, 3, 3, 5],
        indices: &[6, 1, 4, 0, 5],
        last_page_len: &[3, 0, 4],
        page_size: SLOTS as u32,
        num_pages: PAGES as u32,
    };
    let paged = Batch::paged(&[0, 2, 3, 4], &table).validate();
    let block_table = BlockTable {
        pages: &[2, 3, 0, 6],
        kv_lens: &[7, 2],
        max_pages: 2,
        page_size: SLOTS as u32,
        num_pages: PAGES as u32,
    };
    let block_table = Batch::block_table(&[0, 1, 3], &block_table).validate();
    let shared = PageTable { indptr: &[0, 2], indices: &[3, 2], last_page_len: &[4], ..table };
    let own = PageTable { indptr: &[0, 1, 2], indices: &[6, 0], last_page_len: &[1, 3], ..table };
    let levels = [
        CascadeLevel { qo_indptr: &[0, 2], kv: CascadeLevelKv::Paged(shared) },
        CascadeLevel { qo_indptr: &[0, 1, 2], kv: CascadeLevelKv::Paged(own) },
    ];
    let cascade = Batch::cascade(&[0, 1, 2], &levels).validate();
    [paged, block_table, cascade].into_iter().map(|layout| layout.expect("sound")).collect()
}

fn ragged() -> Vec<Layout> {
    let levels = [
        CascadeLevel { qo_indptr: &[0, 3], kv: CascadeLevelKv::Ragged(&[0, 9]) },
        CascadeLevel { qo_indptr: &[0, 1, 3], kv: CascadeLevelKv::Ragged(&[9, 12, 20]) },
    ];
    let cascade = Batch::cascade(&[0, 1, 3], &levels).validate();
    let flat = Batch::ragged(&[0, 2, 3], &[0, 15, 28]).validate();
    [flat, cascade].into_iter().map(|layout| layout.expect("sound")).collect()
}

#[test]
fn a_packed_cache_has_the_bits_of_its_rows() {
    for hooks in [false, true] {
        for (paged, batches) in [(true, pages()), (false, ragged())] {
            let same = HeadDimVo::Same;
            same_bits(hooks, KvFormats::both(Int8), same, paged, &batches);
            same_bits(hooks, KvFormats::new(Int8, channels(16)), same, paged, &batches);
            same_bits(hooks, KvFormats::new(channels(16), Int8), HeadDimVo::Dim(8), paged, &batches);
            same_bits(hooks, KvFormats::new(channels(16), channels(24)), HeadDimVo::Dim(24), paged, &batches);
        }
    }
}

#[test]
fn values_within_keys_are_decoded_from_them() {
    for hooks in [false, true] {
        for formats in [KvFormats::both(Int8), KvFormats::both(channels(16))] {
            let formats = formats.shared_with_keys();
            same_bits(hooks, formats.clone(), HeadDimVo::SharedWithKeys(8), true, &pages());
            same_bits(hooks, formats, HeadDimVo::SharedWithKeys(16), false, &ragged());
        }
    }
}

/// With the rounding of kernels, rows are rounded before their scale, or after the hook that a variant has.
#[test]
fn the_oracle_rounds_as_kernels_do() {
    let layout = &ragged()[0];
    let scales = [0.3, 1.7];
    for hooks in [false, true] {
        let [packed, plain] = bound(hooks, KvFormats::both(channels(16)), HeadDimVo::Same);
        let cache = Cache::new(packed.kv_formats().expect("formats"), separate, 16, false);
        let q: Vec<f16> = values(layout.qo_tokens() * 64, 1).into_iter().map(f16::from_f32).collect();
        let work = work_of(&packed, &[], layout, HEADS, &plan_rule(HEADS).into()).expect("plans");
        let of = |variant, kv: Kv<'_>, [k, v]: [f32; 2], rounding| {
            let q = TensorRef::host(&q, &[layout.qo_tokens(), 4, 16]).expect("fits");
            let kv = kv.with_scales(KvScales { k: Scale::of(k), v: Scale::of(v) });
            let (heads, head_dim_vo, sm_scale, work) = (HEADS, HeadDimVo::Same, 0.25, &work);
            oracle_with(&Problem { variant, heads, head_dim_vo, sm_scale, layout, work, q, kv }, rounding)
                .expect("runs")
        };
        let got = of(&packed, cache.packed(false, false).expect("fits"), scales, RowRounding::Elements);
        let exact = of(&packed, cache.packed(false, false).expect("fits"), scales, RowRounding::None);
        assert_ne!(got.o, exact.o);
        // the rows that kernels multiply
        let rows = |part: usize| {
            let rows = cache.decoded[part].chunks_exact(16).enumerate();
            let row = |(i, row): (usize, &[f32])| {
                let (mut row, kv_pos) = (row.to_vec(), (if i / 2 < 15 { i / 2 } else { i / 2 - 15 }) as i32);
                if hooks {
                    row.iter_mut().for_each(|x| *x *= scales[part]);
                    let at = KvIndex { kv_pos, ..KvIndex::default() };
                    if part == 0 { plain.key_row(&mut row, at) } else { plain.value_row(&mut row, at) }
                }
                row.into_iter().map(|x| f16::from_f32(x).to_f32()).collect::<Vec<_>>()
            };
            rows.flat_map(row).collect()
        };
        let rounded = Cache { decoded: [rows(0), rows(1)], ..cache };
        let scales = if hooks { [1.0; 2] } else { scales };
        let want = of(&Variant::full(), rounded.plain(false).expect("fits"), scales, RowRounding::None);
        assert_eq!(got, want);
    }
}

#[test]
fn planes_that_do_not_fit_are_refused() {
    let [packed, plain] = bound(false, KvFormats::both(Int8), HeadDimVo::Same);
    let cache = Cache::new(packed.kv_formats().expect("formats"), separate, 16, false);
    let q = values(128, 1);
    let layout = &Batch::ragged(&[0, 2], &[0, 9]).validate().expect("sound");
    let work = work_of(&packed, &[], layout, HEADS, &plan_rule(HEADS).into()).expect("plans");
    let refused = |variant, kv, head_dim_vo| {
        let q = TensorRef::host(&q, &[2, 4, 16]).expect("fits");
        let problem = Problem { variant, heads: HEADS, head_dim_vo, sm_scale: 1.0, layout, work: &work, q, kv };
        oracle(&problem).expect_err("refused").to_string()
    };
    let kv = cache.packed(false, false).expect("fits");
    let same = HeadDimVo::Same;
    let error = refused(&packed, kv.with_sides(KvSides::default()), same);
    assert!(error.contains("no k side") && error.contains("with_sides"), "{error}");
    let error = refused(&packed, kv.with_sides(KvSides { v: None, ..kv.sides }), same);
    assert!(error.contains("no v side"), "{error}");
    let error = refused(&packed, kv.with_sides(KvSides::new(kv.k, kv.sides.v)), same);
    assert!(error.contains("k side has 16 bytes of side data per head; this run needs 4"), "{error}");
    let error = refused(&packed, Kv { k: kv.sides.k.expect("given"), ..kv }, same);
    assert!(error.contains("k has 4 bytes of codes per head; this run needs 16"), "{error}");
    let floats = values(28 * 2 * 16, 1);
    let floats = TensorRef::host(&floats, &[28, 2, 16]).expect("fits");
    let error = refused(&packed, Kv { k: floats, v: floats, ..kv }, same);
    assert!(error.contains("k and v are f32 and have the format int8"), "{error}");
    let error = refused(&plain, kv, same);
    assert!(error.contains("with_kv_format"), "{error}");
    let error = refused(&plain, Kv::ragged(floats, floats).with_sides(kv.sides), same);
    assert!(error.contains("k side is given"), "{error}");
    let latent = Kv::latent(kv.k).with_sides(kv.sides);
    let error = refused(&packed, latent, HeadDimVo::SharedWithKeys(8));
    assert!(error.contains("v side is given"), "{error}");
    let odd = TensorRef::bytes(&cache.memory, &[28, 2, 8]).expect("fits").with_strides(&[32, 16, 2]).expect("fits");
    let error = refused(&packed, kv.with_sides(KvSides::new(odd, kv.sides.v)), same);
    assert!(error.contains("k side has 8 bytes"), "{error}");
}
