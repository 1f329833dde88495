//! The launches of a run outside of mixed ones: for each branch K/V preprocessing and the main kernel, then the merge.

use attn_core::spec::Heads;
use cudarc::driver::sys::CUfunction;

use super::{
    kernel_params::branch_params,
    sm90_launch::{launch_sm90, sm90_params},
    tensors::RunTensors,
};
use crate::{
    cuda::{
        CudaError, CudaStream, Kernel,
        attention::bound::BoundAttention,
        driver::launch_kernel::launch_kernel,
        plan::{launches::Launches, plan_workspace::PlanWorkspace},
    },
    launch::{KV_PREPROCESS_THREADS, KernelParams, MERGE_THREADS, PackedParams},
};

/// A run whose tensors have been checked and ordered.
pub(super) struct BranchLaunches<'a> {
    pub(super) stream: &'a CudaStream,
    pub(super) heads: Heads,
    pub(super) launches: &'a Launches,
    pub(super) workspace: &'a PlanWorkspace,
    /// The layer whose parameters the run has, if it is not that of the plan.
    pub(super) layer: Option<&'a BoundAttention>,
    pub(super) tensors: &'a RunTensors<'a>,
    /// The parameters that branches have in common.
    pub(super) params: PackedParams,
}

impl BranchLaunches<'_> {
    pub(super) fn launch(&self) -> Result<(), CudaError> {
        // branches run one after the other, because they preprocess keys and values into the same sections
        for (number, branch) in self.launches.branches.iter().enumerate() {
            self.preprocess(number, &branch.kernel)?;
            self.main(number, &branch.kernel)?;
        }
        self.merge()
    }

    fn preprocess(&self, number: usize, kernel: &Kernel) -> Result<(), CudaError> {
        let Some(function) = kernel.kv_preprocess else { return Ok(()) };
        let (tokens, requests) = (self.launches.preprocess_tokens, self.launches.requests);
        let [x, y] = kernel.traits().kv_preprocess_grid(tokens, requests, self.heads.kv);
        self.launch_function(number, function, (x, y), KV_PREPROCESS_THREADS, 0)
    }

    fn main(&self, number: usize, kernel: &Kernel) -> Result<(), CudaError> {
        let (traits, kv_heads) = (kernel.traits(), self.heads.kv);
        let part = &self.workspace.sections.lists.parts[number];
        let items = part.items.len() as u32;
        if traits.is_sm90_prefill() {
            let params = branch_params(self.launches, self.workspace, number, self.params.base);
            let base = KernelParams { k: traits.in_pairs(params.k), ..params };
            let sm90 = sm90_params(self.heads, self.launches, kernel, items, &base, self.tensors)?;
            let params = PackedParams { base, ..self.params };
            // SAFETY: as in `launch_function`.
            return unsafe {
                launch_sm90(self.stream, kernel, items * kv_heads, &params, &sm90, self.arguments(number))
            };
        }
        let grid = match traits.facts().has_workers {
            false => (items, kv_heads),
            // the KV heads of a worker are adjacent, so that they run at the same time
            true => (part.workers.len() as u32 * kv_heads, 1),
        };
        self.launch_function(number, kernel.main, grid, traits.threads(), traits.smem_bytes())
    }

    /// The merge of all branches. Finalizing after it is the same for each of them.
    fn merge(&self) -> Result<(), CudaError> {
        let kernel = self.launches.kernel();
        let Some(function) = kernel.merge else { return Ok(()) };
        let grid = kernel.merge_grid(self.launches.merges, self.heads);
        self.launch_function(0, function, grid, MERGE_THREADS, 0)
    }

    /// The arguments of a branch's variant.
    fn arguments(&self, number: usize) -> &[u8] {
        self.launches.args_of(number, self.layer).bytes()
    }

    fn launch_function(
        &self,
        number: usize,
        function: CUfunction,
        grid: (u32, u32),
        threads: u32,
        smem: u32,
    ) -> Result<(), CudaError> {
        let base = branch_params(self.launches, self.workspace, number, self.params.base);
        // kernels over tensors take the first part of it
        let params = PackedParams { base, ..self.params };
        // SAFETY: the caller promised the extents of the tensors when it made them, which `check_run` compared with
        // the batch. The planner made the work list for this batch, and it was uploaded before, in the order of
        // this stream. The sections of the workspace have the sizes that they state.
        unsafe { launch_kernel(function, grid, threads, smem, self.stream, &params, self.arguments(number)) }
    }
}
