//! Parameter tensors of every rank and type, and output tensors: generated C++ against Rust, bit for bit; and the
//! layout of their structs.

use std::ffi::c_void;

use attn_core::lang::interval::IntervalOf;
use attn_core::lang::param_tensor::{OutBuffer, ParamElement};
use attn_core::lang::params::{ArgVisitor, ParamField, TensorArg};
use attn_core::lang::{
    Bits, Dims, F8E4M3, F8E5M2, LogitIndex, OutTensor1, OutTensor2, OutTensor3, OutTensor4, QueryTile, RowIndex,
    Tensor, Tensor0, Tensor2, Tensor3, Tensor4, Tile, TileClass,
};
use attn_core::{Variant, random};
use attn_kernels::splice::variant::{part_layout, part_offsets, parts_source, variant_source};
use attn_tests::host::{self, HostVariant};
use attn_tests::tables::{Dice, FloatTables, MaskTables, Stores, WholeTables, variants};
use half::{bf16, f16};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const DIMS: Dims = Dims {
    qo_heads: Some(6),
    kv_heads: Some(3),
    head_dim: Some(16),
    value_dim: Some(16),
    batch: Some(2),
    qo_tokens: Some(300),
    kv_tokens: Some(500),
};

/// Random bits.
fn noise(n: usize, stream: u32) -> Vec<u32> {
    (0..n as u32).map(|i| random::bits(9, stream, i, 0)).collect()
}

fn tensor<T: ParamElement, const RANK: usize>(shape: [usize; RANK], values: Vec<T>) -> Tensor<T, RANK> {
    Tensor::new(values, shape).expect("as many as the shape has")
}

fn filled<T: ParamElement, const RANK: usize>(
    shape: [usize; RANK],
    stream: u32,
    of: impl Fn(u32) -> T,
) -> Tensor<T, RANK> {
    let packed = if std::mem::size_of::<T>() == 1 && T::ELEM == attn_core::lang::desc::Elem::Bits { 8 } else { 1 };
    let n = shape.iter().product::<usize>().div_ceil(packed);
    tensor(shape, noise(n, stream).into_iter().map(of).collect())
}

fn float(x: u32) -> f32 {
    (x >> 8) as f32 / 1e5 - 80.0
}

fn at(rng: &mut SmallRng) -> LogitIndex {
    let mut i = || if rng.random_range(0..40) == 0 { rng.random() } else { rng.random_range(-2..18) };
    let (qo_pos, kv_pos, qo_token, kv_token) = (i(), i(), i(), i());
    let row = RowIndex { batch: 0, qo_row: 0, qo_pos, qo_token, qo_head: 1, kv_head: 1, qo_len: 4, kv_len: 40 };
    LogitIndex { row, kv_pos, kv_token, kv_slot: 0 }
}

fn float_tables() -> FloatTables {
    FloatTables {
        before: false,
        a: Tensor0::from(0.1),
        b: filled([7], 1, |x| f16::from_f32(float(x))),
        c: filled([3, 5], 2, |x| bf16::from_f32(float(x))),
        odd: -5,
        d: filled([2, 3, 5], 3, |x| F8E4M3(x as u8)),
        e: filled([2, 3, 2, 5], 4, |x| F8E5M2(x as u8)),
        f: Tensor0::from(f16::from_f32(1e-7)),
        g: filled([4, 2, 3], 5, float),
        h: (0..=255).map(F8E4M3).collect(),
        i: tensor([16, 16], (0..=255).map(F8E5M2).collect()),
        j: filled([1, 3, 2, 5], 6, float),
        after: 9,
    }
}

fn whole_tables() -> WholeTables {
    WholeTables {
        a: Tensor0::from(i32::MIN),
        b: filled([7], 11, |x| x as u8),
        c: filled([3, 5], 12, |x| x),
        odd: true,
        d: filled([2, 3, 5], 13, |x| x as i32),
        e: filled([2, 3, 2, 5], 14, |x| x as u8),
        f: filled([11], 15, |x| Bits(x as u8)),
        g: filled([3, 5], 16, |x| x & 1 == 1),
        h: filled([2, 3, 5], 17, |x| Bits(x as u8)),
        i: filled([2, 3, 2, 5], 18, |x| x & 1 == 1),
        j: Tensor0::from(255),
        k: Tensor::from_values(vec![true], []).expect("one"),
        l: filled([9], 19, |x| x),
    }
}

#[test]
fn elements_equal_rust_bit_for_bit() {
    for variant in [Variant::from(float_tables()), Variant::from(whole_tables())] {
        let variant = variant.bind(&DIMS).expect("sound");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = HostVariant::compile(&variant, folder.path());
        let mut rng = SmallRng::seed_from_u64(3);
        for n in 0..40_000 {
            let mut at = at(&mut rng);
            at.row.qo_row = n % 13;
            if at.row.qo_row >= 7 && n % 2 == 0 {
                at.row.qo_pos = rng.random_range(-3..260);
            }
            let mut want = [if n % 3 == 0 { 1.0 } else { -1.0 }];
            let got = host.logits_transform(want[0], at);
            variant.logits_tile(&mut want, at);
            let same = got.to_bits() == want[0].to_bits() || got.is_nan() && want[0].is_nan();
            assert!(same, "{got} is not {} at {at:?} of {}", want[0], variant.parts().next().expect("one").desc().name);
        }
    }
}

#[test]
fn every_f16_and_bf16_is_read_as_half_reads_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = format!(
        "{}\nextern \"C\" float of_f16(unsigned short x) {{ return lang::half_to_float(x); }}\n\
         extern \"C\" float of_bf16(const lang::Bf16* x) {{ return Tensor0<lang::Bf16>{{x}}(); }}\n",
        host::lang()
    );
    let library = host::library(folder.path(), &text);
    // SAFETY: the signatures are those of the text above.
    let of_f16 = unsafe { library.get::<unsafe extern "C" fn(u16) -> f32>(b"of_f16") }.expect("it is there");
    // SAFETY: the signature is that of the text above.
    let of_bf16 = unsafe { library.get::<unsafe extern "C" fn(*const u16) -> f32>(b"of_bf16") }.expect("it is there");
    for bits in 0..=u16::MAX {
        // SAFETY: plain functions of a number, and of a pointer to one.
        let (a, b) = unsafe { (of_f16(bits), of_bf16(&raw const bits)) };
        for (got, want) in [(a, f16::from_bits(bits).to_f32()), (b, bf16::from_bits(bits).to_f32())] {
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{bits:#06x}: {got} is not {want}"
            );
        }
    }
}

#[test]
fn the_compiler_lays_members_out_as_the_host_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stress = attn_tests::language_stress::variants().iter().chain(attn_tests::corner_cases::variants());
    for desc in variants().iter().chain(stress) {
        let offsets = part_offsets(desc);
        let (size, align) = part_layout(desc);
        let source = parts_source(&[desc]).expect("one part");
        let mut text = format!("{}\n{source}\n#line 1 \"layout\"\nusing P = decltype(Variant::part0);\n", host::lang());
        text += &format!("static_assert(sizeof(P) == {size} && alignof(P) == {align}, \"size\");\n");
        for (member, offset) in offsets {
            text += &format!("static_assert(__builtin_offsetof(P, {member}) == {offset}, \"{member}\");\n");
        }
        let _ = host::library(folder.path(), &text);
    }
}

fn mask_tables(rng: &mut SmallRng) -> MaskTables {
    let mut rising = 0;
    MaskTables {
        of_query: (0..300)
            .map(|_| {
                rising += i32::from(rng.random_range(0..20) == 0);
                rising
            })
            .collect(),
        of_key: (0..500).map(|i| i / 33 + i32::from(rng.random_range(0..200) == 0) * 100).collect(),
        group: filled([6, 5], 21, |x| x as u8 % 9),
        block: rng.random_range(1..40),
        keep: filled([20, 20], 22, |x| Bits((x & x >> 8) as u8)),
        flags: Tensor3::new((0..240).map(|i| i / 7 % 2 == 0).collect(), [2, 3, 40]).expect("240"),
        steps: Tensor4::new((0..240).map(|i| i % 40 / 4).collect(), [2, 1, 3, 40]).expect("240"),
        stride: rng.random_range(1..12),
        limit: Tensor0::from(rng.random_range(0..4)),
    }
}

#[test]
fn tile_classes_over_tensors_are_sound_and_equal_rust() {
    let mut rng = SmallRng::seed_from_u64(5);
    let mut decided = 0;
    for _ in 0..4 {
        let variant = Variant::from(mask_tables(&mut rng)).bind(&DIMS).expect("sound");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = HostVariant::compile(&variant, folder.path());
        for _ in 0..2000 {
            let (rows, keys) = (rng.random_range(1..20), rng.random_range(1..64));
            let (row, key) = (rng.random_range(0..300 - rows), rng.random_range(0..500 - keys));
            let batch = rng.random_range(0..2);
            let head = rng.random_range(0..3);
            let rows_of = QueryTile {
                batch,
                qo_row_min: row,
                qo_row_max: row + rows - 1,
                qo_pos_min: row + 200,
                qo_pos_max: row + 199 + rows,
                qo_token_min: row,
                qo_token_max: row + rows - 1,
                qo_head_min: 2 * head,
                qo_head_max: 2 * head + 1,
                kv_head_min: head,
                kv_head_max: head,
                qo_len: 300,
                kv_len: 500,
            };
            let (kv_pos_min, kv_pos_max) = (key, key + keys - 1);
            let tile =
                Tile { rows: rows_of, kv_pos_min, kv_pos_max, kv_token_min: kv_pos_min, kv_token_max: kv_pos_max };
            let class = variant.tile_class(tile);
            assert_eq!(host.tile_class(tile), class, "{tile:?}");
            decided += i32::from(class != TileClass::Partial);
            for n in 0..rows * 2 {
                let (r, qo_head) = (row + n / 2, 2 * head + n % 2);
                let row = RowIndex {
                    batch,
                    qo_row: r,
                    qo_pos: r + 200,
                    qo_token: r,
                    qo_head,
                    kv_head: head,
                    qo_len: 300,
                    kv_len: 500,
                };
                let at = LogitIndex { row, kv_pos: key, kv_token: key, kv_slot: 0 };
                let mut keep = vec![true; keys as usize];
                variant.mask_tile(&mut keep, at);
                match class {
                    TileClass::Skip => assert!(keep.iter().all(|x| !x), "{tile:?}"),
                    TileClass::Full => assert!(keep.iter().all(|x| *x), "{tile:?}"),
                    TileClass::Partial => {}
                }
                assert_eq!(host.logits_mask(at), keep[0], "{at:?}");
            }
        }
    }
    assert!(decided > 300, "only {decided} of 8000 tiles are decided");
}

fn stores() -> Stores {
    Stores {
        most: OutTensor1::filled(f32::NEG_INFINITY, [6]).expect("small"),
        logits: OutTensor2::new([300, 500]).expect("small"),
        three: OutTensor3::filled(-0.0, [2, 3, 5]).expect("small"),
        four: OutTensor4::new([2, 3, 2, 5]).expect("small"),
        scale: 0.5,
    }
}

#[test]
fn stores_equal_rust() {
    let (rust, cxx) = (stores(), stores());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = HostVariant::compile(&Variant::from(cxx.clone()).bind(&DIMS).expect("sound"), folder.path());
    let variant = Variant::from(rust.clone()).bind(&DIMS).expect("sound");
    let mut rng = SmallRng::seed_from_u64(8);
    for _ in 0..20_000 {
        let mut at = at(&mut rng);
        at.row.qo_head = rng.random_range(-1..9);
        let logit = if rng.random_range(0..50) == 0 { f32::NAN } else { rng.random_range(-9.0..9.0) };
        assert_eq!(host.logits_transform(logit, at).to_bits(), logit.to_bits());
        variant.logits_tile(&mut [logit], at);
    }
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(cxx.most.to_vec()), bits(rust.most.to_vec()));
    assert_eq!(bits(cxx.logits.to_vec()), bits(rust.logits.to_vec()));
    assert_eq!(bits(cxx.three.to_vec()), bits(rust.three.to_vec()));
    assert_eq!(bits(cxx.four.to_vec()), bits(rust.four.to_vec()));
    assert!(rust.most.to_vec().iter().all(|x| *x > 8.0), "{:?}", rust.most);
    assert!(rust.logits.to_vec().iter().filter(|x| **x != 0.0).count() > 200);
}

#[test]
fn random_numbers_equal_rust_bit_for_bit() {
    let variant = Variant::from(Dice { seed: 77 }).bind(&DIMS).expect("sound");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = HostVariant::compile(&variant, folder.path());
    let mut rng = SmallRng::seed_from_u64(2);
    for _ in 0..5000 {
        let at = at(&mut rng);
        let mut want = [0.0];
        variant.logits_tile(&mut want, at);
        assert_eq!(host.logits_transform(0.0, at).to_bits(), want[0].to_bits());
        let mut keep = [true];
        variant.mask_tile(&mut keep, at);
        assert_eq!(host.logits_mask(at), keep[0]);
        assert_eq!(host.sink_logit(at.row).to_bits(), variant.sink_logit(at.row).to_bits());
    }
}

/// The bytes of a `TensorN` and a `TensorBounds`, and the arrays that they point to.
#[derive(Default)]
struct TensorBytes {
    tensor: Vec<u64>,
    range: Vec<u64>,
    tables: Vec<Vec<u64>>,
}

impl ArgVisitor for TensorBytes {
    fn scalar(&mut self, _: u32) {}
    fn tensor(&mut self, tensor: TensorArg<'_>) {
        let mut table = |bytes: &[u8]| {
            self.tables.push(host::words(bytes));
            self.tables.last().map_or(0, |words| words.as_ptr() as u64)
        };
        let data = table(tensor.bytes);
        let blocks = tensor.bounds.blocks();
        let blocks = if blocks.is_empty() {
            0
        } else {
            table(&blocks.iter().flatten().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>())
        };
        let extents: Vec<u8> = tensor.shape.iter().flat_map(|&n| (n as i32).to_ne_bytes()).collect();
        self.tensor = [vec![data], host::words(&extents)].concat();
        let whole: Vec<u8> = tensor.bounds.whole().into_iter().flat_map(u32::to_ne_bytes).collect();
        self.range = [vec![blocks], host::words(&whole)].concat();
    }
    fn out(&mut self, _: Option<&OutBuffer>, _: &[i64]) {}
}

/// Compares the intervals of random boxes of a tensor, in C++ and in Rust.
fn compare_intervals<T: ParamElement, const RANK: usize>(ty: &str, t: &Tensor<T, RANK>, rng: &mut SmallRng)
where
    Tensor<T, RANK>: ParamField,
{
    let axes: Vec<String> =
        (0..RANK).map(|axis| format!(", lang::interval::coordinate(box[{axis}], box[{}])", RANK + axis)).collect();
    let text = format!(
        "{}\ninline void put(long long* out, Tristate t) {{\n\
           out[0] = t == Tristate::True;\n  out[1] = t != Tristate::False;\n}}\n\
         template <class I> void put(long long* out, lang::interval::Interval<I> i) {{\n\
           out[0] = i.lo;\n  out[1] = i.hi;\n}}\n\
         extern \"C\"\n\
         void interval(const Tensor{RANK}<{ty}>* t, const lang::TensorBounds* r, const int* box, long long* out) {{\n\
         put(out, lang::interval_of(*t, *r{}));\n}}\n",
        host::lang(),
        axes.concat()
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = host::library(folder.path(), &text);
    type IntervalFn = unsafe extern "C" fn(*const c_void, *const c_void, *const i32, *mut i64);
    // SAFETY: the signature is that of the text above.
    let function = unsafe { library.get::<IntervalFn>(b"interval") }.expect("it is there");
    let mut bytes = TensorBytes::default();
    t.visit(&mut bytes);
    for _ in 0..3000 {
        let mut bounds = [0i32; 8];
        for axis in 0..RANK {
            let n = t.shape()[axis] as i32;
            let from = rng.random_range(-3..n + 3);
            let long = if rng.random() { rng.random_range(0..4) } else { rng.random_range(0..=n + 3) };
            (bounds[axis], bounds[RANK + axis]) = (from, from + long);
        }
        let mut got = [0i64; 2];
        // SAFETY: the tensor and its bounds have the host's layout, and the box has two bounds for each axis.
        unsafe {
            function(bytes.tensor.as_ptr().cast(), bytes.range.as_ptr().cast(), bounds.as_ptr(), got.as_mut_ptr());
        }
        let wide: Vec<i64> = bounds.iter().map(|&x| i64::from(x)).collect();
        let want = t.interval_of(&wide[..RANK], &wide[RANK..2 * RANK]).expect("integers");
        assert_eq!((got[0], got[1]), want, "{ty} of {:?}: {bounds:?}", t.shape());
    }
}

#[test]
fn intervals_of_tensors_equal_rust() {
    let rng = &mut SmallRng::seed_from_u64(6);
    compare_intervals("int", &filled([1000], 31, |x| x as i32), rng);
    compare_intervals("unsigned", &filled([33], 32, |x| x), rng);
    compare_intervals("lang::PackedBits", &filled([700], 33, |x| Bits((x & x >> 8) as u8)), rng);
    compare_intervals("unsigned char", &filled([90, 200], 34, |x| x as u8), rng);
    compare_intervals("lang::PackedBits", &filled([100, 100], 35, |x| Bits(if x % 7 < 5 { 0 } else { 255 })), rng);
    compare_intervals("bool", &filled([3, 50, 70], 36, |x| x % 90 == 0), rng);
    compare_intervals("int", &filled([2, 4, 40, 66], 37, |x| x as i32), rng);
    compare_intervals("int", &Tensor0::from(-4), rng);
    compare_intervals("int", &Tensor2::<i32>::new(vec![], [0, 4]).expect("no values"), rng);
}

#[test]
fn generated_text_does_not_depend_on_values() {
    let text = |v: &Variant| variant_source(v).expect("one part");
    let (mut a, mut b) = (float_tables(), float_tables());
    b.a = Tensor0::from(7.0);
    b.odd = 1000;
    b.b = filled([7], 99, |x| f16::from_f32(float(x)));
    (a.before, b.before) = (true, false);
    assert_eq!(text(&a.into()), text(&b.into()));
    let rng = &mut SmallRng::seed_from_u64(6);
    let masks = [mask_tables(rng), mask_tables(rng)].map(Variant::from);
    assert_ne!(masks[0], masks[1]);
    assert_eq!(text(&masks[0]), text(&masks[1]), "divisors and bounds are no part of the text");
}
