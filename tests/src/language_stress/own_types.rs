//! User-defined structs and enums in hooks and helpers.

use self::shapes::Count as Counted;
use attn_core::lang::{AttentionVariant, LogitIndex, Row, RowIndex};
use attn_core::{VariantParams, attention_variant, device_fn, device_type};

/// A float with few enough bits that the float tolerance hides none.
#[device_fn]
fn mixed(bits: u32) -> f32 {
    (bits.wrapping_mul(0x9e37_79b1) >> 16) as f32
}

/// A line. Its fields are named like words of C++ and of the generated text.
#[device_type]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Any value.
    pub slope: f32,
    /// Any value.
    pub double: f32,
    /// Any value.
    pub to: i32,
    /// Any value.
    pub changed: u8,
    /// Any value.
    pub with_to: u64,
}

/// Types of another module, and types made of others.
pub mod shapes {
    use super::Mode;
    use attn_core::device_type;

    /// A tuple struct.
    #[device_type]
    #[derive(Clone, Copy, Debug)]
    pub struct Count(pub u32, pub Mode);

    /// A nested struct.
    #[device_type]
    #[derive(Clone, Copy, Debug)]
    pub struct Nest {
        /// Any value.
        pub line: super::Line,
        /// Any value.
        pub counts: [Count; 2],
        /// Any value.
        pub pair: (f32, bool),
        /// Any value.
        pub bytes: [u8; 3],
    }
}

/// Values of every sign. \
#[device_type]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Mode {
    /// Zero.
    Linear,
    /// One.
    Cubic,
    /// Seven.
    Far = 3 + BEHIND,
    /// Below zero.
    Minus = -2,
    /// In capitals.
    OFF,
}

const BEHIND: i16 = 4;

/// A constant of an enum.
pub const USUAL: Mode = Mode::Cubic;

/// Maps an integer to a mode.
#[device_fn]
pub fn mode_of(n: i32) -> Mode {
    match n.rem_euclid(5) {
        0 => Mode::Linear,
        1 => Mode::Cubic,
        2 => Mode::Far,
        3 => Mode::Minus,
        _ => Mode::OFF,
    }
}

/// A match without `_`.
#[device_fn]
fn weight_of(mode: Mode) -> f32 {
    match mode {
        Mode::Linear => 1.0,
        Mode::Cubic | Mode::Minus => 2.5,
        Mode::Far => {
            let x = 3.0;
            x * 2.0
        }
        Mode::OFF => -1.0,
    }
}

/// Builds a struct with its fields out of order.
#[device_fn]
fn line(slope: f32, n: i32) -> Line {
    let changed = n as u8;
    let line = Line { to: n, slope, changed: changed + 1, with_to: 1u64 << 40, double: slope * 2.0 };
    if n > 3 { Line { with_to: 9, to: line.to * 2, ..line } } else { line }
}

/// Reads the fields of a struct.
#[device_fn]
fn at(line: Line, x: f32) -> f32 {
    line.slope * x + line.double + (line.to + line.changed as i32) as f32
}

/// Builds, reads, changes, passes and returns structs and enums.
#[derive(Clone, Debug, VariantParams)]
pub struct OwnTypes {
    /// Any value.
    pub n: i32,
    /// Any value.
    pub flag: bool,
}

impl OwnTypes {
    const FIRST: Mode = Mode::Far;
}

#[attention_variant]
impl AttentionVariant for OwnTypes {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let mode = mode_of(at.qo_head);
        q.map(|d, x| match mode {
            Mode::Linear => x,
            _ => {
                let bent = Line { slope: 2.0, double: x, to: d, changed: 1, with_to: 0 };
                bent.slope * bent.double
            }
        });
    }

    fn logits_transform(&self, logit: f32, at_: LogitIndex) -> f32 {
        let x = if logit.is_nan() { 0.5 } else { logit.clamp(-4.0, 4.0) };
        let mode = mode_of(at_.kv_pos);
        let mut bits = mode as u32 ^ (mode as u8 as u32) << 3 ^ (mode as u64 >> 40) as u32 ^ (mode as i32 as u32) << 9;
        bits ^= (Mode::Minus as i32 * 5 + Mode::OFF as i32) as u32;
        bits ^= (mode == Mode::Cubic) as u32 ^ ((mode != USUAL) as u32) << 1 ^ ((Self::FIRST == mode) as u32) << 2;
        let first: Line = line(x, at_.qo_pos & 7);
        let mut second = Line { slope: 0.5, ..line(1.0, 5) };
        second.to += at_.kv_pos;
        second.changed = 200;
        second.changed += 100;
        second.with_to <<= 3;
        second.with_to ^= first.with_to;
        let whole = line(2.0, at_.qo_head);
        bits ^= second.to as u32 ^ (second.changed as u32) << 4 ^ (second.with_to >> 35) as u32 ^ whole.to as u32;
        let mut nest = shapes::Nest {
            bytes: [1u8, 2, 3],
            pair: (x, self.flag),
            counts: [Counted(3, mode), Counted(!0, Mode::Linear)],
            line: first,
        };
        nest.line.to -= 1;
        nest.pair = (1.5, !self.flag);
        let mut counts: [Counted; 2] = nest.counts;
        counts[1].0 ^= bits;
        counts[(at_.qo_pos & 1) as usize].1 = USUAL;
        nest.counts = counts;
        for i in 0..2 {
            let count = counts[i];
            let Counted(n, how) = count;
            bits = bits.rotate_left(5) ^ n ^ how as u32;
        }
        let bytes: [u8; 3] = nest.bytes;
        bits ^= (bytes[0] as u32) << 7 ^ bytes[1] as u32 ^ nest.pair.1 as u32;
        let Line { slope, to: end, .. } = nest.line;
        let mut lines = [first; 3];
        lines[1] = second;
        lines[2].slope = slope + end as f32;
        let picked = lines[at_.qo_head.clamp(0, 2) as usize];
        let both = (picked, mode);
        let chosen = match both.1 {
            Mode::Linear if self.flag => picked,
            Mode::Linear | Mode::Far => Line { double: 1.0, ..picked },
            USUAL => first,
            _ => second,
        };
        let how = if self.n > 4 { Mode::Far } else { both.1 };
        let scale = match how {
            Mode::OFF => 0.0,
            Mode::Minus => -1.0,
            _ => weight_of(how),
        };
        mixed(bits) + at(chosen, x) * scale + at(both.0, x.min(1.0))
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let how = if at.kv_pos < 16 { Mode::Linear } else { mode_of(self.n) };
        let window = Line { to: self.n, slope: 0.0, double: 0.0, changed: 3, with_to: 0 };
        let window = Line { to: window.to.clamp(1, 40), ..window };
        match how {
            Mode::Linear => at.kv_pos <= at.qo_pos,
            Mode::Cubic | Self::FIRST => at.qo_pos - at.kv_pos < window.to + window.changed as i32,
            Mode::Minus => false,
            other => other as i32 + at.kv_pos > 4,
        }
    }
}
