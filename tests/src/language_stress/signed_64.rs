//! 64-bit signed integers: arithmetic, methods, casts, loops, fields, constants. Loops that are unrolled by a count.

use attn_core::lang::{AttentionVariant, LogitIndex};
use attn_core::{VariantParams, attention_variant, device_fn, device_type};

const FAR: i64 = -5_000_000_000;
const LEAST: i64 = i64::MIN;

/// A segment of a line.
#[device_type]
#[derive(Clone, Copy)]
struct Segment {
    from: i64,
    to: i64,
}

/// The part of a segment within another.
#[device_fn]
fn meet(a: Segment, b: Segment) -> Segment {
    Segment { from: a.from.max(b.from), to: a.to.min(b.to) }
}

/// Every bit of a number.
#[device_fn]
fn folded(x: i64) -> u32 {
    (x >> 32) as u32 ^ x as u32
}

/// The sum of a geometric series, which wraps.
#[device_fn]
fn series(first: i64, ratio: i64, n: i32) -> i64 {
    let (mut sum, mut term) = (0i64, first);
    #[unroll(2)]
    for _ in 0..n {
        sum = sum.wrapping_add(term);
        term = term.wrapping_mul(ratio);
    }
    sum
}

/// Calculates in i64.
#[derive(Clone, Debug, VariantParams)]
pub struct Signed64 {
    /// Any value.
    pub n: i32,
    /// Any value.
    pub u: u32,
    /// Any value.
    pub x: f32,
}

#[attention_variant]
impl AttentionVariant for Signed64 {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let wide = i64::from(self.n) * i64::from(at.kv_pos) - i64::from(self.u);
        let whole = meet(Segment { from: FAR, to: wide }, Segment { from: LEAST, to: self.x as i64 });
        let mut bits = folded(whole.from) ^ folded(whole.to);
        let by = if wide == 0 { 7 } else { wide };
        bits ^= folded(whole.to.wrapping_div(by)) ^ folded(whole.to.wrapping_rem(by)).rotate_left(3);
        bits ^= folded(whole.to.rem_euclid(1 << 33)) ^ folded((wide >> 3).saturating_mul(1 << 40));
        bits ^= folded(LEAST.saturating_add(wide)) ^ wide.unsigned_abs() as u32 ^ (wide.abs_diff(FAR) >> 7) as u32;
        bits ^= wide.count_ones() ^ wide.leading_zeros() << 8 ^ (!wide as u8 as u32) << 16;
        bits ^= folded(series(wide, -3, at.qo_head & 7)) ^ folded(-wide) ^ folded(wide.signum());
        for k in wide.clamp(-2, 2)..=3i64 {
            bits = bits.rotate_left(1) ^ folded(k << 31);
        }
        let size = wide.unsigned_abs();
        bits ^= folded(size.saturating_mul(size) as i64) ^ size.isqrt() as u32;
        let scaled = wide as f32 * 1e-12;
        // small enough for a softmax whose weights depend on every bit
        logit + scaled + (bits >> 16) as f32 * (1.0 / 16384.0)
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        i64::from(at.kv_pos) * i64::from(self.n) <= 1 << 35
    }
}

/// Calculates in i64, in a few instructions: prefill repeats them for each logit of a tile.
#[derive(Clone, Debug, VariantParams)]
pub struct Wide64 {
    /// Any value.
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for Wide64 {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let wide = i64::from(self.n) * i64::from(at.kv_pos) - i64::from(at.qo_pos);
        let bits = folded(wide.saturating_mul(3 << 20)) ^ folded(wide >> 5).rotate_left(9);
        logit + (bits >> 16) as f32 * (1.0 / 16384.0)
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        i64::from(at.kv_pos) * i64::from(self.n) <= 1 << 35
    }
}
