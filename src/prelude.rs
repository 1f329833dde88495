//! The names that most programs need: `use attn::prelude::*;`.
//!
//! Names that other preludes have too ([`Error`](crate::Error), [`Stream`](crate::Stream),
//! [`lang::Dims`](crate::lang::Dims)) are left out: import them by name.

pub use crate::lang::{
    AttentionVariant, KvIndex, LogitIndex, Normalizer, OutTensor1, OutTensor2, OutTensor3, OutTensor4, QueryTile, Row,
    RowIndex, RowState, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4, approx, math, space,
};
pub use crate::{
    Attention, AttentionOptions, Batch, BatchCapacity, BlockTable, CascadeLevel, CascadeLevelKv, ComputeType,
    DeviceBuffer, Dtype, Dtypes, Engine, F8E4M3, F8E5M2, HeadDimVo, Heads, KernelKind, Kv, KvScales, KvStored, Out,
    PageOrder, PageTable, Plan, PlanOptions, PrefillBackend, RunOptions, TensorMut, TensorRef, Variant, VariantCuda,
    VariantParams, Workspace, attend, attention_variant, bf16, compose, device_fn, device_type, f16, random,
};
