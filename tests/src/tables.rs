//! Variants that read parameter tensors of every rank and type, and store to output tensors of every rank.

use attn_core::lang::{
    AttentionVariant, Bits, F8E4M3, F8E5M2, LogitIndex, OutTensor1, OutTensor2, OutTensor3, OutTensor4, RowIndex,
    Tensor, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4,
};
use attn_core::{VariantParams, attention_variant, random};
use half::{bf16, f16};

/// Reads float tensors: `qo_row` selects the tensor; the indices may be out of bounds.
#[derive(Clone, Debug, VariantParams)]
#[allow(missing_docs)]
pub struct FloatTables {
    pub before: bool,
    pub a: Tensor0<f32>,
    #[shape(7)]
    pub b: Tensor1<f16>,
    #[shape(3, 5)]
    pub c: Tensor2<bf16>,
    pub odd: i32,
    #[shape(2, 3, 5)]
    pub d: Tensor3<F8E4M3>,
    #[shape(2, 3, 2, 5)]
    pub e: Tensor<F8E5M2, 4>,
    pub f: Tensor0<f16>,
    #[shape(4, 2, 3)]
    pub g: Tensor3<f32>,
    #[shape(256)]
    pub h: Tensor1<F8E4M3>,
    #[shape(16, 16)]
    pub i: Tensor2<F8E5M2>,
    #[shape(1, 3, 2, 5)]
    pub j: Tensor4<f32>,
    pub after: u32,
}

#[attention_variant(name = "float_tables")]
impl AttentionVariant for FloatTables {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (i, j, k, l) = (at.qo_pos, at.kv_pos, at.qo_token, at.kv_token);
        match at.qo_row {
            0 => self.a.get(),
            1 => self.b[i],
            2 => self.c[[i, j]],
            3 => self.d[[i, j, k]],
            4 => self.e[[i, j, k, l]],
            5 => self.f.get(),
            6 => self.g[[i, j, k]],
            7 => self.h[i],
            8 => self.i[[i, j]],
            9 => self.j[[i, j, k, l]],
            _ => {
                if self.before {
                    logit
                } else {
                    (self.odd + self.after as i32) as f32
                }
            }
        }
    }
}

/// Reads integer and bool tensors, as [`FloatTables`] reads floats.
#[derive(Clone, Debug, VariantParams)]
#[allow(missing_docs)]
pub struct WholeTables {
    pub a: Tensor0<i32>,
    #[shape(7)]
    pub b: Tensor1<u8>,
    #[shape(3, 5)]
    pub c: Tensor2<u32>,
    pub odd: bool,
    #[shape(2, 3, 5)]
    pub d: Tensor3<i32>,
    #[shape(2, 3, 2, 5)]
    pub e: Tensor4<u8>,
    #[shape(11)]
    pub f: Tensor1<Bits>,
    #[shape(3, 5)]
    pub g: Tensor2<bool>,
    #[shape(2, 3, 5)]
    pub h: Tensor3<Bits>,
    #[shape(2, 3, 2, 5)]
    pub i: Tensor4<bool>,
    pub j: Tensor0<u8>,
    pub k: Tensor0<Bits>,
    #[shape(9)]
    pub l: Tensor1<u32>,
}

#[attention_variant(name = "whole_tables")]
impl AttentionVariant for WholeTables {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (i, j, k, l) = (at.qo_pos, at.kv_pos, at.qo_token, at.kv_token);
        let bits = match at.qo_row {
            0 => self.a.get() as u32,
            1 => self.b[i] as u32,
            2 => self.c[[i, j]],
            3 => self.d[[i, j, k]] as u32,
            4 => self.e[[i, j, k, l]] as u32,
            5 => self.f[i] as u32,
            6 => self.g[[i, j]] as u32,
            7 => self.h[[i, j, k]] as u32,
            8 => self.i[[i, j, k, l]] as u32,
            9 => self.j.get() as u32,
            10 => self.k.get() as u32,
            11 => self.l[i],
            _ => {
                if self.odd {
                    1
                } else {
                    2
                }
            }
        };
        // both halves are exact in f32, and neither is a NaN
        if logit > 0.0 { (bits >> 16) as f32 } else { (bits & 0xffff) as f32 }
    }
}

/// A mask over tensors, with divisors, whose tile classes are derived.
#[derive(Clone, Debug, VariantParams)]
#[allow(missing_docs)]
pub struct MaskTables {
    #[shape(qo_tokens)]
    #[monotone]
    pub of_query: Tensor1<i32>,
    #[shape(kv_tokens)]
    pub of_key: Tensor1<i32>,
    #[shape(qo_heads, 5)]
    pub group: Tensor2<u8>,
    #[require(block >= 1)]
    pub block: i32,
    #[shape(20, 20)]
    pub keep: Tensor2<Bits>,
    #[shape(2, 3, 40)]
    pub flags: Tensor3<bool>,
    #[shape(2, 1, 3, 40)]
    #[monotone]
    pub steps: Tensor4<u32>,
    #[require(stride >= 1)]
    pub stride: u32,
    pub limit: Tensor0<i32>,
}

#[attention_variant(name = "mask_tables")]
impl AttentionVariant for MaskTables {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let same = self.of_query[at.qo_token] == self.of_key[at.kv_token];
        let kept = self.keep[[at.qo_pos / self.block, at.kv_pos / self.block]];
        let flag = self.flags[[at.batch, at.kv_head, at.kv_pos]];
        let step = self.steps[[at.batch, 0, at.kv_head, at.qo_pos]];
        let allowed = (at.kv_pos as u32) % self.stride < step;
        let few = (self.group[[at.qo_head, at.kv_pos % 5]] as i32) < self.limit.get();
        (same || kept) && (flag || allowed) || few
    }
}

/// Stores to output tensors of every rank, also out of bounds.
#[derive(Clone, Debug, VariantParams)]
#[allow(missing_docs)]
pub struct Stores {
    #[shape(qo_heads)]
    pub most: OutTensor1,
    #[shape(qo_tokens, kv_tokens)]
    pub logits: OutTensor2,
    #[shape(2, 3, 5)]
    pub three: OutTensor3,
    #[shape(2, 3, 2, 5)]
    pub four: OutTensor4,
    pub scale: f32,
}

#[attention_variant(name = "stores")]
impl AttentionVariant for Stores {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (i, j, k, l) = (at.qo_pos, at.kv_pos, at.qo_token, at.kv_token);
        self.most.atomic_max(at.qo_head - 1, logit);
        self.logits.store([k, l], logit * self.scale);
        self.three.store([i, j, k], logit);
        self.three.atomic_max([k, j, i], logit);
        self.four.store([i, j, k, l], logit);
        self.four.atomic_max([l, k, j, i], logit);
        logit
    }
}

/// Draws random numbers.
#[derive(Clone, Debug, VariantParams)]
#[allow(missing_docs)]
pub struct Dice {
    pub seed: u32,
}

#[allow(clippy::manual_is_multiple_of)] // not in the subset
#[attention_variant(name = "dice")]
impl AttentionVariant for Dice {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + random::uniform(self.seed, at.qo_head as u32, at.qo_pos as u32, at.kv_pos as u32)
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        random::bits(self.seed, at.batch as u32, at.qo_pos as u32, at.kv_pos as u32) % 3 != 0
    }
    fn sink_logit(&self, at: RowIndex) -> f32 {
        (random::bits(self.seed, 0, at.qo_pos as u32, 1) >> 16) as f32
    }
}

/// The variants of this file.
pub fn variants() -> &'static [&'static attn_core::lang::VariantDesc] {
    attn_core::variants![FloatTables, WholeTables, MaskTables, Stores, Dice]
}
