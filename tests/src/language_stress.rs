//! Variants that are no real attention but use every language feature, for the host differential test.

// this code is more complicated than necessary on purpose
#![allow(clippy::all, unused_assignments)]

use attn_core::lang::{
    AttentionVariant, KvIndex, LogitIndex, Normalizer, Row, RowIndex, RowState, Tensor1, Tensor2, approx,
};
use attn_core::{VariantParams, attention_variant, device_fn};

pub mod masks;
pub mod own_types;
pub mod signed_64;
pub mod subset;

/// Helpers of another module.
pub mod helpers {
    use attn_core::device_fn;

    /// A constant of another module.
    pub const LIMIT: i32 = 37;

    /// Calls another helper, and reads a constant.
    #[device_fn]
    pub fn mix(x: f32, n: i32) -> f32 {
        if n > LIMIT {
            return super::halve(x) - self::LIMIT as f32;
        }
        x + n as f32
    }
}

/// Half of `x`. Called from two modules.
#[device_fn]
fn halve(x: f32) -> f32 {
    x * 0.5
}

/// Named like a function of the generated text.
#[device_fn]
fn div(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { a / b }
}

/// Returns a tuple.
#[device_fn]
fn both(x: f32, n: u32) -> (f32, u32) {
    (x * 2.0, n.wrapping_mul(2_654_435_761))
}

const SCALE: f32 = 0.1;
const BIG: u64 = 0x9e37_79b9_7f4a_7c15;
const LOWEST: i32 = i32::MIN;

/// Integer arithmetic: wrapping, division, shifts, methods, of every width.
#[derive(Clone, Debug, VariantParams)]
pub struct I32Slice {
    /// Any value.
    pub a: i32,
    /// Any value.
    pub b: i32,
    /// Any value.
    pub u: u32,
    /// Any value.
    #[shape(qo_heads)]
    pub table: Tensor1<i32>,
    /// Any value.
    #[shape(qo_heads)]
    pub unsigned: Tensor1<u32>,
}

#[attention_variant]
impl AttentionVariant for I32Slice {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (a, b) = (self.a, self.b);
        let i = at.kv_pos;
        let n = if b == 0 || b == -1 { 7 } else { b };
        let mut sum = a + b * i - self.table[i];
        sum = sum ^ (a / n) ^ (a % n) ^ (i / 3) ^ (i % 5);
        sum ^= a << 5;
        sum ^= a >> 7;
        sum += a << (i & 63);
        sum -= b >> (i & 63);
        sum *= 1_000_003;
        sum |= 1;
        sum &= !(1 << 4);
        sum = sum.wrapping_add(a.abs_diff(b) as i32);
        sum = sum ^ -a ^ !b ^ a.wrapping_neg() ^ a.signum();
        sum = sum ^ a.min(b) ^ a.max(b) ^ a.clamp(-100, 100) ^ b.abs();
        sum = sum ^ a.rem_euclid(n) ^ a.div_euclid(n) ^ a.wrapping_mul(b).wrapping_sub(i);
        sum = sum ^ a.saturating_add(b) ^ a.saturating_sub(b) ^ a.wrapping_shl(33) ^ b.wrapping_shr(40);
        sum =
            sum ^ a.pow(3) ^ a.rotate_left(7) ^ b.rotate_right(0) ^ (i32::MAX - i) ^ LOWEST ^ (a.unsigned_abs() as i32);
        let ones = a.count_ones() + b.leading_zeros() * 3 + self.table[i].trailing_zeros();
        let mut u = self.u + ones - self.unsigned[i];
        u = (u * 3 / 7) % 1_000_007 + (u >> 3) ^ (u << 2) ^ (self.u | 5) ^ (u & 0xff00_ff00);
        u ^= self.unsigned[at.qo_head] / (self.u | 1) ^ self.u % (self.unsigned[0] | 1);
        u ^= u.saturating_sub(self.u) ^ u.saturating_add(self.u) ^ u.abs_diff(self.u) ^ u.pow(2) ^ !self.u;
        u ^= u.rotate_left(self.u & 31) ^ 0_u32.leading_zeros() ^ u32::MAX ^ u32::from(self.u.is_power_of_two());
        let mut long = BIG ^ u64::from(u) << 17;
        long = (long * 0x2545_f491_4f6c_dd1d) >> (u & 63);
        long ^= long.count_ones() as u64 ^ (long % 1_000_003) ^ long.rotate_right(9);
        let byte = (u as u8).wrapping_add(200) ^ (a as u8).wrapping_mul(3) ^ b'x' ^ (u as u8).rotate_left(3);
        let byte = byte + (byte >> 2) - (byte << 1) * 5;
        let small = byte as i32 + byte.leading_zeros() as i32 + byte.count_ones() as i32;
        let bits = sum as u32 ^ u ^ (long as u32) ^ ((long >> 32) as u32) ^ small as u32;
        // few enough bits that the float tolerance hides none
        (bits.wrapping_mul(0x9e37_79b1) >> 16) as f32 + logit * 0.0
    }
}

/// Casts between every two types, saturation and NaN included.
#[derive(Clone, Debug, VariantParams)]
pub struct Casts {
    /// Any value.
    pub a: i32,
    /// Any value.
    pub flag: bool,
}

#[attention_variant]
impl AttentionVariant for Casts {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let big = logit * 1e8;
        let mut bits = (logit as i32 as u32) ^ (big as i32) as u32 ^ (big as u32) ^ ((logit as u8) as u32);
        bits ^= (big * 1e10) as u64 as u32 ^ ((big * 1e6) as u64 >> 32) as u32;
        bits ^= self.flag as u32 ^ (!self.flag as i32 as u32) << 3;
        bits ^= (self.a as u8 as i32 as u32) ^ (self.a as u64 >> 32) as u32 ^ (self.a as u32 as u64 as i32) as u32;
        let f = self.a as f32 + (self.a as u32) as f32 + (self.a as u64) as f32 + (self.a as u8) as f32;
        let kept = (logit as u8 as f32) + (f32::NAN as i32 as f32) + (f32::INFINITY as i32 as f32);
        let low = (-f32::INFINITY) as i32 as f32 + (f32::MAX as u32 as f32) + (f32::from(at.kv_pos as u8));
        let back = f32::from_bits((logit.to_bits() & 0x007f_ffff) | 0x3f80_0000);
        let exact = (bits.wrapping_mul(0x9e37_79b1) >> 16) as f32;
        if at.qo_head & 1 == 0 { exact } else { f + kept + low * 0.5 + back }
    }

    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        (logit as i32 % 17) as f32 + (at.kv_pos as f32 as u32) as f32
    }

    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
}

/// Arithmetic of f32, NaN and infinities included.
#[derive(Clone, Debug, VariantParams)]
pub struct Floats {
    /// Any value. Named like a function of the generated text.
    pub exp: f32,
    /// Any value. Named like a keyword of C++.
    pub double: f32,
}

#[attention_variant]
impl AttentionVariant for Floats {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let x = logit;
        let least = x.min(self.exp).max(f32::NAN).min(f32::MAX);
        let near = x.clamp(-3.5, 4.25).abs() + x.signum() * 2.0 + x.copysign(self.double);
        let rounded = x.floor() + x.ceil() * 2.0 + x.trunc() * 4.0 + x.round() * 8.0 + x.round_ties_even() * 16.0;
        let rest = x % 1.75 + x.rem_euclid(2.5) + x.div_euclid(2.5) + x.fract();
        let class = x.is_nan() as i32 + x.is_finite() as i32 * 2 + x.is_infinite() as i32 * 4;
        let class = class + x.is_sign_negative() as i32 * 8;
        let e = (x.clamp(-20.0, 20.0)).exp() + x.abs().min(30.0).exp2() + x.abs().sqrt() + (x.abs() + 1e-3).ln();
        let (s, c) = x.sin_cos();
        let trig = s + c * 2.0 + x.sin() - x.cos() + x.tanh() + x.clamp(-1.0, 1.0).tan();
        let small = x.clamp(-1.0, 1.0);
        let arcs = small.sinh() + small.cosh() + small.asin() + small.acos() + x.atan() + x.atan2(1.5) + x.hypot(2.0);
        let trig = trig + arcs + x.cbrt() + attn_core::lang::math::erf(x) + small.exp_m1() + x.abs().ln_1p();
        let logs = (x.abs() + 1.0).log2() + (x.abs() + 1.0).log10() + x.abs().ln_1p() + x.clamp(-1.0, 1.0).exp_m1();
        let power = (x.abs() + 0.5).min(4.0).powf(1.5) + x.clamp(-2.0, 2.0).powi(-3) + x.clamp(-2.0, 2.0).powi(5);
        let fma = x.mul_add(self.exp, -self.double) - -x + 1.0 / (x - 1.0) + x.recip();
        let near_zero = approx::tanh(x) + approx::exp(x.min(1.0)) + approx::recip(x + 3.0);
        let literals = 1e-38 + 3.4028235e38 * 0.0 + 0.1 + 16777217.0 - 1_000.5_f32 + f32::EPSILON;
        // a NaN in one term must not hide the others
        let mut total = literals + class as f32;
        total += if least.is_finite() { least } else { 1.0 };
        total += if near.is_finite() { near } else { 2.0 };
        total += if rounded.is_finite() { rounded } else { 4.0 };
        total += if rest.is_finite() { rest } else { 8.0 };
        total += if e.is_finite() { e } else { 16.0 };
        total += if trig.is_finite() { trig } else { 32.0 };
        total += if (logs + power).is_finite() { logs + power } else { 64.0 };
        total += if fma.is_finite() { fma } else { 128.0 };
        total -= if near_zero.is_finite() { near_zero } else { at.qo_pos as f32 };
        total * SCALE
    }

    fn sink_logit(&self, at: RowIndex) -> f32 {
        if at.qo_head == 3 { f32::NEG_INFINITY } else { self.exp - std::f32::consts::PI }
    }
}

/// Control flow, shadowing, tuples, helpers, constants.
#[derive(Clone, Debug, VariantParams)]
pub struct Control {
    /// Any value.
    pub steps: i32,
    /// Any value.
    pub mode: u32,
    /// Any value.
    pub flag: bool,
}

impl Control {
    const OFFSET: i32 = -5;
}

#[attention_variant(name = "control_flow")]
impl AttentionVariant for Control {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if at.kv_pos == 3 {
            return logit;
        }
        let min = logit * 2.0;
        let x = at.kv_pos % 11;
        let x = x + 1;
        let x = {
            let y = x * 2;
            let y = y + x;
            y - Self::OFFSET
        };
        let kind = match x {
            0 => 1.0,
            1..=9 => 2.0,
            10 | 12 | 14 => 3.0,
            LOWEST => 4.0,
            n if n % 2 == 0 => n as f32,
            15.. => -1.5,
            _ => 5.0,
        };
        let mut acc = kind;
        let mut i = 0;
        for step in 0..self.steps {
            if step == 4 {
                continue;
            }
            if step > 9 {
                break;
            }
            i += step;
            acc = acc * 0.5 + step as f32;
        }
        for k in 1..=3 {
            for j in k..at.qo_head {
                acc += (k * j) as f32;
            }
        }
        for _ in 0..(x & 3) {
            acc += 1.0;
        }
        for s in (x & 1)..(x & 3) {
            acc -= s as f32;
        }
        let mut best: f32 = 0.0;
        best = if acc > 3.0 {
            let t = acc - 3.0;
            t * t
        } else if self.flag {
            acc
        } else {
            match self.mode {
                0 => 0.25,
                1..3 => {
                    let m = self.mode as f32;
                    m * m
                }
                _ => -acc,
            }
        };
        let (a, b) = both(best, self.mode);
        let (p, (q, r)) = (a, (b, i));
        let pair = (p + min, r & 3);
        best = match self.flag {
            true => pair.0,
            false => pair.1 as f32,
        };
        let at = at.row;
        let scaled = helpers::mix(best, at.qo_pos) + halve(best) + div(r, x) as f32;
        let _ = scaled;
        let mut out = scaled + (q % 1000) as f32;
        if !self.flag && out > 0.0 || at.qo_head == 2 {
            out = -out;
        } else {
            out += helpers::LIMIT as f32;
        }
        const LOCAL: f32 = 0.125;
        out * LOCAL
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let near = at.qo_pos - at.kv_pos < self.steps;
        let even = at.kv_pos & 1 == 0;
        let mut keep = near | even;
        keep &= at.kv_pos <= at.qo_pos;
        keep ^ (self.flag && at.batch == 1) || at.kv_token == 0_i32.max(at.kv_len)
    }
}

/// The methods of rows, and tensors of rank 2.
#[derive(Clone, Debug, VariantParams)]
pub struct RowMethods {
    /// Any value.
    pub eps: f32,
    /// Any value.
    pub interleaved: bool,
    /// Any value.
    #[shape(qo_heads, head_dim)]
    pub table: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for RowMethods {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let norm = (q.sum_sq() / q.dim() as f32 + self.eps).sqrt();
        let shift = q.sum() / q.dim() as f32;
        let most = q.max_abs();
        q.map(|d, x| (x - shift) / norm + self.table[[at.qo_head, d]] * most);
        if self.interleaved {
            q.rotate_pairs(q.dim() / 2, |i| {
                let angle = at.qo_pos as f32 * self.table[[0, i]];
                (angle.cos(), angle.sin())
            });
        } else {
            q.rotate_half(q.dim(), |_| (0.6, 0.8));
        }
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|d, x| {
            if d % 2 == 0 {
                return x;
            }
            let y = x * at.kv_pos as f32;
            y + self.table[[at.kv_head - 100, d + 1000]]
        });
    }

    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, _: RowIndex) {
        let scale = if state.denominator > 1.0 { 1.0 / state.denominator } else { state.lse - state.row_max };
        o.map(|_, x| x * scale);
    }
}

/// The variants of this module.
pub fn variants() -> &'static [&'static attn_core::lang::VariantDesc] {
    use subset::{Arrays, Between, Divisions, Ranks, Windowed};
    attn_core::variants![
        I32Slice,
        Casts,
        Floats,
        Control,
        RowMethods,
        Arrays,
        Between,
        Divisions,
        own_types::OwnTypes,
        signed_64::Signed64,
        signed_64::Wide64,
        Windowed<4, true>,
        Windowed<-8, false>,
        Ranks,
        masks::MaskUnsigned,
        masks::MaskBreakInValue,
        masks::MaskContinueInValue,
        masks::MaskHalves,
        masks::PairMask,
        masks::PairsTaken,
        masks::StructMask,
        masks::StructFields,
        masks::ArrayMask,
        masks::ArrayLoop,
        masks::IndexTaken,
        masks::Wide,
        masks::Cycle,
        masks::OneCell,
        masks::Union,
        masks::Distances,
        masks::Powers,
        masks::Leaves,
        masks::LoopMask,
        masks::LoopOfTable
    ]
}
