//! Appends to pools of KV formats, and gathers from them, emulated on the host with threads in random order: the bytes
//! and the bits are those of the CPU.

use attn_core::Variant;
use attn_core::dtype::Dtype;
use attn_core::lang::Tensor2;
use attn_core::lang::kv_format::{KvFormats, RowBytes};
use attn_core::ops::append::{self, Transform};
use attn_core::ops::{Append, Array, Gather, KvMut, KvRef, KvSidesMut, PageTableRows, SlotMapping, gather};
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{KvScales, KvSides, Scale, TensorMut, TensorRef};
use attn_kernels::launch::{
    FastDiv, KvSides as Sides, OP_THREADS, PackedRowsParams, RowTiling, RowsParams, RowsPart, Strided,
};
use attn_kernels::splice::{ENCODE_KERNELS, GATHER_PACKED_KERNELS};
use attn_tests::{host::words, simt::HostOp, synthetic::values};
use attn_variants::kv_formats::PerChannel;
use half::{bf16, f16};

const HEADS: usize = 3;
const PAGES: usize = 9;
const PAGE_SIZE: usize = 5;
/// Each slot of the pool at most once, some padding.
const SLOTS: [i64; 14] = [44, 0, -1, 7, 12, 13, 14, -5, 31, 30, 2, 20, 43, 9];
const TOKENS: usize = SLOTS.len();
const OF_HEADS: [f32; HEADS] = [0.5, 1.0, 3.0];

/// Bytes, aligned for all types, between guards.
#[derive(Clone)]
struct Bytes(Vec<u64>, usize);

/// Words in front of bytes and behind them, and what they hold.
const GUARD: (usize, u64) = (64, 0xa5c3_96e1_5a3c_691e);

impl Bytes {
    fn of(bytes: &[u8]) -> Bytes {
        let around = [GUARD.1; GUARD.0];
        Bytes([&around[..], &words(bytes), &around[..]].concat(), bytes.len())
    }
    fn words(&self) -> &[u64] {
        &self.0[GUARD.0..self.0.len() - GUARD.0]
    }
    fn assert_guards(&self, name: &str) {
        let (before, behind) = (&self.0[..GUARD.0], &self.0[self.0.len() - GUARD.0..]);
        assert!(before.iter().chain(behind).all(|&word| word == GUARD.1), "{name}: a guard is written to");
    }
    fn elements(dtype: Dtype, values: &[f32]) -> Bytes {
        let bytes = values.iter().flat_map(|&x| match dtype {
            Dtype::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(x).to_le_bytes().to_vec(),
            _ => x.to_le_bytes().to_vec(),
        });
        Bytes::of(&bytes.collect::<Vec<_>>())
    }
    fn get(&self) -> &[u8] {
        &bytemuck::cast_slice(self.words())[..self.1]
    }
    fn tensor(&self, dtype: Dtype, shape: &[usize]) -> TensorRef<'_> {
        TensorRef::of_bytes(dtype, self.get(), shape).expect("as many")
    }
    fn tensor_mut(&mut self, dtype: Dtype, shape: &[usize]) -> TensorMut<'_> {
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.0[GUARD.0..])[..self.1];
        TensorMut::of_bytes(dtype, bytes, shape).expect("as many")
    }
    /// Rows of (tokens or slots, heads, elements of `size` bytes); pages of slots.
    fn strided(&self, row: usize) -> Strided {
        let (head, token) = (row as i64, (HEADS * row) as i64);
        Strided { data: self.words().as_ptr() as u64, token, head, page: token * PAGE_SIZE as i64 }
    }
}

/// Pools of keys and of values: codes and side data.
#[derive(Clone)]
struct Pools {
    rows: [RowBytes; 2],
    codes: [Bytes; 2],
    sides: [Bytes; 2],
}

impl Pools {
    fn new(formats: &KvFormats, dim: usize) -> Pools {
        let rows = [0, 1].map(|part| RowBytes::of(formats.part(part), dim as u32));
        let pool = |bytes: usize| Bytes::of(&vec![0xff; PAGES * PAGE_SIZE * HEADS * bytes]);
        Pools { rows, codes: rows.map(|row| pool(row.codes)), sides: rows.map(|row| pool(row.side)) }
    }
    fn write(&mut self) -> KvMut<'_> {
        let shape = |bytes: usize| [PAGES, PAGE_SIZE, HEADS, bytes];
        let [k, v] = &mut self.codes;
        let [k_side, v_side] = &mut self.sides;
        let side = |side, bytes: usize| -> Option<TensorMut<'_>> {
            let side: &mut Bytes = side;
            if bytes > 0 { Some(side.tensor_mut(Dtype::U8, &shape(bytes))) } else { None }
        };
        let sides = KvSidesMut::new(side(k_side, self.rows[0].side), side(v_side, self.rows[1].side));
        let codes = [(k, self.rows[0]), (v, self.rows[1])];
        let [k, v] = codes.map(|(codes, row)| codes.tensor_mut(Dtype::U8, &shape(row.codes)));
        KvMut::new(k, v).with_sides(sides)
    }
    fn read(&self) -> KvRef<'_> {
        let shape = |bytes: usize| [PAGES, PAGE_SIZE, HEADS, bytes];
        let [k, v] = [0, 1].map(|part| self.codes[part].tensor(Dtype::U8, &shape(self.rows[part].codes)));
        let side = |part: usize| {
            let bytes = self.rows[part].side;
            (bytes > 0).then(|| self.sides[part].tensor(Dtype::U8, &shape(bytes)))
        };
        KvRef::new(k, v).with_sides(KvSides::new(side(0), side(1)))
    }
    /// The parameters of kernels that move rows between these pools and packed tensors, in chunks of `chunk` elements.
    fn params(&self, (dtype, packed): (Dtype, [&Bytes; 2]), dim: usize, chunk: usize) -> PackedRowsParams {
        let chunks = dim / chunk;
        let rows = (OP_THREADS as usize / chunks).max(1) as i32;
        let scales = [(1.5, OF_HEADS.as_ptr() as u64), (0.75, 0)];
        let part = |at: usize| RowsPart {
            packed: Strided {
                token: (HEADS * dim) as i64,
                head: dim as i64,
                page: 0,
                ..packed[at].strided(dtype.size())
            },
            pool: self.codes[at].strided(self.rows[at].codes),
            scales: scales[at].1,
            share: RowTiling { heads: FastDiv::new(HEADS as u32), chunks: FastDiv::new(chunks as u32), rows, pad: 0 },
            dim: dim as i32,
            scale: scales[at].0,
            ..RowsPart::default()
        };
        let base = RowsParams {
            part: [part(0), part(1)],
            tokens: TOKENS as i64,
            num_pages: PAGES as i64,
            page_size: FastDiv::new(PAGE_SIZE as u32),
            ..RowsParams::default()
        };
        let [k, v] = [0, 1].map(|at| self.sides[at].strided(self.rows[at].side));
        PackedRowsParams { base, sides: Sides { k, v } }
    }
}

/// Rows with numbers of all sizes, zeros, ties, NaN and infinities.
fn rows(dim: usize, seed: u32) -> Vec<f32> {
    let mut all = values(TOKENS * HEADS * dim, seed);
    for (number, row) in all.chunks_mut(dim).enumerate() {
        match number % 9 {
            0 => row.fill(0.0),
            1 => row.iter_mut().for_each(|x| *x *= 1e-6),
            2 => row.iter_mut().for_each(|x| *x = x.powi(5) * 300.0),
            3 => row[dim / 3] = f32::NAN,
            4 => row[dim - 1] = f32::NEG_INFINITY,
            5 => row.iter_mut().enumerate().for_each(|(d, x)| *x = (d % 31) as f32 - 15.0 + (d % 2) as f32 / 2.0),
            6 => row[1..].fill(-0.0),
            _ => {}
        }
    }
    all
}

fn scales() -> KvScales<'static> {
    KvScales {
        k: Scale { all: 1.5, heads: Some(TensorRef::host(&OF_HEADS, &[HEADS]).expect("three")) },
        v: Scale::of(0.75),
    }
}

#[test]
fn rows_have_the_bytes_of_the_cpu() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    attn_core::registry::register_kv_formats(attn_variants::kv_formats::all()).expect("no two share a name");
    let table = |dim: usize| {
        let scales = (0..HEADS * dim).map(|i| 0.004 * (1 + i % 7) as f32).collect();
        Tensor2::new(scales, [HEADS, dim]).expect("a row for each head")
    };
    let channels =
        KvFormats::new(PerChannel { bits: 8, scales: table(128) }, PerChannel { bits: 4, scales: table(128) });
    let of = |text: &str| KvFormats::parse(text).expect(text);
    let cases = [
        (of("int8 / int4(group=32)"), Dtype::Bf16, 128),
        (of("int4(group=32, zero=true) / turbo4"), Dtype::F16, 64),
        (of("nvfp4 / mx_fp8"), Dtype::F32, 256),
        (of("bf16 / f16"), Dtype::F32, 40),
        (channels, Dtype::F16, 128),
    ];
    for (formats, dtype, dim) in cases {
        let heads = Heads { qo: 6, kv: HEADS as u32, head_dim: dim as u32 };
        let variant = Variant::full().with_kv_formats(formats.clone());
        let transform = Transform::with_values(&variant, heads, HeadDimVo::Same).expect("formats of the heads");
        let bound = transform.variant();
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let encode = HostOp::encode(bound, dtype, folders[0].path());
        let decode = HostOp::gather_packed(bound, dtype, folders[1].path());
        let new = [1, 2].map(|seed| Bytes::elements(dtype, &rows(dim, seed)));
        let packed = [TOKENS, HEADS, dim];
        for narrow in [false, true] {
            let name = format!("{formats} of {dim} from {dtype}, narrow: {narrow}");
            let (mut want, got) = (Pools::new(&formats, dim), Pools::new(&formats, dim));
            let [k, v] = new.each_ref().map(|x| x.tensor(dtype, &packed));
            let slots = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: None };
            let how = Append { scales: scales(), ..Append::at(slots) };
            append::append(&KvRef::new(k, v), &mut want.write(), &how, Some(&transform)).expect("sound");
            let chunk = if narrow { 1 } else { 16 / dtype.size() };
            let mut params = got.params((dtype, new.each_ref()), dim, chunk);
            params.base.slots = SLOTS.as_ptr() as u64;
            let ctas = (TOKENS * HEADS).div_ceil(32) as u32;
            let bytes = OP_THREADS / 32 * dim as u32 * 4;
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { encode.run(ENCODE_KERNELS[usize::from(narrow)], &params, Some(bound), [ctas, 2], bytes) };
            got.codes.iter().chain(&got.sides).chain(&new).for_each(|bytes| bytes.assert_guards(&name));
            for part in [0, 1] {
                assert!(got.codes[part].get() == want.codes[part].get(), "{name}: codes of part {part}");
                assert!(got.sides[part].get() == want.sides[part].get(), "{name}: side data of part {part}");
            }

            let (indptr, pages, ends) = ([0, 3, 3, 4], [8, 2, 5, 0], [0, 9, 9, 13]);
            let table = PageTableRows::Csr { indptr: Array::host(&indptr), pages: Array::host(&pages) };
            let back = || Bytes::elements(dtype, &vec![f32::NAN; TOKENS * HEADS * dim]);
            let (mut want, gathered) = ([back(), back()], [back(), back()]);
            {
                let [k, v] = &mut want;
                let mut to = KvMut::new(k.tensor_mut(dtype, &packed), v.tensor_mut(dtype, &packed));
                let how = Gather { scales: scales(), ..Gather::new(Array::host(&ends), table) };
                gather::gather_with(&got.read(), &mut to, &how, Some(&transform)).expect("sound");
            }
            let mut params = got.params((dtype, gathered.each_ref()), dim, 8);
            params.base = RowsParams {
                indptr: ends.as_ptr() as u64,
                page_indptr: indptr.as_ptr() as u64,
                pages: pages.as_ptr() as u64,
                entries: pages.len() as i64,
                num_requests: 3,
                ..params.base
            };
            let ctas = (TOKENS * HEADS).div_ceil(params.base.part[0].share.rows as usize) as u32;
            // SAFETY: the arrays have the extents of the parameters.
            unsafe { decode.run(GATHER_PACKED_KERNELS[usize::from(narrow)], &params, Some(bound), [ctas, 2], 0) };
            gathered.iter().for_each(|bytes| bytes.assert_guards(&name));
            for (part, (got, want)) in gathered.iter().zip(&want).enumerate() {
                same_numbers(&format!("{name}: gathered part {part}"), dtype, got.get(), want.get());
            }
        }
    }
}

/// Equal bits; any NaN equals any other.
fn same_numbers(what: &str, dtype: Dtype, got: &[u8], want: &[u8]) {
    let number = |bytes: &[u8]| match dtype {
        Dtype::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        Dtype::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        _ => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    };
    let pairs = got.chunks(dtype.size()).zip(want.chunks(dtype.size()));
    for (at, (got, want)) in pairs.map(|(got, want)| (number(got), number(want))).enumerate() {
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{what}: {at} is {got}, not {want}");
    }
}
