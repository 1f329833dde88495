//! Pools of KV formats in host memory, as the CPU and as emulated kernels take them.

use attn_core::{
    dtype::Dtype,
    lang::kv_format::{KvFormats, RowBytes},
    ops::{KvMut, KvRef, KvSidesMut},
    tensor::{KvScales, KvSides, Scale, TensorMut, TensorRef},
};
use attn_kernels::launch::{
    FastDiv, KvSides as Sides, OP_THREADS, PackedRowsParams, RowTiling, RowsParams, RowsPart, Strided,
};
use attn_tests::host::words;
use half::{bf16, f16};

/// KV heads.
pub(super) const HEADS: usize = 3;
const PAGES: usize = 9;
const PAGE_SIZE: usize = 5;
/// The slots of new tokens: each of the pool at most once, some padding.
pub(super) const SLOTS: [i64; 14] = [44, 0, -1, 7, 12, 13, 14, -5, 31, 30, 2, 20, 43, 9];
pub(super) const TOKENS: usize = SLOTS.len();
/// Scales of the KV heads.
const HEAD_SCALES: [f32; HEADS] = [0.5, 1.0, 3.0];

/// Bytes, aligned for all types, between guards, which show a write outside of them.
#[derive(Clone)]
pub(super) struct GuardedBytes {
    /// The guards and the bytes.
    words: Vec<u64>,
    len: usize,
}

/// Words of each guard.
const GUARD_WORDS: usize = 64;
const GUARD: u64 = 0xa5c3_96e1_5a3c_691e;

impl GuardedBytes {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let guard = [GUARD; GUARD_WORDS];
        Self { words: [&guard[..], &words(bytes), &guard[..]].concat(), len: bytes.len() }
    }
    fn words(&self) -> &[u64] {
        &self.words[GUARD_WORDS..self.words.len() - GUARD_WORDS]
    }
    pub(super) fn assert_guards(&self, name: &str) {
        let (before, behind) = (&self.words[..GUARD_WORDS], &self.words[self.words.len() - GUARD_WORDS..]);
        assert!(before.iter().chain(behind).all(|&word| word == GUARD), "{name}: a guard is written to");
    }
    pub(super) fn elements(dtype: Dtype, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|&x| match dtype {
            Dtype::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(x).to_le_bytes().to_vec(),
            _ => x.to_le_bytes().to_vec(),
        });
        Self::of(&bytes.collect::<Vec<_>>())
    }
    pub(super) fn get(&self) -> &[u8] {
        &bytemuck::cast_slice(self.words())[..self.len]
    }
    pub(super) fn tensor(&self, dtype: Dtype, shape: &[usize]) -> TensorRef<'_> {
        TensorRef::of_bytes(dtype, self.get(), shape).expect("as many")
    }
    pub(super) fn tensor_mut(&mut self, dtype: Dtype, shape: &[usize]) -> TensorMut<'_> {
        let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words[GUARD_WORDS..])[..self.len];
        TensorMut::of_bytes(dtype, bytes, shape).expect("as many")
    }
    /// Rows of (tokens or slots, heads, elements of `size` bytes); pages of slots.
    pub(super) fn strided(&self, row: usize) -> Strided {
        let (head, token) = (row as i64, (HEADS * row) as i64);
        Strided { data: self.words().as_ptr() as u64, token, head, page: token * PAGE_SIZE as i64 }
    }
}

/// Pools of keys and of values: codes and side data.
#[derive(Clone)]
pub(super) struct Pools {
    rows: [RowBytes; 2],
    pub(super) codes: [GuardedBytes; 2],
    pub(super) sides: [GuardedBytes; 2],
}

impl Pools {
    pub(super) fn new(formats: &KvFormats, dim: usize) -> Pools {
        let rows = [0, 1].map(|part| RowBytes::of(formats.part(part), dim as u32));
        let pool = |bytes: usize| GuardedBytes::of(&vec![0xff; PAGES * PAGE_SIZE * HEADS * bytes]);
        Pools { rows, codes: rows.map(|row| pool(row.codes)), sides: rows.map(|row| pool(row.side)) }
    }
    pub(super) fn write(&mut self) -> KvMut<'_> {
        let shape = |bytes: usize| [PAGES, PAGE_SIZE, HEADS, bytes];
        let [k, v] = &mut self.codes;
        let [k_side, v_side] = &mut self.sides;
        let side = |side, bytes: usize| -> Option<TensorMut<'_>> {
            let side: &mut GuardedBytes = side;
            if bytes > 0 { Some(side.tensor_mut(Dtype::U8, &shape(bytes))) } else { None }
        };
        let sides = KvSidesMut::new(side(k_side, self.rows[0].side), side(v_side, self.rows[1].side));
        let codes = [(k, self.rows[0]), (v, self.rows[1])];
        let [k, v] = codes.map(|(codes, row)| codes.tensor_mut(Dtype::U8, &shape(row.codes)));
        KvMut::new(k, v).with_sides(sides)
    }
    pub(super) fn read(&self) -> KvRef<'_> {
        let shape = |bytes: usize| [PAGES, PAGE_SIZE, HEADS, bytes];
        let [k, v] = [0, 1].map(|part| self.codes[part].tensor(Dtype::U8, &shape(self.rows[part].codes)));
        let side = |part: usize| {
            let bytes = self.rows[part].side;
            (bytes > 0).then(|| self.sides[part].tensor(Dtype::U8, &shape(bytes)))
        };
        KvRef::new(k, v).with_sides(KvSides::new(side(0), side(1)))
    }
    /// The parameters of kernels that move rows between these pools and packed tensors, in chunks of `chunk` elements.
    pub(super) fn params(
        &self,
        dtype: Dtype,
        packed: [&GuardedBytes; 2],
        dim: usize,
        chunk: usize,
    ) -> PackedRowsParams {
        let chunks = dim / chunk;
        let rows = (OP_THREADS as usize / chunks).max(1) as i32;
        let scales = [(1.5, HEAD_SCALES.as_ptr() as u64), (0.75, 0)];
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

/// The scales of keys, by head, and of values.
pub(super) fn scales() -> KvScales<'static> {
    KvScales {
        k: Scale { all: 1.5, heads: Some(TensorRef::host(&HEAD_SCALES, &[HEADS]).expect("three")) },
        v: Scale::of(0.75),
    }
}
