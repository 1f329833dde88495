//! What most programs need: `use attn::prelude::*;`.

pub use crate::{
    Attention, AttentionOptions, Batch, DeviceBuffer, Dtype, Dtypes, Engine, Error, Heads, KernelKind, Kv, Out,
    PageOrder, PageTable, Plan, Stream, TensorMut, TensorRef, Variant, VariantParams, Workspace, attention_variant,
    bf16, compose, device_fn, f16,
    lang::{
        AttentionVariant, KvIndex, LogitIndex, Normalizer, Row, RowIndex, RowState, Tensor1, Tensor2, Tile, TileClass,
        approx,
    },
};
