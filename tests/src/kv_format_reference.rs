//! The stock KV formats once more, in f64 and integers, from their descriptions alone: without the language and without
//! code of the library.

mod arithmetic;
mod small_float;

use arithmetic::{
    code, divided, f16_round, floor_log2, largest, least, max_abs, padded, put_f32, put_nibbles, put_u16, rounded,
    saturated, times, tree,
};
use small_float::{BF16, E2M1, E4M3, F16};

/// A stock format with its parameters.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // as the formats
pub enum Reference {
    Int8,
    Int4 { group: usize, zero: bool },
    PerChannel { bits: u32, scales: Vec<Vec<f32>> },
    Nvfp4,
    MxFp8,
    DsMla,
    Turbo4,
    Bf16,
    F16,
}

/// A stored row: codes and side data. Bytes that a format does not write are 0xff.
pub type Stored = (Vec<u8>, Vec<u8>);

impl Reference {
    /// Bytes of a row's codes and of its side data.
    pub fn bytes(&self, dim: usize) -> (usize, usize) {
        let padded = |n: usize| n.div_ceil(4) * 4;
        match self {
            Reference::Int8 => (dim, 4),
            Reference::Int4 { group, zero } => {
                (dim / 2, if *zero { 4 * (dim / group) } else { (2 * (dim / group)).next_multiple_of(4) })
            }
            Reference::PerChannel { bits: 8, .. } => (dim, 0),
            Reference::PerChannel { .. } => (dim / 2, 0),
            Reference::Nvfp4 => (dim / 2, padded(dim.div_ceil(16))),
            Reference::MxFp8 => (dim, padded(dim.div_ceil(32))),
            Reference::DsMla => (656, 0),
            Reference::Turbo4 => (dim / 2, 4),
            Reference::Bf16 | Reference::F16 => (2 * dim, 0),
        }
    }

    /// Stores a row.
    pub fn encode(&self, x: &[f32], kv_head: usize) -> Stored {
        let (n_codes, n_side) = self.bytes(x.len());
        let (mut codes, mut side) = (vec![0xff; n_codes], vec![0xff; n_side]);
        match self {
            Reference::Int8 => int8(x, &mut codes, &mut side),
            Reference::Int4 { group, zero: false } => int4(x, *group, &mut codes, &mut side),
            Reference::Int4 { group, zero: true } => int4_with_zeros(x, *group, &mut codes, &mut side),
            Reference::PerChannel { bits, scales } => per_channel(x, *bits, &scales[kv_head], &mut codes),
            Reference::Nvfp4 => nvfp4(x, &mut codes, &mut side),
            Reference::MxFp8 => mxfp8(x, &mut codes, &mut side),
            Reference::DsMla => ds_mla(x, &mut codes),
            Reference::Turbo4 => turbo4(x, &mut codes, &mut side),
            Reference::Bf16 => x.iter().enumerate().for_each(|(d, &v)| put_u16(&mut codes, 2 * d, BF16.encode(v))),
            Reference::F16 => x.iter().enumerate().for_each(|(d, &v)| put_u16(&mut codes, 2 * d, F16.encode(v))),
        }
        (codes, side)
    }

    /// Reads the first `dim` elements of a stored row.
    pub fn decode(&self, (codes, side): &Stored, kv_head: usize, dim: usize) -> Vec<f32> {
        let nibble = |d: usize| i32::from(codes[d / 2] >> (4 * (d % 2)) & 15);
        let signed = |d: usize| (nibble(d) ^ 8) - 8;
        let u16_at = |bytes: &[u8], at: usize| u32::from(bytes[at]) | u32::from(bytes[at + 1]) << 8;
        let f32_at = |bytes: &[u8], at: usize| f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let element = |d: usize| match self {
            Reference::Int8 => times(f32::from(codes[d] as i8), f32_at(side, 0)),
            Reference::Int4 { group, zero: false } => {
                times(signed(d) as f32, F16.value(u16_at(side, 2 * (d / group))) as f32)
            }
            Reference::Int4 { group, .. } => {
                let g = d / group;
                // a product of 15 bits and a number of 11 bits, both of f16's range: their sum is exact
                (f64::from(nibble(d)) * F16.value(u16_at(side, 4 * g)) + F16.value(u16_at(side, 4 * g + 2))) as f32
            }
            Reference::PerChannel { bits: 8, scales } => times(f32::from(codes[d] as i8), scales[kv_head][d]),
            Reference::PerChannel { scales, .. } => times(signed(d) as f32, scales[kv_head][d]),
            Reference::Nvfp4 => times(E2M1.value(nibble(d) as u32) as f32, E4M3.value(u32::from(side[d / 16])) as f32),
            Reference::MxFp8 => match side[d / 32] {
                255 => f32::NAN,
                e => (E4M3.value(u32::from(codes[d])) * 2f64.powi(i32::from(e) - 127)) as f32,
            },
            Reference::DsMla if d < 512 => {
                times(E4M3.value(u32::from(codes[d])) as f32, f32_at(codes, 512 + 4 * (d / 128)))
            }
            Reference::DsMla => BF16.value(u16_at(codes, 528 + 2 * (d - 512))) as f32,
            Reference::Turbo4 => times(levels()[nibble(d) as usize], f32_at(side, 0)),
            Reference::Bf16 => BF16.value(u16_at(codes, 2 * d)) as f32,
            Reference::F16 => F16.value(u16_at(codes, 2 * d)) as f32,
        };
        (0..dim).map(element).collect()
    }
}

/// A scale of the row, the largest magnitude / 127.
fn int8(x: &[f32], codes: &mut [u8], side: &mut [u8]) {
    let scale = (max_abs(x) / 127.0) as f32;
    put_f32(side, 0, scale);
    for (byte, &v) in codes.iter_mut().zip(x) {
        *byte = code(v, scale, -127, 127) as u8;
    }
}

/// A scale of each group in f16, its largest magnitude / 7; of an odd number of groups, two bytes of zeros follow.
fn int4(x: &[f32], group: usize, codes: &mut [u8], side: &mut [u8]) {
    if x.len() / group % 2 == 1 {
        put_u16(side, 2 * (x.len() / group), 0);
    }
    for (g, part) in x.chunks(group).enumerate() {
        let scale = f16_round(saturated(max_abs(part) / 7.0));
        put_u16(side, 2 * g, F16.encode(scale));
        let nibbles: Vec<i32> = part.iter().map(|&v| code(v, scale, -8, 7)).collect();
        put_nibbles(&mut codes[g * group / 2..], &nibbles);
    }
}

/// A scale and a zero of each group in f16: its range / 15, and its least element.
fn int4_with_zeros(x: &[f32], group: usize, codes: &mut [u8], side: &mut [u8]) {
    for (g, part) in x.chunks(group).enumerate() {
        let zero = f16_round(saturated(least(part)));
        let above_zero = |v: f64| (v - f64::from(zero)) as f32;
        let scale = f16_round(saturated(f64::from(above_zero(largest(part))) / 15.0));
        put_u16(side, 4 * g, F16.encode(scale));
        put_u16(side, 4 * g + 2, F16.encode(zero));
        let nibbles: Vec<i32> = part.iter().map(|&v| code(above_zero(f64::from(v)), scale, 0, 15)).collect();
        put_nibbles(&mut codes[g * group / 2..], &nibbles);
    }
}

/// Calibrated scales, which are parameters.
fn per_channel(x: &[f32], bits: u32, scales: &[f32], codes: &mut [u8]) {
    let quotient = |d: usize, low, high| rounded(divided(x[d], scales[d]), low, high);
    if bits == 8 {
        (0..x.len()).for_each(|d| codes[d] = quotient(d, -127, 127) as u8);
    } else {
        let nibbles: Vec<i32> = (0..x.len()).map(|d| quotient(d, -8, 7)).collect();
        put_nibbles(codes, &nibbles);
    }
}

/// e2m1, with a scale in e4m3 for 16 elements: their largest magnitude / 6.
fn nvfp4(x: &[f32], codes: &mut [u8], side: &mut [u8]) {
    for (g, part) in x.chunks(16).enumerate() {
        let stored = E4M3.encode((max_abs(part) / 6.0) as f32);
        side[g] = stored as u8;
        let scale = E4M3.value(stored) as f32;
        let nibble = |&v: &f32| if scale == 0.0 { 0 } else { E2M1.encode(divided(v, scale)) as i32 };
        put_nibbles(&mut codes[8 * g..], &part.iter().map(nibble).collect::<Vec<_>>());
    }
}

/// e4m3, with a power of two for 32 elements, of which the exponent + 127 is stored; 255 is NaN.
fn mxfp8(x: &[f32], codes: &mut [u8], side: &mut [u8]) {
    for (g, part) in x.chunks(32).enumerate() {
        let exponent = match max_abs(part) {
            most if !most.is_finite() => 255,
            most if most < 2f64.powi(-126) => 0,
            most => (floor_log2(most) - 8 + 127).max(0),
        };
        side[g] = exponent as u8;
        let scale = if exponent == 255 { f64::NAN } else { 2f64.powi(exponent - 127) };
        for (d, &v) in part.iter().enumerate() {
            codes[32 * g + d] = E4M3.encode((f64::from(v) / scale) as f32) as u8;
        }
    }
}

/// 512 elements in e4m3, with a power of two for 128 of them in f32 behind these, then 64 elements in bf16.
fn ds_mla(x: &[f32], codes: &mut [u8]) {
    for (g, part) in x[..512].chunks(128).enumerate() {
        let least = f64::from((max_abs(part) / 448.0) as f32);
        let scale = if least.is_finite() {
            let least = least.max(f64::from(1e-4f32));
            let power = 2f64.powi(floor_log2(least));
            if power < least { 2.0 * power } else { power }
        } else {
            // a NaN or an infinity
            least
        };
        put_f32(codes, 512 + 4 * g, scale as f32);
        for (d, &v) in part.iter().enumerate() {
            codes[128 * g + d] = E4M3.encode((f64::from(v) / scale) as f32) as u8;
        }
    }
    for (d, &v) in x[512..].iter().enumerate() {
        put_u16(codes, 528 + 2 * d, BF16.encode(v));
    }
}

/// Levels of a normal distribution for the elements over the row's root mean square; the scale gives the row of levels
/// the length of the row.
fn turbo4(x: &[f32], codes: &mut [u8], side: &mut [u8]) {
    let squares = |values: Vec<f32>| values.into_iter().map(|v| times(v, v)).collect::<Vec<_>>();
    let root = |sum: f32| f64::from(sum).sqrt() as f32;
    let length = root(tree(&padded(squares(x.to_vec()))));
    let unit = divided(length, root(x.len() as f32));
    let levels = levels();
    // the number of middles between levels that are below the element
    let nearest = |v: f32| {
        let quotient = divided(v, unit);
        levels.windows(2).filter(|pair| (pair[0] + pair[1]) / 2.0 < quotient).count()
    };
    let nibbles: Vec<i32> = x.iter().map(|&v| nearest(v) as i32).collect();
    let of_levels = squares(nibbles.iter().map(|&c| levels[c as usize]).collect());
    put_f32(side, 0, divided(length, root(tree(&padded(of_levels)))));
    put_nibbles(codes, &nibbles);
}

/// The levels of turbo4, from a table of the optimal quantiser of a normal distribution, rounded to f16.
fn levels() -> [f32; 16] {
    let half = [0.128_395, 0.388_048_3, 0.656_759_1, 0.942_340_5, 1.256_231_2, 1.618_046_4, 2.069_017_2, 2.732_589_6];
    let half = half.map(f16_round);
    std::array::from_fn(|i| if i < 8 { -half[7 - i] } else { half[i - 8] })
}
