//! A variant bound to heads and element types.

use std::ffi::c_char;

use attn::{
    Attention, AttentionOptions, ComputeType, Dtypes, HeadDimVo, Heads, KernelKind, KvStored, Variant, lang::KvFormats,
    ops::KvTransform,
};

use crate::engine::AttnEngine;
use crate::input::{Versioned, give, handle, member, text, versioned};
use crate::status::{AttnStatus, Failure, call, free};
use crate::tensor::dtype;
use crate::variants::parse;

/// Which kernel runs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnKernel {
    /// For each batch the one with the shortest predicted time.
    Auto = 0,
    /// The decode kernel.
    Decode = 1,
    /// The prefill kernel.
    Prefill = 2,
    /// Both in one launch.
    Mixed = 3,
}

/// The compute type of prefill: the element type of its MMA operands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnComputeType {
    /// The elements of the tensors.
    Exact = 0,
    /// Queries and probabilities rounded to e4m3, over keys and values of e4m3.
    E4m3 = 1,
}

/// What an attention is made of. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnSpec {
    /// `sizeof(AttnSpec)`.
    pub size: usize,
    /// The variant: an expression over the registered ones, such as `causal + soft_cap(cap=30)`.
    pub variant: *const c_char,
    /// Query heads, a multiple of `kv_heads`.
    pub qo_heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Elements of a query or key of one head.
    pub head_dim: u32,
    /// Elements of a value of one head; 0 for as many as those of a key.
    pub value_dim: u32,
    /// An `AttnDtype`: that of queries and outputs.
    pub qo_dtype: u32,
    /// An `AttnDtype`: that of keys and values.
    pub kv_dtype: u32,
    /// The scale of logits; 0 for 1 / sqrt(head_dim).
    pub sm_scale: f32,
    /// An `AttnKernel`.
    pub kernel: u32,
    /// Batch invariance: keys are split at multiples of this number and nowhere else; 0 for the fastest split.
    pub fixed_split_size: u32,
    /// Not 0 where keys and values are stored after the variant's key and value transforms.
    pub stores_transformed: u32,
    /// Not 0 where values are the first elements of keys, as in multi-head latent attention.
    pub values_in_keys: u32,
    /// An `AttnComputeType`.
    pub compute_type: u32,
    /// The KV format in which keys and values are stored, such as `int8` or `int8 / int4(group=32)`; null for numbers.
    /// `kv_dtype` is that of bytes then.
    pub kv_format: *const c_char,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnSpec {
    const NAME: &'static str = "AttnSpec";
    const FIRST_SIZE: usize = 64;
}

/// A variant bound to heads, element types and an engine. It makes plans.
#[derive(Debug)]
pub struct AttnAttention {
    pub(crate) attention: Attention,
    /// What appends apply, where they do not store rows as they are given.
    pub(crate) transform: Option<KvTransform>,
    head_dim_vo: HeadDimVo,
    pub(crate) engine: attn::Engine,
}

impl AttnSpec {
    unsafe fn options(&self) -> Result<(Variant, Heads, Dtypes, AttentionOptions), Failure> {
        // SAFETY: the caller's text.
        let variant = parse(unsafe { text(self.variant, "AttnSpec.variant") }?)?;
        let heads = Heads { qo: self.qo_heads, kv: self.kv_heads, head_dim: self.head_dim };
        let qo = dtype(self.qo_dtype, "AttnSpec.qo_dtype")?;
        let dtypes = Dtypes::new(qo, dtype(self.kv_dtype, "AttnSpec.kv_dtype")?);
        let dtypes = match self.kv_format.is_null() {
            true => dtypes,
            false => {
                // SAFETY: the caller's text.
                let format = KvFormats::parse(unsafe { text(self.kv_format, "AttnSpec.kv_format") }?);
                Dtypes { format: Some(format.map_err(attn::Error::from)?.id()), ..dtypes }
            }
        };
        let kernels = [None, Some(KernelKind::Decode), Some(KernelKind::Prefill), Some(KernelKind::Mixed)];
        let head_dim_vo = match (self.value_dim, self.values_in_keys != 0) {
            (0, false) => HeadDimVo::default(),
            (0, true) => HeadDimVo::SharedWithKeys(self.head_dim),
            (dim, false) => HeadDimVo::Dim(dim),
            (dim, true) => HeadDimVo::SharedWithKeys(dim),
        };
        let compute_type =
            member(self.compute_type, &[ComputeType::Exact, ComputeType::E4m3], "AttnSpec.compute_type")?;
        let options = AttentionOptions {
            compute_type,
            sm_scale: (self.sm_scale != 0.0).then_some(self.sm_scale),
            kernel: member(self.kernel, &kernels, "AttnSpec.kernel")?,
            stored: if self.stores_transformed == 0 { KvStored::Raw } else { KvStored::Transformed },
            head_dim_vo,
            fixed_split_size: (self.fixed_split_size != 0).then_some(self.fixed_split_size),
            ..AttentionOptions::default()
        };
        Ok((variant, heads, dtypes, options))
    }
}

/// Binds a variant to heads and element types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_attention_new(
    engine: *const AttnEngine,
    spec: *const AttnSpec,
    out: *mut *mut AttnAttention,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers.
        unsafe {
            give(out, || {
                let engine = handle(engine, "engine")?.0.clone();
                let (variant, heads, dtypes, options) = versioned(spec)?.options()?;
                let attention = engine.attention_with(&variant, heads, dtypes, options)?;
                let transform = KvTransform::of_cache(&engine, &attention, options.head_dim_vo)?;
                Ok(AttnAttention { attention, transform, head_dim_vo: options.head_dim_vo, engine })
            })
        }
    })
}

/// The same attention with other parameters of its variant: that of another layer, which runs plans of this one
/// (`AttnRun.layer`) if it sees the same keys. `sm_scale` 0 is that of this attention.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_attention_with_parameters(
    attention: *const AttnAttention,
    variant: *const c_char,
    sm_scale: f32,
    out: *mut *mut AttnAttention,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and text.
        unsafe {
            give(out, || {
                let AttnAttention { attention, head_dim_vo, engine, .. } = handle(attention, "attention")?;
                let variant = parse(text(variant, "the variant")?)?;
                let mut attention = attention.with_parameters(&variant)?;
                if sm_scale != 0.0 {
                    attention = attention.with_sm_scale(sm_scale)?;
                }
                let transform = KvTransform::of_cache(engine, &attention, *head_dim_vo)?;
                Ok(AttnAttention { attention, transform, head_dim_vo: *head_dim_vo, engine: engine.clone() })
            })
        }
    })
}

/// Frees an attention. Plans of it stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_attention_free(attention: *mut AttnAttention) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(attention) }
}
