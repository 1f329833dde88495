//! The tensors of a run.

use attn_core::tensor::{Kv, Out, TensorRef};

/// The tensors of a run.
pub(super) struct RunTensors<'a> {
    pub(super) q: TensorRef<'a>,
    pub(super) kv: Kv<'a>,
    pub(super) out: Out<'a>,
}
