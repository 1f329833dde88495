//! What most programs need: `use attn::prelude::*;`.

pub use crate::{
    Attention, AttentionOptions, Batch, BatchCapacity, BlockTable, DeviceBuffer, Dtype, Dtypes, Engine, Error, F8E4M3,
    F8E5M2, Heads, KernelKind, Kv, KvScales, KvStored, Level, LevelKv, Out, PageOrder, PageTable, Plan,
    PrefillTemplate, Stream, TensorMut, TensorRef, ValueRows, Variant, VariantParams, Workspace, attention_variant,
    bf16, compose, device_fn, device_type, f16,
    lang::{
        AttentionVariant, Dims, KvIndex, LogitIndex, Normalizer, OutTensor1, OutTensor2, OutTensor3, OutTensor4,
        QueryTile, Row, RowIndex, RowState, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4, approx,
    },
    random,
};
