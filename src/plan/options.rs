//! Options of a plan and of a run.

use crate::{Attention, BatchCapacity, Stream};

/// Options of [`Attention::plan_with`]. All are off by default, as in [`Attention::plan`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions<'a> {
    /// Workspace for every batch up to a capacity, so that the plan can be updated in place
    /// ([`Plan::update`](crate::Plan::update)). A captured run can then be replayed with other batches, because its
    /// grids and addresses depend on the capacity alone. Every batch gives the same bits as a plan of its own, if the
    /// capacity selects the same kernel. (On CUDA the capacity's queries per request select decode or prefill.)
    ///
    /// A cascade is flattened, unless the capacity has levels ([`BatchCapacity::in_levels`]). With levels it runs level
    /// by level where the cost model predicts a gain, and on CUDA all batches use a mixed launch.
    pub capacity: Option<BatchCapacity>,
    /// Layers that the plan also runs ([`RunOptions::layer`]), derived by [`Attention::with_parameters`] or
    /// [`Attention::with_sm_scale`]. If the layers see different keys (another window), the work list covers all keys
    /// that any layer sees, and each layer skips the keys that its own mask hides. A layer that sees far fewer keys is
    /// faster with a plan of its own. Layers that see the same keys (other caps, slopes, sinks, scales) need not be
    /// named.
    pub layers: &'a [&'a Attention],
    /// The stream in whose order the plan is copied to the device, without waiting for it. A run on another stream
    /// waits on the device for the copy. By default planning returns when the plan has arrived.
    pub stream: Option<&'a Stream>,
}

/// Options of [`Plan::run_with`](crate::Plan::run_with). All are off by default, as in
/// [`Plan::run`](crate::Plan::run).
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// Another layer of a model: its parameters and its scale of logits are used. It was derived from the attention of
    /// the plan by [`Attention::with_parameters`] or [`Attention::with_sm_scale`], and needs no plan of its own. A
    /// captured run reads the tensors of the layer, which must live while it is replayed.
    ///
    /// A layer with other kernels, and one that sees other keys than the plan covers ([`PlanOptions::layers`]), is a
    /// [`LayerError`](crate::expr::LayerError).
    pub layer: Option<&'a Attention>,
    /// Writes partial attention: the state (o, lse) of each row over the keys of this batch. Its o is divided by the
    /// row sum over these keys; sink and `output_transform` are not applied. The output needs lse.
    ///
    /// States over disjoint keys merge into the state over all keys
    /// ([`state::merge_state`](crate::state::merge_state)). Then [`state::finalize`](crate::state::finalize) applies
    /// sink and `output_transform` once. [`state`](crate::state) lists the rules of each normaliser.
    pub partial: bool,
}
