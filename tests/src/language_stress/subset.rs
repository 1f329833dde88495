//! Arrays, divisions by parameters, const generics, tensors of every rank.

// parameter names in capitals are tested too
#![allow(non_snake_case)]

use attn_core::lang::{AttentionVariant, LogitIndex, OutTensor2, Row, RowIndex, Tensor0, Tensor1, Tensor3, Tensor4};
use attn_core::random;
use attn_core::{VariantParams, attention_variant, device_fn};

/// A float with few enough bits that the float tolerance hides none.
#[device_fn]
fn mixed(bits: u32) -> f32 {
    (bits.wrapping_mul(0x9e37_79b1) >> 16) as f32
}

/// A polynomial by Horner's rule.
#[device_fn]
fn polynomial(coefficients: [f32; 4], x: f32) -> f32 {
    let mut sum = 0.0;
    for i in 0..4 {
        sum = sum * x + coefficients[3 - i];
    }
    sum
}

/// Sorts three numbers.
#[device_fn]
fn sorted(values: [i32; 3]) -> [i32; 3] {
    let mut v = values;
    for i in 0..3 {
        for j in 0..2 {
            if v[j] > v[j + 1] {
                let lower = v[j + 1];
                v[j + 1] = v[j];
                v[j] = lower + (i as i32 - i as i32);
            }
        }
    }
    v
}

/// `x` to the power of `N`, or its reciprocal.
#[device_fn]
fn power<const N: i32, const INVERSE: bool>(x: f32) -> f32 {
    let mut y = 1.0;
    for _ in 0..N {
        y *= x;
    }
    if INVERSE { 1.0 / y } else { y }
}

const THREE: i32 = 3;

/// Arrays of fixed length.
#[derive(Clone, Debug, VariantParams)]
pub struct Arrays {
    /// Any value.
    pub n: i32,
    /// Any value.
    pub x: f32,
}

#[attention_variant]
impl AttentionVariant for Arrays {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let table = [0.5, -1.25, self.x.clamp(-2.0, 2.0), 3.0];
        let mut counts = [0u32; 5];
        for i in 0..at.qo_head {
            counts[i.rem_euclid(5) as usize] += i as u32 * 7;
            counts[(i & 3) as usize] ^= 0x55;
            counts[4] <<= 1;
        }
        let order: [i32; 3] = sorted([self.n, at.kv_pos, at.qo_pos]);
        let masks: [u64; 3] = [1 << 40, 0x8000_0000_0000_0001, !0 >> (self.n & 63)];
        let mut flags = [false; 2];
        flags[(at.kv_pos & 1) as usize] = true;
        flags[1] |= self.n > 3;
        let grid = [[1, 2, 3], [4, 5, 6]];
        let mut bits = counts[0] ^ counts[1] << 3 ^ counts[2] << 6 ^ counts[3].rotate_left(9) ^ counts[4];
        bits ^= (order[0] - order[1]) as u32 ^ order[2] as u32;
        bits ^= (masks[(at.kv_pos as u32 % 3) as usize] >> 31) as u32 ^ (masks[2] as u32);
        bits ^= (flags[0] as u32) << 5 ^ (flags[1] as u32) << 9;
        bits ^= grid[(at.qo_pos & 1) as usize][at.kv_pos.clamp(0, 2) as usize] as u32;
        let mut longer = [0; 20];
        for i in 0..20 {
            longer[i] = (i as i32).wrapping_mul(at.kv_pos);
        }
        bits ^= longer[at.qo_pos.clamp(0, 19) as usize] as u32;
        mixed(bits) + polynomial(table, logit.clamp(-1.0, 1.0)) + table[(at.kv_pos & 3) as usize]
    }
}

/// Division by parameters, of every sign.
#[derive(Clone, Debug, VariantParams)]
pub struct Divisions {
    /// Any value but zero.
    #[require(signed != 0)]
    pub signed: i32,
    /// Any value but zero.
    #[require(unsigned != 0)]
    pub unsigned: u32,
    /// Any value.
    pub float: f32,
    /// Named in capitals.
    #[require(N > 0)]
    pub N: i32,
}

#[attention_variant]
impl AttentionVariant for Divisions {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let block = self.signed;
        let mut i = at.kv_pos.wrapping_mul(1_000_003) - at.qo_pos;
        let mut bits = (i / self.signed) as u32 ^ (i % self.signed) as u32;
        bits ^= (i.div_euclid(self.signed)) as u32 ^ (i.rem_euclid(self.signed) << 3) as u32;
        bits ^= bits.rotate_left(7) / self.unsigned ^ (bits % self.unsigned);
        bits ^= (100 / self.N) as u32 ^ (-100 % self.N) as u32 ^ 4_000_000_000 / self.unsigned;
        i /= self.N;
        i %= block;
        bits ^= i as u32 ^ ((at.kv_pos / block) == (at.qo_pos / block)) as u32;
        let quotient = if self.float == 0.0 { 0.0 } else { self.float / self.float };
        let mut x = if logit.is_finite() { logit.clamp(-9.0, 9.0) } else { 1.0 };
        x /= self.float.abs() + 1.0;
        mixed(bits) + quotient + x
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.qo_pos - at.kv_pos) / self.N < 3 && at.kv_pos % self.N != 1
    }
}

/// A mask of one interval a row, as models write it with strict comparisons, and guards of several conditions.
#[derive(Clone, Debug, VariantParams)]
pub struct Between {
    /// Any value.
    pub width: i32,
    /// Any value.
    pub first: i32,
    /// Part of guards.
    pub wide: bool,
}

#[attention_variant]
impl AttentionVariant for Between {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        match at.qo_head {
            0 | 3 if self.wide || at.kv_pos > at.qo_pos => logit - (self.width as f32 - at.kv_pos as f32),
            1..=2 if at.kv_pos < self.first || self.wide && at.qo_pos > 9 => logit / (self.first as f32 * 2.0),
            _ => logit,
        }
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let width = self.width.clamp(1, 60);
        at.kv_pos > at.qo_pos - width && at.qo_pos >= at.kv_pos
    }
}

/// Generic over constants.
#[derive(Clone, Debug, VariantParams)]
pub struct Windowed<const N: i32, const SIGN: bool> {
    /// Any value.
    pub shift: i32,
}

impl<const N: i32, const SIGN: bool> Windowed<N, SIGN> {
    const TWICE: i32 = N * 2;
}

#[attention_variant(name = "windowed", instances((4, true), (-8, false)))]
impl<const N: i32, const SIGN: bool> AttentionVariant for Windowed<N, SIGN> {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let x = if logit.is_nan() { 2.0 } else { logit.clamp(-1.5, 1.5) };
        let powers = power::<4, false>(x) + power::<THREE, true>(x + 2.0);
        powers + if SIGN { 1.0 } else { at.kv_head as f32 }
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos + self.shift < at.qo_pos + Self::TWICE && at.kv_pos % N.abs() != 1
    }
}

/// Parameter tensors of every rank, random numbers, stores, and rows combined with tensors.
#[derive(Clone, Debug, VariantParams)]
pub struct Ranks {
    /// Rank 0.
    pub scale: Tensor0<f32>,
    /// Rank 1.
    #[shape(head_dim)]
    pub weights: Tensor1<f32>,
    /// Rank 3.
    #[shape(2, qo_heads, 3)]
    pub three: Tensor3<i32>,
    /// Rank 4.
    #[shape(2, kv_heads, 2, 2)]
    pub four: Tensor4<u8>,
    /// The stored logits.
    #[shape(qo_heads, 64)]
    pub dump: OutTensor2,
    /// Seed of the random numbers.
    pub seed: u32,
}

#[attention_variant]
impl AttentionVariant for Ranks {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let scale = q.dot(|d| self.weights[d]) + 1.0;
        q.zip(|d| self.weights[d + at.qo_head], |d, x, w| x * w + scale * d as f32);
    }

    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if at.batch == 0 {
            self.dump.store([at.qo_head, at.kv_pos], logit);
        } else {
            self.dump.atomic_max([at.qo_head, at.kv_pos], logit * 2.0);
        }
        let mut bits = self.three[[at.batch, at.qo_head, at.kv_pos - 4]] as u32;
        bits ^=
            self.four[[at.batch, at.kv_head, at.qo_row & 1, at.kv_pos]] as u32 ^ random::bits(self.seed, 1, bits, 9);
        let drawn = random::uniform(self.seed, 0, at.qo_token as u32, at.kv_pos as u32);
        mixed(bits) + self.scale.get() * drawn
    }
}
