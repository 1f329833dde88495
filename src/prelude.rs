//! What most programs need: `use attn::prelude::*;`.

pub use crate::{
    Attention, AttentionOptions, Batch, DeviceBuffer, Dtype, Dtypes, Engine, Error, Heads, KernelKind, Kv, Out,
    PageOrder, PageTable, Plan, Stream, TensorMut, TensorRef, Variant, VariantParams, Workspace, attention_variant,
    bf16, compose, device_fn, device_type, f16,
    lang::{
        AttentionVariant, KvIndex, LogitIndex, Normalizer, OutTensor1, OutTensor2, Row, RowIndex, RowState, Tensor0,
        Tensor1, Tensor2, Tensor3, Tensor4, Tile, TileClass, approx,
    },
    random,
};
