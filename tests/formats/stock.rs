//! The stock KV formats: the Rust against a reference in f64 and integers, and the generated C++, compiled for the
//! host, against the Rust; to the bit, on many rows and every code.

use attn_core::lang::kv_format::{EncodeRow, ErasedKvFormat, KvFormat, KvFormats, LinearCodes, Packed, PackedMut};
use attn_core::lang::{Dims, Tensor2};
use attn_tests::kv_format_host::{self, HostFormats};
use attn_tests::kv_format_reference::{Reference, Stored};
use attn_variants::kv_formats::{self, Bf16, DsMla, F16, Int4, Int8, MxFp8, Nvfp4, PerChannel, Turbo4};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const KV_HEADS: usize = 3;

/// A stock format, what it should do, and a head dimension.
struct Case {
    format: Box<dyn ErasedKvFormat>,
    reference: Reference,
    dim: usize,
}

fn case(format: impl KvFormat + ErasedKvFormat, reference: Reference, dim: usize) -> Case {
    let mut format: Box<dyn ErasedKvFormat> = Box::new(format);
    let dims = Dims {
        kv_heads: Some(KV_HEADS as i64),
        head_dim: Some(dim as i64),
        value_dim: Some(dim as i64),
        ..Dims::default()
    };
    format.bind(&dims).expect("it fits");
    Case { format, reference, dim }
}

/// Every stock format, with several parameters and head dimensions, one of them no power of two.
fn cases() -> Vec<Case> {
    let mut cases = vec![case(DsMla, Reference::DsMla, 576)];
    for dim in [64, 128, 72] {
        cases.push(case(Int8, Reference::Int8, dim));
        cases.push(case(Nvfp4, Reference::Nvfp4, dim));
        cases.push(case(MxFp8, Reference::MxFp8, dim));
        cases.push(case(Turbo4::default(), Reference::Turbo4, dim));
    }
    for (group, zero, dim) in [(32, false, 64), (32, true, 128), (8, true, 72), (64, false, 128), (24, false, 72)] {
        cases.push(case(Int4 { group, zero }, Reference::Int4 { group: group as usize, zero }, dim));
    }
    let mut rng = SmallRng::seed_from_u64(31);
    for (bits, dim) in [(8, 64), (4, 128), (4, 72)] {
        let mut scale = || if rng.random_range(0..20) == 0 { 0.0 } else { rng.random_range(0.001f32..0.2) };
        let scales: Vec<Vec<f32>> = (0..KV_HEADS).map(|_| (0..dim).map(|_| scale()).collect()).collect();
        let tensor = Tensor2::new(scales.concat(), [KV_HEADS, dim]).expect("one an element");
        let reference = Reference::PerChannel { bits, scales };
        cases.push(case(PerChannel { bits: bits as i32, scales: tensor }, reference, dim));
    }
    cases.push(case(Bf16, Reference::Bf16, 64));
    cases.push(case(F16, Reference::F16, 64));
    assert!(kv_formats::all().iter().all(|desc| cases.iter().any(|case| std::ptr::eq(case.format.desc(), *desc))));
    cases
}

/// A row of one of many kinds.
fn row(dim: usize, rng: &mut SmallRng) -> Vec<f32> {
    let normal = |rng: &mut SmallRng| {
        let (u, v): (f32, f32) = (rng.random_range(1e-7..1.0), rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
    };
    let mut x: Vec<f32> = (0..dim).map(|_| normal(rng)).collect();
    let at = rng.random_range(0..dim);
    match rng.random_range(0..16) {
        // heavy tails
        0 | 1 => x.iter_mut().for_each(|v| *v = *v * *v * *v * *v * *v),
        2 => x.fill(0.0),
        3 => {
            x.fill(0.0);
            x[at] = normal(rng);
        }
        // numbers that f32 has no full mantissa for
        4 => x.iter_mut().for_each(|v| *v = f32::from_bits(v.to_bits() >> rng.random_range(7..24))),
        // halves of a step: ties
        5 => {
            x.iter_mut().for_each(|v| *v = (*v * 8.0).round() / 2.0);
            x[at] = *[127.0, 7.0, 6.0, 448.0, 63.5, 3.5].get(rng.random_range(0..6)).expect("six");
        }
        6 => x.iter_mut().for_each(|v| *v = v.signum() * 65504.0),
        7 => x[at] = f32::NAN,
        8 => x[at] = if rng.random() { f32::INFINITY } else { f32::NEG_INFINITY },
        // any size
        9 | 10 => {
            let scale = rng.random_range(-140.0f32..125.0).exp2();
            x.iter_mut().for_each(|v| *v *= scale);
        }
        11 => x.iter_mut().for_each(|v| *v = f32::from_bits(rng.random())),
        12 => x.fill(normal(rng) * rng.random_range(-140.0f32..125.0).exp2()),
        13 => x.iter_mut().for_each(|v| *v = v.abs() + 3.0),
        _ => {}
    }
    x
}

fn encoded(format: &dyn ErasedKvFormat, x: &[f32], kv_head: usize) -> Stored {
    let bytes = |n: i32| vec![0xff; usize::try_from(n).expect("a size")];
    let dim = x.len() as i32;
    let (mut codes, mut side) = (bytes(format.code_bytes(dim)), bytes(format.side_bytes(dim)));
    format.encode_row(x, &mut codes, &mut side, kv_head as i32);
    (codes, side)
}

fn decoded(format: &dyn ErasedKvFormat, (codes, side): &Stored, kv_head: usize, dim: usize) -> Vec<f32> {
    let mut x = vec![0.0; dim];
    format.decode_row(codes, side, kv_head as i32, &mut x);
    x
}

/// Bits, of which all NaNs have the same.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect()
}

/// Stored rows with every code of a byte or of two bytes, and side data of every byte, and of random floats.
fn stored_rows(case: &Case, rng: &mut SmallRng) -> Vec<Stored> {
    let (n_codes, n_side) = case.reference.bytes(case.dim);
    let floats = |rng: &mut SmallRng, bytes: &mut [u8]| {
        for four in bytes.chunks_exact_mut(4) {
            four.copy_from_slice(&f32::from_bits(rng.random()).to_le_bytes());
        }
    };
    let rounds: u32 = match case.reference {
        // 65536 codes of two bytes
        Reference::Bf16 | Reference::F16 => 1 << 10,
        // 256 bytes of scales beside 256 codes; f16 scales beside 16 codes
        _ => 1 << 12,
    };
    let mut rows = Vec::new();
    for round in 0..rounds {
        let mut codes: Vec<u8> = (0..n_codes).map(|i| (i as u32 + round) as u8).collect();
        let mut side: Vec<u8> = (0..n_side).map(|i| (round / 16 + i as u32) as u8).collect();
        match case.reference {
            Reference::Int8 | Reference::Turbo4 => floats(rng, &mut side),
            Reference::DsMla => floats(rng, &mut codes[512..528]),
            Reference::Int4 { .. } => {
                for (i, two) in side.chunks_exact_mut(2).enumerate() {
                    two.copy_from_slice(&((round * 16 + i as u32) as u16).to_le_bytes());
                }
            }
            Reference::Bf16 | Reference::F16 => {
                for (i, two) in codes.chunks_exact_mut(2).enumerate() {
                    two.copy_from_slice(&((round * 64 + i as u32) as u16).to_le_bytes());
                }
            }
            _ => {}
        }
        rows.push((codes, side));
    }
    rows.push((vec![0xff; n_codes], vec![0xff; n_side]));
    rows
}

#[test]
fn stored_bytes_are_those_of_the_reference() {
    let mut rng = SmallRng::seed_from_u64(1);
    for case in cases() {
        let Case { format, reference, dim } = &case;
        let (codes, side) = reference.bytes(*dim);
        assert_eq!((format.code_bytes(*dim as i32), format.side_bytes(*dim as i32)), (codes as i32, side as i32));
        for _ in 0..4_000 {
            let (x, kv_head) = (row(*dim, &mut rng), rng.random_range(0..KV_HEADS));
            let got = encoded(&**format, &x, kv_head);
            assert_eq!(got, reference.encode(&x, kv_head), "{format} {x:?}");
            assert_eq!(bits(&decoded(&**format, &got, kv_head, *dim)), bits(&reference.decode(&got, kv_head, *dim)));
        }
    }
}

#[test]
fn every_code_is_read_as_by_the_reference() {
    let mut rng = SmallRng::seed_from_u64(2);
    for case in cases() {
        for stored in stored_rows(&case, &mut rng) {
            let Case { format, reference, dim } = &case;
            let (got, want) = (decoded(&**format, &stored, 1, *dim), reference.decode(&stored, 1, *dim));
            assert_eq!(bits(&got), bits(&want), "{format} {stored:?}");
        }
    }
}

#[test]
fn generated_cpp_equals_rust() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = HostFormats::compile(kv_formats::all(), folder.path());
    let mut rng = SmallRng::seed_from_u64(3);
    for case in cases() {
        let Case { format, dim, .. } = &case;
        let cpp = host.of(&**format);
        let mut x_of_cpp = vec![0.0; *dim];
        for _ in 0..4_000 {
            let (x, kv_head) = (row(*dim, &mut rng), rng.random_range(0..KV_HEADS));
            let (codes, side) = encoded(&**format, &x, kv_head);
            let (mut codes_of_cpp, mut side_of_cpp) = (vec![0xff; codes.len()], vec![0xff; side.len()]);
            cpp.encode(&x, &mut codes_of_cpp, &mut side_of_cpp, kv_head as i32);
            assert_eq!((&codes_of_cpp, &side_of_cpp), (&codes, &side), "{format} {x:?}");
            cpp.decode(&codes, &side, kv_head as i32, &mut x_of_cpp);
            assert_eq!(bits(&x_of_cpp), bits(&decoded(&**format, &(codes, side), kv_head, *dim)), "{format}");
        }
        for stored in stored_rows(&case, &mut rng) {
            cpp.decode(&stored.0, &stored.1, 1, &mut x_of_cpp);
            assert_eq!(bits(&x_of_cpp), bits(&decoded(&**format, &stored, 1, *dim)), "{format} {stored:?}");
        }
    }
}

/// A compiler may fuse `a * b + c`, so products of floats are calls of `mul_rn`.
#[test]
fn no_text_has_a_product_of_floats_as_an_operator() {
    for desc in kv_formats::all() {
        let text = kv_format_host::text(desc);
        assert!(text.contains("void encode(const R& x") && text.contains("Eight decode(C codes"));
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // products of integers are indices and shifts
            for (at, _) in line.match_indices(" * ") {
                let operands =
                    [line[..at].rsplit([' ', '(', '[']).next(), line[at + 3..].split([' ', ')', ']', ',']).next()];
                let is_integer =
                    |word: &str| word.chars().all(|c| c.is_ascii_digit()) || ["g", "i", "d"].contains(&word);
                assert!(operands.into_iter().flatten().any(is_integer), "{}: {line}", desc.name);
            }
            assert!(!line.contains("*=") && !line.contains("/="), "{}: {line}", desc.name);
        }
        assert!(text.contains("mul_rn(") || text.contains("mul_add(") || text.contains("bits::"), "{}", desc.name);
    }
}

/// Bounds on what is lost: a step of the codes, and what a stored scale was rounded by.
#[test]
fn errors_are_within_a_step() {
    let mut rng = SmallRng::seed_from_u64(4);
    let mut seen = 0;
    for Case { format, dim, reference } in cases() {
        for _ in 0..500 {
            let x: Vec<f32> = row(dim, &mut rng);
            let most = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
            if !(1e-3..1e3).contains(&most) || x.iter().any(|v| !v.is_finite()) {
                continue;
            }
            let read = decoded(&*format, &encoded(&*format, &x, 0), 0, dim);
            for (d, (&v, &w)) in x.iter().zip(&read).enumerate() {
                let most_of =
                    |group: usize| x[d / group * group..].iter().take(group).fold(0.0f32, |m, v| m.max(v.abs()));
                let spread_of = |group: usize| {
                    let part = x[d / group * group..].iter().take(group);
                    let (low, high) = part.fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
                    high - low
                };
                let bound = match &reference {
                    Reference::Int8 => most / 127.0 * 0.5001,
                    // an f16 scale below 2^-14 has few bits
                    Reference::Int4 { group, zero: false } => most_of(*group) / 7.0 * 0.505 + 1e-6,
                    Reference::Int4 { group, .. } => spread_of(*group) / 15.0 * 0.51 + most_of(*group) * 2e-3 + 2e-6,
                    Reference::Nvfp4 => (v.abs() / 4.0).max(most_of(16) / 6.0 * 0.27) + most_of(16) / 16.0 + 0.012,
                    Reference::MxFp8 => v.abs() / 8.0 + most_of(32) * 1e-3,
                    Reference::DsMla if d < 512 => v.abs() / 15.9 + most_of(128) * 1e-4 + 1e-6,
                    Reference::DsMla | Reference::Bf16 => v.abs() / 255.0,
                    Reference::F16 => v.abs() / 2047.0 + 1e-7,
                    // their error is bounded for the whole row alone
                    Reference::PerChannel { .. } | Reference::Turbo4 => continue,
                };
                seen += 1;
                assert!((v - w).abs() <= bound, "{format} [{d}]: {v} is read as {w}, bound {bound}");
            }
        }
    }
    assert!(seen > 100_000);
}

/// The CUDA header of `bits` against its Rust, and against the bits of rows by the writer of numbers.
#[test]
fn numbers_are_stored_as_their_bits() {
    let mut rng = SmallRng::seed_from_u64(5);
    for _ in 0..200_000 {
        let x = f32::from_bits(rng.random());
        let mut bytes = [0; 8];
        let mut to = PackedMut::new(&mut bytes);
        to.set_f16(0, x);
        to.set_bf16(2, x);
        to.set_e4m3(4, x);
        let two = |at: usize| u32::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let want = [attn_core::bits::f16_bits(x), attn_core::bits::bf16_bits(x), attn_core::bits::e4m3_bits(x)];
        assert_eq!([two(0), two(2), u32::from(bytes[4])], want, "{x:e}");
    }
}

/// Codes without a scale.
#[derive(Clone, attn_core::VariantParams)]
struct Whole {
    /// What `scale` says.
    said: f32,
    /// What it says of other KV heads than the first.
    #[default(1.0)]
    said_of_others: f32,
}

#[attn_core::kv_format(name = "whole")]
impl KvFormat for Whole {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack8(0, x, 0, x.dim(), |_, v| v as i32 as u32);
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = ((codes.u8(d + i) << 24) as i32 >> 24) as f32;
        }
        out
    }
    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::signed(8, 0))
    }
    fn scale(&self, _side: Packed<'_>, kv_head: i32, _group: i32) -> f32 {
        if kv_head == 0 { self.said } else { self.said_of_others }
    }
}

/// Kernels may read codes either way, so binding compares both.
#[test]
fn linear_codes_that_decode_to_others_are_refused() {
    let dims = Dims { head_dim: Some(32), kv_heads: Some(3), ..Dims::default() };
    let bind = |said, said_of_others| KvFormats::both(Whole { said, said_of_others }).bind(&dims);
    bind(1.0, 1.0).expect("both ways are the same");
    for (said, said_of_others, head) in [(2.0, 1.0, "KV head 0"), (1.0, 2.0, "KV head 1")] {
        let error = bind(said, said_of_others).expect_err("decode has no factor of 2");
        let text = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
        let says = ["by `decode`", "by `linear`", head];
        assert!(says.iter().all(|words| text.contains(words)), "{error}: {text}");
    }
}

/// Products take levels as f16, and everything else that reads a cache as f32.
#[test]
fn levels_that_f16_rounds_are_refused() {
    let dims = Dims { head_dim: Some(32), ..Dims::default() };
    let bind = |last: &str| {
        let levels = (-15..0).map(|x| x.to_string()).chain([last.to_owned()]).collect::<Vec<_>>().join(",");
        KvFormats::parse(&format!("turbo4(levels=[{levels}])")).expect("16 levels").bind(&dims)
    };
    bind("0.5").expect("numbers of f16");
    let error = bind("0.1").expect_err("0.1 is no number of f16");
    let text = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
    assert!(text.contains("`level(15)` is 0.1; levels are finite numbers of f16"), "{error}: {text}");
}
