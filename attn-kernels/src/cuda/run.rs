//! A run: K/V preprocessing, the main kernel, and the merge. For a union the first two run once for each branch. A run
//! only launches, so it can be captured.

mod branch_launches;
mod kernel_params;
mod mixed_launch;
mod sm90_launch;
mod tensor_maps;
mod tensors;

use attn_core::spec::KernelKind;
use attn_core::tensor::{Kv, Out, TensorRef, Tokens, check_run};

use crate::{
    cuda::{CudaAttention, CudaError, CudaPlan, CudaStream, driver::order::order_run},
    launch::{KernelParams, PackedParams},
};
use branch_launches::BranchLaunches;
use kernel_params::{kernel_params, kv_sides};
use mixed_launch::launch_mixed;
use tensors::RunTensors;

impl CudaPlan {
    /// Launches the attention, or that of another layer: `q` of shape (qo tokens, qo heads, head_dim), `kv` as the
    /// batch describes it, into `out`.
    ///
    /// Only launches: it does not allocate, synchronise or copy, so it can be captured into a graph. Results are
    /// complete in the order of the stream. A run on another stream than the last run, update or upload of the plan
    /// waits on the device for that one; use one workspace per stream for runs that overlap. Under a capture, and after
    /// an update on the device, the tensors of a plan with a capacity have to fit the largest batch within it, because
    /// a replay may run such a batch.
    ///
    /// A layer is an attention that was made from the plan's by [`CudaAttention::with_parameters`] or
    /// [`CudaAttention::with_sm_scale`]. Kernels and work list are the same. A captured run reads the parameter tensors
    /// of the layer.
    ///
    /// What a captured run uses must outlive a [`CudaGraph`](super::CudaGraph). Where another library captures the
    /// stream, the memory of the plan, its kernels and the parameter tensors are kept until
    /// [`CudaPlan::release_captured`].
    ///
    /// In a partial run rows are not finalized: neither sink nor `output_transform` is applied. It writes the
    /// partial state of each row over the keys of this batch: O divided by the row sum, and the log-sum-exp. It merges
    /// with states over other keys, and is finalized afterwards ([`attn_core::state`]).
    ///
    /// # Errors
    ///
    /// A tensor that does not fit, that is in host memory, or that is not aligned to 16 bytes; a partial output without
    /// lse; a stale plan; a stream or a buffer of another device; a [`LayerError`] for an attention with other kernels,
    /// or one whose visibility was not planned. Nothing is launched then.
    ///
    /// Kernels access exactly the tokens of the batch's indptr, and the slots of its pages below each request's length;
    /// the caller promised these extents when it made the tensors ([`TensorRef::device`]).
    ///
    /// [`LayerError`]: attn_core::expr::LayerError
    /// [`CudaAttention::with_parameters`]: super::CudaAttention::with_parameters
    /// [`CudaAttention::with_sm_scale`]: super::CudaAttention::with_sm_scale
    pub fn run(
        &self,
        stream: &CudaStream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
        layer: Option<&CudaAttention>,
        partial: bool,
    ) -> Result<(), CudaError> {
        if partial {
            out.check_partial()?;
        }
        layer.map_or(Ok(()), |layer| self.check_layer(layer))?;
        let tensors = RunTensors { q, kv, out };
        let RunTensors { q, kv, out } = &tensors;
        let (of_layer, layer) = (layer, layer.map(|layer| &*layer.bound));
        let (attention, launches) = (&*self.attention, &self.launches);
        let device = &attention.device;
        device.check_same("stream", stream.device())?;
        // the lock keeps another thread's launches, which use the same partial states, from coming in between
        let memory = self.workspace.lock()?;
        let _submission = stream.submission();
        let largest = self.largest(stream, layer)?;
        let tokens = if self.capacity().is_some() { Tokens::AtLeast } else { Tokens::Exactly };
        check_run(largest, tokens, attention.heads, attention.head_dim_vo, attention.dtypes, q, kv, out)?;
        let sm_scale = layer.unwrap_or(attention).sm_scale;
        let page_size = self.layout().pages().map_or(1, |pages| pages.page_size());
        let params = kernel_params(attention, launches, &self.workspace, page_size, &tensors, partial)?;
        let params = KernelParams { sm_scale, ..params };
        let sides = kv_sides(kv, attention.head_dim_vo.shares_keys())?;
        let _current = device.make_current()?;
        self.keep_captured(stream, of_layer.map(|layer| &layer.bound))?;
        order_run(stream, q, kv, out)?;
        memory.order(stream)?;
        let args = |number| launches.args_of(number, layer);
        let _content = args(0).keep_content(); // of a union, no tensor can be replaced
        (0..launches.branches.len()).try_for_each(|number| args(number).order(stream))?;

        let (workspace, params) = (&self.workspace, PackedParams { base: params, sides });
        if self.kind() == KernelKind::Mixed {
            return launch_mixed(stream, attention, launches, workspace, params, &tensors, args(0).bytes());
        }
        let heads = attention.heads;
        BranchLaunches { stream, heads, launches, workspace, layer, tensors: &tensors, params }.launch()
    }
}
