//! Formats that are accepted, near the end of their rows.
#![allow(clippy::reversed_empty_ranges)] // a loop of no rounds is a case

use super::{bound, declare};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormats};
use attn_core::{device_fn, device_type};

/// Formats with 64 bytes of codes for 64 elements and 4 of side data: `encode`, then `decode`.
macro_rules! accepted {
    ($($name:ident:
        |$x:ident, $c:ident, $s:ident, $h:ident| { $($encode:tt)* }
        |$rc:ident, $rs:ident, $rh:ident, $d:ident| { $($decode:tt)* }
    )*) => {
        $(declare!($name, |dim| dim, |_| 4, |$x, $c, $s, $h| { $($encode)* }, |$rc, $rs, $rh, $d| { $($decode)* });)*
        fn all() -> Vec<Box<dyn ErasedKvFormat>> {
            vec![$(Box::new($name)),*]
        }
    };
}

#[device_fn]
fn behind(d: i32, i: i32) -> i32 {
    let mut at = d;
    for _ in 0..i {
        at += 1;
    }
    at
}

#[device_type]
#[derive(Clone, Copy)]
struct Spot {
    at: i32,
    of: i32,
}

#[device_fn]
fn placed(d: i32) -> Spot {
    Spot { at: d / 2, of: 8i32 }
}

#[device_type]
#[derive(Clone, Copy, PartialEq)]
enum Half {
    Lower,
    Upper,
}

const LAST: i32 = 63;
const FAR: i64 = 1 << 40;
const HALF: Half = Half::Upper;

#[device_fn]
fn at_most<const MOST: i32>(x: u32) -> i32 {
    x.min(MOST as u32) as i32
}

accepted! {
    Last:
        |x, codes, side, _kv_head| {
            codes.set_u8(63, 0);
            codes.set_u16(62, 0);
            codes.set_f32(60, 0.0);
            side.set_f16(2, 0.0);
            side.set_e4m3(3, x.max_abs(63, 1));
            codes.pack16(48, x, 56, 8, |_, v| v as u32);
            codes.pack4(60, x, 56, 8, |_, v| v as u32);
        }
        |codes, side, _kv_head, d| {
            let last = codes.scaled_e4m3(56, 2.0);
            [codes.u8(d + 7) as f32, codes.words2(56)[1] as f32, side.f32(0), side.e8m0(3), last[7], 0.0, 0.0, 0.0]
        }
    // nothing is touched of no elements
    Empty:
        |x, codes, side, _kv_head| {
            side.set_f32(0, x.max_abs(64, 0) + x.sum(0, 0, |_, v| v));
            codes.pack8(1000, x, 64, 0, |_, v| v as u32);
            for i in 0..0 {
                codes.set_u8(64 + i, 0);
            }
        }
        |_codes, _side, _kv_head, _d| { [0.0; 8] }
    Bounded:
        |x, codes, _side, _kv_head| {
            codes.set_u8((x.max(0, 64) as i32).clamp(0, 63), 0);
            codes.set_u32((x.max(0, 64) as i32).clamp(0, 15) * 4, 0);
            codes.set_u16(((x.max(0, 64) as u32 & 31) << 1) as i32, 0);
        }
        |codes, side, _kv_head, _d| {
            let x = codes.u32(0);
            let signed = codes.u32(4) as i32;
            [
                codes.u8((x & 63) as i32) as f32,
                codes.u8((x % 64) as i32) as f32,
                codes.u8(signed.rem_euclid(64)) as f32,
                codes.u8((x >> 26) as i32) as f32,
                codes.u8(codes.u8(0) as i32 / 4) as f32,
                codes.u8(((signed % 32) + 31).min(LAST)) as f32,
                codes.u8(((u64::from(x) * 64) >> 32) as i32 & 63) as f32,
                codes.u32((side.f32(0) as i32).clamp(0, 60) & !3) as f32,
            ]
        }
    Guarded:
        |x, codes, _side, kv_head| {
            if kv_head < 2 {
                codes.set_u8(62 + kv_head, x.max_abs(0, 8) as u32);
            }
        }
        |codes, _side, kv_head, d| {
            if d > 31 {
                return [codes.u8(2 * d - 63) as f32; 8];
            }
            let at = match kv_head {
                0 => d,
                1 | 2 => d + 32,
                // no such head
                _ => 1000,
            };
            let second = if kv_head == 0 || d == 24 { 0 } else { 8 * d };
            [codes.u8(at) as f32, if second < 64 { codes.u8(second) as f32 } else { 0.0 }, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        }
    Loops:
        |x, codes, _side, _kv_head| {
            let mut at = 0;
            for i in 0..x.dim() {
                if i % 2 == 1 {
                    continue;
                }
                codes.set_u8(at, 0);
                at += 1;
                if at == 32 {
                    break;
                }
            }
            for i in 0..=31 {
                codes.set_u8(at + i, 0);
            }
        }
        |codes, _side, _kv_head, d| {
            let mut sum = 0;
            // so many that steps are followed together
            for i in 0..100_000 {
                sum += codes.u8(i & 63);
            }
            for i in 0..codes.u8(d) as i32 {
                if i == 64 {
                    break;
                }
                sum += codes.u8(i.min(63));
            }
            for i in 0..codes.u8(d).min(63) {
                sum += codes.u8(i as i32 + 1);
            }
            [sum as f32; 8]
        }
    Values:
        |_x, codes, _side, _kv_head| {
            let starts = [0, 16, 32, 60];
            for i in 0..4 {
                codes.set_f32(starts[i as usize], 0.0);
            }
            let mut at = [0; 4];
            at[1] = 63;
            at[2] += 7;
            codes.set_u8(at[1], 0);
            codes.set_u8(at[2] + at[0], 0);
        }
        |codes, _side, _kv_head, d| {
            let (low, high) = (d / 2, d / 2 + 31);
            let half = if d < 32 { Half::Lower } else { Half::Upper };
            let of_half = match half {
                Half::Lower => 32 + d,
                Half::Upper => d - 32,
            };
            let spot = placed(d);
            let other = Spot { of: 63i32, ..spot };
            [
                codes.u8(low) as f32,
                codes.u8(high) as f32,
                codes.u8(of_half + 7) as f32,
                codes.u8(spot.at * 2 + spot.of - 1) as f32,
                codes.u8(other.of) as f32,
                codes.u8(behind(d, 7)) as f32,
                if half == Half::Upper { codes.u8(d - 32) as f32 } else { 0.0 },
                codes.u8(if codes.u8(0) > 3 { LAST } else { 0 }) as f32,
            ]
        }
    Constants:
        |_x, codes, _side, _kv_head| {
            codes.set_u8(if HALF == Half::Upper { LAST } else { 1000 }, 0);
            codes.set_u8((FAR >> 35) as i32 + 31, 0);
        }
        |codes, side, kv_head, d| {
            let near = (i64::from(d) * FAR / FAR) as i32;
            let byte = side.u8(kv_head) as u8;
            [
                codes.u8(near + 7) as f32,
                codes.u8(at_most::<63>(codes.u32(0))) as f32,
                codes.u8((byte / 4) as i32) as f32,
                codes.u8((byte & 7) as i32 * 8 + 7) as f32,
                0.0,
                0.0,
                0.0,
                0.0,
            ]
        }
}

#[test]
fn formats_that_stay_within_their_rows() {
    for format in all() {
        let name = format.desc().name;
        let mut formats = KvFormats::of(format.clone(), format);
        let dims = attn_core::lang::Dims { head_dim: Some(64), kv_heads: Some(3), ..attn_core::lang::Dims::default() };
        formats.bind(&dims).unwrap_or_else(|error| panic!("{name}: {error}"));
        super::probe::stays_within(formats.keys(), 64, 3);
    }
}

/// Every dimension that a stock format has, up to far more than kernels read.
#[test]
fn stock_formats_of_every_dimension() {
    use attn_variants::kv_formats::{Bf16, DsMla, F16, Int4, Int8, MxFp8, Nvfp4, Turbo4};
    for dim in (8..=1024).step_by(8).chain([4096, 65_536]) {
        bound(Bf16, dim).expect("bf16");
        bound(F16, dim).expect("f16");
        bound(Int8, dim).expect("int8");
        bound(MxFp8, dim).expect("mx_fp8");
        bound(Nvfp4, dim).expect("nvfp4");
        bound(Turbo4::default(), dim).expect("turbo4");
        for group in [8, 16, 24, 32, 64, 128].into_iter().filter(|group| dim % i64::from(*group) == 0) {
            bound(Int4 { group, zero: false }, dim).expect("int4");
            bound(Int4 { group, zero: true }, dim).expect("int4");
        }
        for bits in [4, 8] {
            let scales =
                attn_core::lang::Tensor2::new(vec![0.5; 3 * dim as usize], [3, dim as usize]).expect("three rows");
            bound(attn_variants::kv_formats::PerChannel { bits, scales }, dim).expect("per_channel");
        }
    }
    bound(DsMla, 576).expect("ds_mla");
}
