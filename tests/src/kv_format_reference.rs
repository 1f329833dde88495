//! The stock KV formats once more, in f64 and integers, from their descriptions alone: without the language and without
//! code of the library.

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
            Reference::Int8 => {
                let s = (max_abs(x) / 127.0) as f32;
                put_f32(&mut side, 0, s);
                for (byte, &v) in codes.iter_mut().zip(x) {
                    *byte = code(v, s, -127, 127) as u8;
                }
            }
            Reference::Int4 { group, zero } => {
                if !zero && x.len() / group % 2 == 1 {
                    put_u16(&mut side, 2 * (x.len() / group), 0);
                }
                for (g, part) in x.chunks(*group).enumerate() {
                    let at = g * group / 2;
                    let nibbles: Vec<i32> = if *zero {
                        let z = f16_round(saturated(least(part)));
                        let s = f16_round(saturated(f64::from((largest(part) - f64::from(z)) as f32) / 15.0));
                        put_u16(&mut side, 4 * g, F16.encode(s));
                        put_u16(&mut side, 4 * g + 2, F16.encode(z));
                        part.iter().map(|&v| code((f64::from(v) - f64::from(z)) as f32, s, 0, 15)).collect()
                    } else {
                        let s = f16_round(saturated(max_abs(part) / 7.0));
                        put_u16(&mut side, 2 * g, F16.encode(s));
                        part.iter().map(|&v| code(v, s, -8, 7)).collect()
                    };
                    put_nibbles(&mut codes[at..], &nibbles);
                }
            }
            Reference::PerChannel { bits, scales } => {
                let quotient = |d: usize, low, high| rounded(divided(x[d], scales[kv_head][d]), low, high);
                if *bits == 8 {
                    (0..x.len()).for_each(|d| codes[d] = quotient(d, -127, 127) as u8);
                } else {
                    let nibbles: Vec<i32> = (0..x.len()).map(|d| quotient(d, -8, 7)).collect();
                    put_nibbles(&mut codes, &nibbles);
                }
            }
            Reference::Nvfp4 => {
                for (g, part) in x.chunks(16).enumerate() {
                    let scale = E4M3.encode((max_abs(part) / 6.0) as f32);
                    side[g] = scale as u8;
                    let s = E4M3.value(scale) as f32;
                    let nibble = |&v: &f32| if s == 0.0 { 0 } else { E2M1.encode(divided(v, s)) as i32 };
                    put_nibbles(&mut codes[8 * g..], &part.iter().map(nibble).collect::<Vec<_>>());
                }
            }
            Reference::MxFp8 => {
                for (g, part) in x.chunks(32).enumerate() {
                    let most = max_abs(part);
                    let e = match most {
                        m if !m.is_finite() => 255,
                        m if m < 2f64.powi(-126) => 0,
                        m => (floor_log2(m) - 8 + 127).max(0),
                    };
                    side[g] = e as u8;
                    let scale = if e == 255 { f64::NAN } else { 2f64.powi(e - 127) };
                    for (d, &v) in part.iter().enumerate() {
                        codes[32 * g + d] = E4M3.encode((f64::from(v) / scale) as f32) as u8;
                    }
                }
            }
            Reference::DsMla => {
                for (g, part) in x[..512].chunks(128).enumerate() {
                    let least = f64::from((max_abs(part) / 448.0) as f32);
                    let s = match least {
                        l if l.is_nan() => f64::NAN,
                        l if l.is_infinite() => f64::INFINITY,
                        l => {
                            let l = l.max(f64::from(1e-4f32));
                            let power = 2f64.powi(floor_log2(l));
                            if power < l { 2.0 * power } else { power }
                        }
                    };
                    put_f32(&mut codes, 512 + 4 * g, s as f32);
                    for (d, &v) in part.iter().enumerate() {
                        codes[128 * g + d] = E4M3.encode((f64::from(v) / s) as f32) as u8;
                    }
                }
                for (d, &v) in x[512..].iter().enumerate() {
                    put_u16(&mut codes, 528 + 2 * d, BF16.encode(v));
                }
            }
            Reference::Turbo4 => {
                let squares = |values: Vec<f32>| values.into_iter().map(|v| times(v, v)).collect::<Vec<_>>();
                let root = |sum: f32| f64::from(sum).sqrt() as f32;
                let length = root(tree(&padded(squares(x.to_vec()))));
                let unit = divided(length, root(x.len() as f32));
                let levels = levels();
                let below = |v: f32| {
                    let quotient = divided(v, unit);
                    levels.windows(2).filter(|pair| (pair[0] + pair[1]) / 2.0 < quotient).count()
                };
                let nibbles: Vec<i32> = x.iter().map(|&v| below(v) as i32).collect();
                let of_levels = squares(nibbles.iter().map(|&c| levels[c as usize]).collect());
                put_f32(&mut side, 0, divided(length, root(tree(&padded(of_levels)))));
                put_nibbles(&mut codes, &nibbles);
            }
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

/// A small floating-point format: bits of the mantissa, the exponent's bias, and the codes of the largest finite
/// magnitude, of infinity if there is one, and of NaN.
struct Small {
    mantissa: u32,
    bias: i32,
    sign: u32,
    last: u32,
    infinity: Option<u32>,
    nan: u32,
}

const F16: Small = Small { mantissa: 10, bias: 15, sign: 15, last: 0x7bff, infinity: Some(0x7c00), nan: 0x7e00 };
const BF16: Small = Small { mantissa: 7, bias: 127, sign: 15, last: 0x7f7f, infinity: Some(0x7f80), nan: 0x7fc0 };
const E4M3: Small = Small { mantissa: 3, bias: 7, sign: 7, last: 0x7e, infinity: None, nan: 0x7f };
/// A NaN becomes the largest magnitude.
const E2M1: Small = Small { mantissa: 1, bias: 1, sign: 3, last: 7, infinity: None, nan: 7 };

impl Small {
    fn magnitude(&self, code: u32) -> f64 {
        let (exponent, mantissa) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        let unit = |exponent: i32| 2f64.powi(exponent - self.bias - self.mantissa as i32);
        match exponent {
            0 => f64::from(mantissa) * unit(1),
            e => f64::from(mantissa + (1 << self.mantissa)) * unit(e as i32),
        }
    }

    fn value(&self, code: u32) -> f64 {
        let size = code & ((1 << self.sign) - 1);
        let magnitude = match size {
            s if s <= self.last => self.magnitude(s),
            s if Some(s) == self.infinity => f64::INFINITY,
            _ => f64::NAN,
        };
        if code >> self.sign & 1 == 1 { -magnitude } else { magnitude }
    }

    /// The code of the nearest value by a search in all of them; of two as near the even one.
    fn encode(&self, x: f32) -> u32 {
        if x.is_nan() {
            return self.nan;
        }
        let size = f64::from(x.abs());
        // the first code that is not smaller, in steps that halve the range
        let (mut low, mut high) = (0, self.last + 1);
        while low < high {
            let middle = (low + high) / 2;
            (low, high) = if self.magnitude(middle) < size { (middle + 1, high) } else { (low, middle) };
        }
        // beyond the last the next step of the same size decides
        let above = low;
        let (distance_above, distance_below) =
            (self.magnitude(above) - size, if above == 0 { f64::INFINITY } else { size - self.magnitude(above - 1) });
        let nearest = match distance_above.total_cmp(&distance_below) {
            std::cmp::Ordering::Less => above,
            std::cmp::Ordering::Greater => above - 1,
            std::cmp::Ordering::Equal => above - above % 2,
        };
        let nearest = if size.is_infinite() { self.last + 1 } else { nearest };
        let code = if nearest > self.last { self.infinity.unwrap_or(self.last) } else { nearest };
        code | u32::from(x.is_sign_negative()) << self.sign
    }
}

fn f16_round(x: f64) -> f32 {
    F16.value(F16.encode(x as f32)) as f32
}

/// A finite number within the range of f16.
fn saturated(x: f64) -> f64 {
    if x.is_finite() { f64::from(x as f32).clamp(-65504.0, 65504.0) } else { x }
}

/// The correctly rounded quotient: f64 has more than twice the bits.
fn divided(a: f32, b: f32) -> f32 {
    (f64::from(a) / f64::from(b)) as f32
}

/// The correctly rounded product.
fn times(a: f32, b: f32) -> f32 {
    (f64::from(a) * f64::from(b)) as f32
}

/// The nearest integer, of two as near the even one; within bounds, and 0 for a NaN.
fn rounded(x: f32, low: i32, high: i32) -> i32 {
    if x.is_nan() {
        return 0;
    }
    let x = f64::from(x).clamp(f64::from(low), f64::from(high));
    let below = x.floor();
    let odd = below.rem_euclid(2.0) == 1.0;
    (if x - below > 0.5 || x - below == 0.5 && odd { below + 1.0 } else { below }) as i32
}

/// The code of an element, 0 where the scale is 0.
fn code(x: f32, scale: f32, low: i32, high: i32) -> i32 {
    if scale == 0.0 { 0 } else { rounded(divided(x, scale), low, high) }
}

fn floor_log2(x: f64) -> i32 {
    ((x.to_bits() >> 52 & 0x7ff) as i32) - 1023
}

/// The largest magnitude, a NaN if there is one.
fn max_abs(x: &[f32]) -> f64 {
    largest(&x.iter().map(|v| v.abs()).collect::<Vec<_>>())
}

fn largest(x: &[f32]) -> f64 {
    if x.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    f64::from(x.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })) + 0.0
}

fn least(x: &[f32]) -> f64 {
    // a zero is positive
    -largest(&x.iter().map(|v| -v).collect::<Vec<_>>()) + 0.0
}

/// The tree of a sum: elements at even places and those at odd places, each as such a tree.
fn tree(x: &[f32]) -> f32 {
    match x {
        [one] => *one,
        x => {
            let half = |from: usize| x.iter().copied().skip(from).step_by(2).collect::<Vec<_>>();
            tree(&half(0)) + tree(&half(1))
        }
    }
}

fn padded(mut x: Vec<f32>) -> Vec<f32> {
    x.resize(x.len().next_power_of_two(), 0.0);
    x
}

/// The levels of turbo4, from a table of the optimal quantiser of a normal distribution, rounded to f16.
fn levels() -> [f32; 16] {
    let half = [0.128_395, 0.388_048_3, 0.656_759_1, 0.942_340_5, 1.256_231_2, 1.618_046_4, 2.069_017_2, 2.732_589_6];
    let half = half.map(f16_round);
    std::array::from_fn(|i| if i < 8 { -half[7 - i] } else { half[i - 8] })
}

fn put_f32(bytes: &mut [u8], at: usize, x: f32) {
    let x = if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x };
    bytes[at..at + 4].copy_from_slice(&x.to_le_bytes());
}

fn put_u16(bytes: &mut [u8], at: usize, x: u32) {
    (bytes[at], bytes[at + 1]) = (x as u8, (x >> 8) as u8);
}

fn put_nibbles(bytes: &mut [u8], nibbles: &[i32]) {
    for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks(2)) {
        *byte = (pair[0] & 15) as u8 + 16 * (pair[1] & 15) as u8;
    }
}
