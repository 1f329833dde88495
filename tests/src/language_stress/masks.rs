//! Masks whose tile classes go through helpers, loops, arrays, 64 bits, unions and cycles.

use attn_core::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn_core::{VariantParams, attention_variant, device_fn, device_type};

/// A position as a line and a column.
#[device_fn]
fn at2d(p: i32) -> (i32, i32) {
    (p / 32, p % 32)
}

/// The same as a struct.
#[device_type]
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Any value.
    pub line: i32,
    /// Any value.
    pub column: i32,
    /// Any value.
    pub weight: f32,
}

#[device_fn]
fn cell(p: i32) -> Cell {
    let (line, column) = at2d(p);
    Cell { line, column, weight: p as f32 }
}

/// Whether two cells are near. Gets structs.
#[device_fn]
fn near(a: Cell, b: Cell, by: i32) -> bool {
    (a.line - b.line).abs() <= by && (a.column - b.column).abs() <= by
}

/// The same of pairs.
#[device_fn]
fn near_pairs(a: (i32, i32), b: (i32, i32)) -> bool {
    (a.0 - b.0).abs() <= 3 && (a.1 - b.1).abs() <= 3
}

/// An array.
#[device_fn]
fn at2d_array(p: i32) -> [i32; 2] {
    [p / 32, p % 32]
}

/// Gets the whole index.
#[device_fn]
fn distance(at: LogitIndex) -> i32 {
    at.qo_pos - at.kv_pos
}

/// Passes it on.
#[device_fn]
fn is_recent(at: LogitIndex, window: i32) -> bool {
    distance(at) >= 0 && distance(at) < window
}

const STRIDE: u64 = 3;

/// A pair that a helper returns.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct PairMask;

#[attention_variant(name = "mask_pair")]
impl AttentionVariant for PairMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (qy, qx) = at2d(at.qo_pos);
        let (ky, kx) = at2d(at.kv_pos);
        (qy - ky).abs() <= 3 && (qx - kx).abs() <= 3
    }
}

/// Pairs that helpers take.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct PairsTaken;

#[attention_variant(name = "mask_pairs_taken")]
impl AttentionVariant for PairsTaken {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        near_pairs(at2d(at.qo_pos), at2d(at.kv_pos))
    }
}

/// Structs that helpers return and take, and one that a branch makes.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct StructMask;

#[attention_variant(name = "mask_struct")]
impl AttentionVariant for StructMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let q = cell(at.qo_pos);
        let other = if at.qo_pos < 0 { Cell { line: at.kv_pos, ..q } } else { q };
        near(other, cell(at.kv_pos), 3) && q.weight >= 0.0
    }
}

/// The fields of a struct that a helper returns.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct StructFields;

#[attention_variant(name = "mask_struct_fields")]
impl AttentionVariant for StructFields {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (q, k) = (cell(at.qo_pos), cell(at.kv_pos));
        (q.line - k.line).abs() <= 3 && (q.column - k.column).abs() <= 3
    }
}

/// An array that a helper returns.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct ArrayMask;

#[attention_variant(name = "mask_array_returned")]
impl AttentionVariant for ArrayMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let q: [i32; 2] = at2d_array(at.qo_pos);
        let k: [i32; 2] = at2d_array(at.kv_pos);
        (q[0] - k[0]).abs() <= 3 && (q[1] - k[1]).abs() <= 3
    }
}

/// An array of the mask, in a loop.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct ArrayLoop;

#[attention_variant(name = "mask_array")]
impl AttentionVariant for ArrayLoop {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let q = [at.qo_pos / 32, at.qo_pos % 32];
        let k = [at.kv_pos / 32, at.kv_pos % 32];
        let mut all = true;
        for i in 0..2 {
            all = all && (q[(i & 1) as usize] - k[(i & 1) as usize]).abs() <= 3;
        }
        all
    }
}

/// The index that helpers take.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct IndexTaken;

#[attention_variant(name = "mask_index_taken")]
impl AttentionVariant for IndexTaken {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        is_recent(at, 100)
    }
}

/// 64 bits.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Wide;

#[attention_variant(name = "mask_u64")]
impl AttentionVariant for Wide {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (q, k) = (at.qo_pos as u64, at.kv_pos as u64);
        k * STRIDE <= q * 3 + 5 && q / 128 == k / 128 && (k as i64) - (q as i64) > -90
    }
}

/// Cells of a cycle, on both sides and on one.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Cycle;

#[attention_variant(name = "mask_cycle")]
impl AttentionVariant for Cycle {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (q, k) = (at.qo_pos, at.kv_pos);
        (q - 77).rem_euclid(512) / 64 == (k - 77).rem_euclid(512) / 64
    }
}

/// One cell.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct OneCell;

#[attention_variant(name = "mask_one_cell")]
impl AttentionVariant for OneCell {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.kv_pos - 77).rem_euclid(512) / 64 == 5
    }
}

/// A union that a loop over literals makes.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Union;

#[attention_variant(name = "mask_union")]
impl AttentionVariant for Union {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let d = (at.qo_pos - at.kv_pos).abs() / 64;
        let mut hit = false;
        for i in 0..4 {
            if d == i {
                hit = true;
            }
        }
        hit
    }
}

/// Unions of distances, by `return`.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Distances;

#[attention_variant(name = "mask_distances")]
impl AttentionVariant for Distances {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        for i in 0..40 {
            if at.qo_pos - at.kv_pos == 8 + i {
                return true;
            }
        }
        false
    }
}

/// Powers of two.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Powers;

#[attention_variant(name = "mask_powers")]
impl AttentionVariant for Powers {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let d = (at.qo_pos - at.kv_pos).abs() / 64;
        d & (d - 1) == 0
    }
}

/// `break` and `continue` in a loop over literals.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Leaves;

#[attention_variant(name = "mask_leaves")]
impl AttentionVariant for Leaves {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let mut hit = false;
        for i in 0..8 {
            if i == 3 {
                continue;
            }
            if at.kv_pos / 128 < i {
                break;
            }
            hit = hit || at.qo_pos / 128 - i * 2 == at.kv_pos / 128;
        }
        hit
    }
}

/// Loops over a parameter.
#[derive(Clone, Debug, VariantParams)]
pub struct LoopMask {
    /// Steps.
    #[default(3)]
    #[require(steps >= 0 && steps <= 200)]
    pub steps: i32,
    /// Steps of the second loop.
    #[default(2)]
    #[require(more <= 200)]
    pub more: u32,
}

#[attention_variant(name = "mask_loop")]
impl AttentionVariant for LoopMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (q, k) = (at.qo_pos / 128, at.kv_pos / 128);
        let mut hit = false;
        let mut n = 0;
        for i in 0..self.steps {
            n = n + 1;
            if q - k == i * 2 {
                hit = true;
            }
            for _ in 0..self.more {
                if k > q + 12 {
                    return false;
                }
            }
        }
        hit && n <= self.steps
    }
}

/// A loop over a table, with `break`, `continue` and `return`.
#[derive(Clone, Debug, VariantParams)]
pub struct LoopOfTable {
    /// Spans.
    #[default(3)]
    #[require(spans >= 1 && spans <= 90)]
    pub spans: i32,
    /// Where each begins.
    #[shape(spans)]
    pub start: Tensor1<i32>,
}

#[attention_variant(name = "mask_loop_of_table")]
impl AttentionVariant for LoopOfTable {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        if at.kv_pos > at.qo_pos {
            return false;
        }
        for i in 0..=self.spans - 1 {
            let start = self.start[i];
            if start < 0 {
                continue;
            }
            if start > 5000 {
                break;
            }
            if start <= at.kv_pos && at.kv_pos < start + 128 {
                return true;
            }
        }
        false
    }
}

/// An unsigned number, which is never below 0.
#[derive(Clone, Debug, VariantParams)]
pub struct MaskUnsigned {
    /// Any value.
    pub kind: u32,
}

#[attention_variant(name = "mask_unsigned")]
impl AttentionVariant for MaskUnsigned {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (self.kind != 0 || self.kind == 3) && at.kv_pos >= 0
    }
}

/// Leaves a loop within the value of an assignment.
#[derive(Clone, Debug, VariantParams)]
pub struct MaskBreakInValue {}

#[attention_variant(name = "mask_break_in_value")]
impl AttentionVariant for MaskBreakInValue {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let mut s = 0;
        for i in 0..4 {
            s = if at.kv_pos == i { break } else { s + 1 };
        }
        s == 0
    }
}

/// Goes on with a loop within the value of a return.
#[derive(Clone, Debug, VariantParams)]
pub struct MaskContinueInValue {}

#[attention_variant(name = "mask_continue_in_value")]
impl AttentionVariant for MaskContinueInValue {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        for i in 0..1 {
            return if at.kv_pos == i { continue } else { false };
        }
        true
    }
}

/// Halves a distance in steps that share their operands.
#[derive(Clone, Debug, VariantParams)]
pub struct MaskHalves {}

#[attention_variant(name = "mask_halves")]
impl AttentionVariant for MaskHalves {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let mut d = at.qo_pos - at.kv_pos;
        for _ in 0..40 {
            if d > 1 {
                d -= d / 2;
            }
        }
        d == 1
    }
}
