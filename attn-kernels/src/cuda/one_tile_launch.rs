//! The launch of decode over tensors from sm_90 on: the work of a single Q tile is a parameter, and its workers may be
//! clusters.

use super::{
    CudaError, CudaPlan, CudaStream,
    bound::BoundAttention,
    launch_kernel::{argument, launch_in_clusters, launch_with},
};
use crate::launch::KernelParams;

impl CudaPlan {
    /// Launches the main kernel of a branch. The KV heads of a worker are adjacent, so that they run at the same time;
    /// in clusters, the workers of a KV head are.
    pub(super) fn launch_one_tile(
        &self,
        stream: &CudaStream,
        params: &KernelParams,
        number: usize,
        layer: Option<&BoundAttention>,
    ) -> Result<(), CudaError> {
        let (kernel, kv_heads) = (&self.branches[number].kernel, self.attention.heads.kv);
        let (traits, args) = (kernel.traits(), self.args_of(number, layer).bytes());
        let ctas = self.sections.lists.parts[number].workers.len() as u32 * kv_heads;
        let (threads, smem) = (traits.threads(), traits.smem_bytes());
        let mut arguments = [argument(params), args.as_ptr().cast_mut().cast(), argument(&self.one_tile)];
        let of_cluster = self.one_tile.workers.unsigned_abs();
        // SAFETY: as for the other launches of `CudaPlan::run`; this kernel takes the third argument.
        unsafe {
            match kernel.has_clusters(of_cluster) {
                true => launch_in_clusters(kernel.main, ctas, of_cluster, threads, smem, stream, &mut arguments),
                false => launch_with(kernel.main, (ctas, 1), threads, smem, stream, &mut arguments),
            }
        }
    }
}
