//! Appends to pools of KV formats, and gathers from them, emulated on the host with threads in random order: the bytes
//! and the bits are those of the CPU.

mod pools;

use attn_core::{
    Variant,
    dtype::Dtype,
    lang::{Tensor2, kv_format::KvFormats},
    ops::{
        Append, Array, Gather, KvMut, KvRef, PageTableRows, SlotMapping,
        append::{self, Transform},
        gather,
    },
    spec::{HeadDimVo, Heads},
};
use attn_kernels::{
    launch::{OP_THREADS, RowsParams},
    splice::{ENCODE_KERNELS, GATHER_PACKED_KERNELS},
};
use attn_tests::{simt::HostOp, synthetic::values};
use attn_variants::kv_formats::PerChannel;
use half::{bf16, f16};

use pools::{GuardedBytes, HEADS, Pools, SLOTS, TOKENS, scales};

/// Formats for keys and values, and contiguous rows of `dim` elements in `dtype`.
struct Packing {
    formats: KvFormats,
    dtype: Dtype,
    dim: usize,
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
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let encode = HostOp::encode(transform.variant(), dtype, folders[0].path());
        let gather = HostOp::gather_packed(transform.variant(), dtype, folders[1].path());
        let packing = Packing { formats, dtype, dim };
        for narrow in [false, true] {
            let pools = packing.append(&encode, &transform, narrow);
            packing.gather(&gather, &transform, narrow, &pools);
        }
    }
}

impl Packing {
    fn name(&self, narrow: bool) -> String {
        format!("{} of {} from {}, narrow: {narrow}", self.formats, self.dim, self.dtype)
    }

    fn packed_shape(&self) -> [usize; 3] {
        [TOKENS, HEADS, self.dim]
    }

    /// Appends rows on the CPU and by the kernel, `narrow` by that for rows that are not aligned to 16 bytes, compares
    /// the bytes, and gives the kernel's pools.
    fn append(&self, kernel: &HostOp, transform: &Transform, narrow: bool) -> Pools {
        let &Packing { ref formats, dtype, dim } = self;
        let name = self.name(narrow);
        let new = [1, 2].map(|seed| GuardedBytes::elements(dtype, &rows(dim, seed)));
        let (mut want, got) = (Pools::new(formats, dim), Pools::new(formats, dim));
        let [k, v] = new.each_ref().map(|x| x.tensor(dtype, &self.packed_shape()));
        let slots = SlotMapping::Slots { slots: Array::host(&SLOTS), positions: None };
        let how = Append { scales: scales(), ..Append::at(slots) };
        append::append(&KvRef::new(k, v), &mut want.write(), &how, Some(transform)).expect("sound");

        let chunk = if narrow { 1 } else { 16 / dtype.size() };
        let mut params = got.params(dtype, new.each_ref(), dim, chunk);
        params.base.slots = SLOTS.as_ptr() as u64;
        let ctas = (TOKENS * HEADS).div_ceil(32) as u32;
        let smem_bytes = OP_THREADS / 32 * dim as u32 * 4;
        let symbol = ENCODE_KERNELS[usize::from(narrow)];
        // SAFETY: the arrays have the extents of the parameters.
        unsafe { kernel.run(symbol, &params, Some(transform.variant()), [ctas, 2], smem_bytes) };
        got.codes.iter().chain(&got.sides).chain(&new).for_each(|bytes| bytes.assert_guards(&name));
        for part in [0, 1] {
            assert!(got.codes[part].get() == want.codes[part].get(), "{name}: codes of part {part}");
            assert!(got.sides[part].get() == want.sides[part].get(), "{name}: side data of part {part}");
        }
        got
    }

    /// Gathers rows of three requests from pools, on the CPU and by the kernel, and compares them.
    fn gather(&self, kernel: &HostOp, transform: &Transform, narrow: bool, pools: &Pools) {
        let &Packing { dtype, dim, .. } = self;
        let (name, packed) = (self.name(narrow), self.packed_shape());
        let (page_indptr, pages, kv_indptr) = ([0, 3, 3, 4], [8, 2, 5, 0], [0, 9, 9, 13]);
        let unwritten = || GuardedBytes::elements(dtype, &vec![f32::NAN; TOKENS * HEADS * dim]);
        let (mut want, got) = ([unwritten(), unwritten()], [unwritten(), unwritten()]);
        {
            let [k, v] = &mut want;
            let mut to = KvMut::new(k.tensor_mut(dtype, &packed), v.tensor_mut(dtype, &packed));
            let table = PageTableRows::Csr { indptr: Array::host(&page_indptr), pages: Array::host(&pages) };
            let how = Gather { scales: scales(), ..Gather::new(Array::host(&kv_indptr), table) };
            gather::gather_with(&pools.read(), &mut to, &how, Some(transform)).expect("sound");
        }
        let mut params = pools.params(dtype, got.each_ref(), dim, 8);
        params.base = RowsParams {
            indptr: kv_indptr.as_ptr() as u64,
            page_indptr: page_indptr.as_ptr() as u64,
            pages: pages.as_ptr() as u64,
            entries: pages.len() as i64,
            num_requests: 3,
            ..params.base
        };
        let ctas = (TOKENS * HEADS).div_ceil(params.base.part[0].share.rows as usize) as u32;
        let symbol = GATHER_PACKED_KERNELS[usize::from(narrow)];
        // SAFETY: the arrays have the extents of the parameters.
        unsafe { kernel.run(symbol, &params, Some(transform.variant()), [ctas, 2], 0) };
        got.iter().for_each(|bytes| bytes.assert_guards(&name));
        for (part, (got, want)) in got.iter().zip(&want).enumerate() {
            same_numbers(&format!("{name}: gathered part {part}"), dtype, got.get(), want.get());
        }
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
