//! Legal Rust at the edges of the language: names, comments, modules, macros, and extreme numbers.

// this code is more complicated than necessary on purpose
#![allow(clippy::all, non_camel_case_types, non_snake_case, unused_assignments, unused_parens)]
#![allow(unused_variables, unreachable_code)]

use attn_core::lang::{AttentionVariant, KvIndex, LogitIndex, Row, RowIndex, RowState, Tensor1, Tensor2};
use attn_core::{VariantParams, attention_variant, device_fn};

/// Ends in a backslash, which would join the next line: \
#[doc = "*/ int injected; /* \r #error injected \u{2028} ??/"]
#[doc = "#error \"injected\" \\ "]
#[derive(Clone, Debug, VariantParams)]
pub struct int {
    /// A raw identifier.
    pub r#type: i32,
    /// Ends in a backslash. \
    pub auto: i32,
    /// Named like a CUDA variable.
    pub threadIdx: u32,
    /// Named like a constant.
    pub LIMIT: i32,
    /// Ends in an underscore.
    pub x_: f32,
}

const LIMIT: i32 = 3;
const 幅: i32 = 5;

/// Named like a keyword of Rust and C++. \
#[device_fn]
fn r#match(r#if: i32, r#struct: i32) -> i32 {
    if r#if > r#struct { r#if } else { r#struct }
}

#[attention_variant(name = "odd_names")]
impl AttentionVariant for int {
    /// Ends in a backslash: \
    #[doc = "*/ } \r #error injected \\"]
    #[inline]
    #[allow(unused_mut)]
    fn logits_transform(&self, mut logit: f32, index: LogitIndex) -> f32 {
        let class = self.r#type;
        let this = class + self.auto; // comment \
        let new = self.threadIdx ^ 1;
        let template = LIMIT + self.LIMIT; /* */
        let int = self.x_;
        let (min, max, threadIdx, warpSize) = (1, 2, new, 4);
        let __int128 = index.kv_pos;
        let _Complex = index.qo_pos;
        let (I32_MIN, F32_NAN, Plain, INFINITY) = (7, 1.5, 3, 9);
        let (größe, 幅2, u8) = ((1.0, 2.0), 2, 3);
        let (R, Variant, Tuple2) = (4, 5, 6.0);
        let a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on = 1;
        let x = logit;
        let x_ = x + 1.0;
        let x__ = x_ + 1.0;
        let x_2 = x__ + 1.0;
        let r#while = r#match(class, template).min(__int128).max(_Complex);
        let bits = this ^ min ^ max << 1 ^ warpSize ^ I32_MIN << 3 ^ Plain << 5 ^ INFINITY << 8 ^ 幅 << 12;
        let bits = bits ^ u8 << 15 ^ R << 16 ^ Variant << 20 ^ r#while ^ 幅2 << 23 ^ (threadIdx as i32);
        exact(bits as u32, logit + x_2 + Tuple2 + größe.0 + F32_NAN + int)
            + a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on as f32
    }
}

/// Mixes bits and a float into one result that is never NaN.
#[device_fn]
fn exact(bits: u32, x: f32) -> f32 {
    // few enough bits that the float tolerance hides none
    let mixed = bits.wrapping_mul(0x9e37_79b1) >> 20;
    mixed as f32 + if x.is_nan() { 0.25 } else { x.clamp(-3.0, 3.0) }
}

const FLAG: bool = true;
const BYTES: u32 = 0xffff_fff0;
const WIDE: u64 = u64::MAX;
const NEGATIVE_ZERO: f32 = -0.0;
const MIN: i32 = i32::MIN;

/// Returns u8, whose width only the signature shows.
#[device_fn]
fn byte(x: i32) -> u8 {
    x as u8
}

/// Returns u64, whose width only the signature shows. A caller has a constant of the same name.
#[device_fn]
fn wide(x: u32) -> u64 {
    const LOCAL: u64 = 3;
    x as u64 * 0x1_0000_0001 + LOCAL
}

/// Has a constant of the same name as the variants that call it.
pub mod elsewhere {
    use attn_core::device_fn;
    const LIMIT: i32 = 1000;
    /// Reads the constant of this module.
    #[device_fn]
    pub fn limited(x: i32) -> i32 {
        if x > LIMIT { LIMIT } else { x }
    }
}

/// Integers at the limits of their types, and literals whose type only Rust infers.
#[derive(Clone, Debug, VariantParams)]
pub struct Edges {
    /// Any value.
    pub i: i32,
    /// Any value.
    pub u: u32,
    /// Any value.
    pub flag: bool,
    /// Any value.
    #[shape(qo_heads)]
    pub words: Tensor1<u32>,
    /// Any value.
    #[shape(qo_heads, head_dim)]
    pub grid: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for Edges {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut bits: u32 = 0;
        // loops that end at the largest value
        for b in 250..=u8::MAX {
            bits = bits.rotate_left(3) ^ b as u32;
        }
        for i in (i32::MAX - 2)..=i32::MAX {
            if i == i32::MAX - 1 {
                continue;
            }
            bits = bits * 31 + i as u32;
        }
        for i in (self.u | 0xffff_fffc)..=u32::MAX {
            bits = bits * 31 ^ i;
        }
        for i in self.i..=self.i {
            bits ^= i as u32;
        }
        for i in 3..=at.qo_head {
            bits = bits * 7 + i as u32;
        }
        for i in 5..=2 {
            bits += 1;
        }
        for i in (self.u & 3)..5 {
            bits ^= (i - 7) >> 3;
        }
        // literals whose type is inferred from an operand
        let mask = self.u & (1 << (at.kv_pos & 31)) | !0 ^ self.words[at.kv_pos - 3];
        bits ^= mask ^ (!self.u).max(3) ^ (1 - self.u) ^ (5 * self.u).min(4_000_000_000);
        bits ^= if self.flag { 1 } else { self.u } ^ (if self.u > 3_000_000_000 { self.u } else { 0xffff_0000 });
        bits ^= BYTES ^ (WIDE ^ 3_000_000_000) as u32 ^ (WIDE - 10_000_000_000) as u32 ^ (WIDE >> 33) as u32;
        bits ^= (wide(bits) >> 5) as u32 ^ (wide(self.u) * 3 % 1_000_007) as u32 ^ (byte(self.i) * 3 + 200) as u32;
        bits ^= (byte(at.kv_pos) << 1 >> 1) as u32 ^ (byte(self.i) ^ 255) as u32 ^ (!byte(self.i) / 3) as u32;
        bits ^= (byte(self.i) > 200) as u32 ^ (-1i32 as u32 >> self.u) ^ (MIN >> (self.i & 40)) as u32;
        bits ^= 0xffff_ffff as u32 ^ (!0 as u64 >> 7) as u32 ^ (!5 as u8) as u32 ^ (-(at.kv_pos) as u8) as u32;
        bits ^= (MIN ^ i32::MIN) as u32 ^ (-2147483648 as i32 as u32) ^ (-(self.i) as u32) ^ (self.i - 1).abs() as u32;
        bits ^= u32::from(self.i < -1) ^ u32::from(self.flag) ^ u32::from(byte(3)) ^ i32::from(self.flag) as u32;
        bits ^= elsewhere::limited(self.i) as u32 ^ LIMIT as u32 ^ crate::language_stress::helpers::LIMIT as u32;
        // remainders and shifts of negatives
        let n = -(at.kv_pos % 17) - 1;
        bits ^= (n % 5) as u32 ^ (n / 3) as u32 ^ n.rem_euclid(5) as u32 ^ n.div_euclid(-3) as u32 ^ (n >> 1) as u32;
        bits ^= (n as f32 as i32 as u8) as u32 ^ (n as u64 >> 40) as u32 ^ (self.i.pow(self.u & 7)) as u32;
        bits ^= ((self.u as u8).pow(self.u & 15)) as u32
            ^ (self.u << (self.i & 63))
            ^ (self.i >> (byte(self.i) & 63)) as u32;
        // floats
        let zero = NEGATIVE_ZERO * logit.abs().min(1.0);
        bits ^= (-0.0f32).to_bits() ^ zero.copysign(-1.0).to_bits() ^ (f32::NAN.max(2.0)).to_bits();
        bits ^= (logit * f32::INFINITY) as i32 as u32 ^ (logit / 0.0) as u8 as u32 ^ (f32::NAN as u64) as u32;
        bits ^= ((0.0 / 0.0f32).is_nan() && FLAG) as u32 ^ (logit.max(f32::NAN).min(f32::INFINITY) as i32) as u32;
        bits ^= self.words[{
            let i = at.kv_pos & 3;
            i - 1
        }];
        bits ^= self.grid[[at.kv_pos - 9, -at.qo_pos]].to_bits() ^ self.grid[[at.qo_head, at.qo_head * 1000]].to_bits();
        bits ^= (at.qo_pos < at.kv_pos) as u32 ^ ((at.qo_pos < at.kv_pos) == (self.i <= 3)) as u32;
        exact(bits, logit)
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let near = self.i < at.kv_pos;
        !(near ^ self.flag) | (self.u & 1 == 0) && !near
    }
}

/// Blocks, branches and matches as values, everywhere that Rust allows them.
#[derive(Clone, Debug, VariantParams)]
pub struct Values {
    /// Any value.
    pub n: i32,
    /// Any value.
    pub x: f32,
    /// Any value.
    pub flag: bool,
}

#[attention_variant]
impl AttentionVariant for Values {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let early = LATE * 2;
        const LATE: i32 = LATER + 1;
        const LATER: i32 = 20;
        if {
            let t = at.kv_pos % 7;
            t == 6
        } {
            return {
                let t = logit.min(2.0);
                t + 1.0
            };
        }
        let a = exact(
            if self.flag { 3 } else { at.kv_pos as u32 },
            match at.kv_pos % 4 {
                0 => logit,
                1 => {
                    let logit = self.x;
                    logit * 2.0
                }
                _ if self.flag => 0.5,
                _ => {
                    if self.n > 3 {
                        1.0
                    } else {
                        match self.n {
                            0 => 2.0,
                            _ => 3.0,
                        }
                    }
                }
            },
        );
        let mut sum: f32 = a;
        // the inner variable has the name of the one that takes the value
        let best: f32 = if self.flag {
            let mut best = self.x.clamp(-5.0, 5.0);
            best += 1.0;
            best
        } else {
            let best = 2.0;
            best * 3.0
        };
        sum += best;
        let unit = ();
        let () = {
            sum += 1.0;
        };
        let k = match (at.kv_pos & 15) - 8 {
            i32::MIN..=-5 => -1,
            -4..0 => -2,
            n @ (0 | 2 | 4) => n * 10,
            n if if n > 5 { self.flag } else { n == 1 } => n * 100,
            LATE => 7,
            other => other + early,
        };
        let t: f32 = {
            sum = sum * 0.5;
            sum + k as f32
        };
        let (p, q) = if self.flag { (t, k) } else { (self.x, 3) };
        let (p, q) = (q as f32, p);
        let (q, p) = (p, q);
        let b = match self.flag {
            true | false if self.n == 1 => 1,
            true => 2,
            false => 3,
        };
        let c = match byte(at.kv_pos) {
            b'a'..=b'z' => 1.0,
            0..=9 | 200.. => 2.0,
            _ => 3.0,
        };
        let d = match self.x {
            0.0 => 1.0,
            x if x > 1.0 => x,
            _ => -1.0,
        };
        for i in 0..3 {
            for j in i..3 {
                if j == 2 && self.flag {
                    break;
                }
                if i == 1 {
                    continue;
                }
                sum += match j {
                    0 => 1.0,
                    _ => {
                        if i == j {
                            0.5
                        } else {
                            0.25
                        }
                    }
                };
            }
        }
        let e = if at.qo_head == 1 {
            return -1.0;
        } else if at.qo_head == 2 {
            sum
        } else {
            sum + 1.0
        };
        p + q + b as f32 + c + d.clamp(-9.0, 9.0) + e
    }

    fn query_transform<Anything: Row>(&self, row: &mut Anything, _: RowIndex) {
        let scale = self.x.clamp(-2.0, 2.0);
        let n = row.dim();
        if self.n == 3 {
            return ();
        }
        row.map(|d: i32, x: f32| -> f32 {
            let scale = if d < n / 2 { scale } else { exact(d as u32, x) };
            if d == 3 {
                return scale;
            }
            match d % 3 {
                0 => x,
                1 => x * scale,
                _ => halved(x),
            }
        });
        row.rotate_half(self.n & 15, |i| if i == 0 { (1.0, 0.0) } else { (0.0, 1.0) });
    }

    fn output_transform<R: Row>(&self, o: &mut R, _: RowState, index: RowIndex) {
        if self.flag { o.map(|_, _| index.qo_pos as f32) } else { o.map(|_, x| x) }
    }
}

#[device_fn]
fn halved(x: f32) -> f32 {
    return x * 0.5;
}

/// A variant without hooks, which is full attention.
#[derive(Clone, Debug, VariantParams)]
pub struct Empty;

#[attention_variant]
impl AttentionVariant for Empty {}

macro_rules! scaled {
    ($ty:ty, $name:literal, $factor:expr, $limit:literal, $words:ident => $pos:ident) => {
        /// Made by a macro.
        #[derive(Clone, Debug, VariantParams)]
        pub struct Made {
            /// Any value.
            pub by: f32,
        }
        #[attention_variant(name = $name)]
        impl AttentionVariant for $ty {
            fn logits_transform(&self, logit: f32, $words: LogitIndex) -> f32 {
                if $words.$pos > $limit { logit * $factor - self.by } else { logit - $limit as f32 }
            }
        }
    };
}

/// Types of the same name, in one composition.
pub mod same_names {
    use super::*;
    /// One.
    pub mod one {
        use super::*;
        scaled!(Made, "made_one", 2.0 + 1.0, 5, at => kv_pos);
    }
    /// Two.
    pub mod two {
        use super::*;
        scaled!(self::Made, "made_two", 0.5, -3, index => qo_pos);
    }
    /// Three: types named like types of the language.
    pub mod three {
        use super::*;
        /// Named with a non-ASCII letter.
        #[derive(Clone, Debug, VariantParams)]
        pub struct Größe;
        #[attention_variant(name = "another_script")]
        impl AttentionVariant for Größe {
            fn logits_transform(&self, größe: f32, _at: LogitIndex) -> f32 {
                größe * 2.0
            }
        }
        /// Named like the generated struct.
        #[derive(Clone, Debug, VariantParams)]
        pub struct Variant {
            /// Any value.
            pub part0: f32,
        }
        #[attention_variant(name = "named_variant")]
        impl attn_core::lang::AttentionVariant for Variant {
            fn logits_transform(&self, part1: f32, _at: LogitIndex) -> f32 {
                part1 + self.part0
            }
        }
        /// Named like a coordinate type.
        #[derive(Clone, Debug, VariantParams)]
        pub struct LogitIndexed;
        #[attention_variant]
        #[cfg(all())]
        impl AttentionVariant for LogitIndexed {
            fn logits_mask(&self, at: LogitIndex) -> bool {
                at.kv_pos <= 3
            }
            fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
                k.map(|_, x| x);
            }
        }
    }
}

/// The variants of this file.
pub fn variants() -> &'static [&'static attn_core::lang::VariantDesc] {
    use same_names::{one, three, two};
    attn_core::variants![
        int,
        Edges,
        Values,
        Empty,
        one::Made,
        two::Made,
        three::Variant,
        three::Größe,
        three::LogitIndexed
    ]
}
