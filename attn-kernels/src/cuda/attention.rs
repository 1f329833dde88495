//! A variant bound to heads, element types and a device; its kernels are compiled and loaded when first needed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use attn_core::{
    batch::{Batch, Layout},
    dtype::Dtypes,
    expr::Variant,
    lang::Dims,
    plan::{PlanRule, WorkList},
    spec::{Heads, KernelKind},
};

use super::{
    CudaError, Device, Kernel, Plan, Stream, Workspace,
    args::Args,
    plan::{Sections, Shape},
};
use crate::{
    cell::{Cell, CellRequest},
    compile::Arch,
    jit,
    splice::{KernelSource, has_key_hooks},
};

/// What may be said of an attention beyond heads and types.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// What `q . k` is multiplied by; `1 / sqrt(head_dim)` unless given.
    pub sm_scale: Option<f32>,
    /// The kernel family; chosen by the batch unless given.
    pub kernel: Option<KernelKind>,
}

/// A bound variant. Plans are made from it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) device: Device,
    pub(super) variant: Variant,
    pub(super) heads: Heads,
    pub(super) dtypes: Dtypes,
    pub(super) sm_scale: f32,
    kernel: Option<KernelKind>,
    args: Arc<Args>,
    kernels: Mutex<HashMap<(KernelKind, bool), Arc<Kernel>>>,
}

impl Attention {
    /// Binds a variant: checks its parameters, uploads its tensors. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// Heads or types without a kernel, a hook that no kernel runs, a parameter that does not fit.
    pub fn new(
        device: &Device,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: Options,
    ) -> Result<Self, CudaError> {
        heads.check()?;
        let dims = Dims {
            qo_heads: Some(heads.qo.into()),
            kv_heads: Some(heads.kv.into()),
            head_dim: Some(heads.head_dim.into()),
            ..Dims::default()
        };
        let variant = variant.bind(&dims)?;
        let inner = Inner {
            args: Arc::new(Args::upload(device, &variant)?),
            device: device.clone(),
            variant,
            heads,
            dtypes,
            sm_scale: heads.sm_scale(options.sm_scale)?,
            kernel: options.kernel,
            kernels: Mutex::default(),
        };
        let attention = Attention { inner: Arc::new(inner) };
        // refuse now what no kernel can do
        for kind in [KernelKind::Prefill, KernelKind::Decode] {
            if options.kernel.is_none_or(|asked| asked == kind) {
                attention.source(kind, false, Arch::new(8, 0))?;
            }
        }
        Ok(attention)
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.inner.variant
    }
    /// Its heads.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.inner.heads
    }
    /// Its element types.
    #[must_use]
    pub fn dtypes(&self) -> Dtypes {
        self.inner.dtypes
    }
    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The source of a kernel for an architecture.
    fn source(&self, kind: KernelKind, paged: bool, arch: Arch) -> Result<KernelSource, CudaError> {
        let Inner { variant, heads, dtypes, .. } = &*self.inner;
        let request = CellRequest {
            kind,
            head_dim: heads.head_dim,
            dtypes: *dtypes,
            paged,
            group: heads.group(),
            key_hooks: has_key_hooks(variant),
            arch,
        };
        Ok(KernelSource::build(variant, &Cell::choose(&request)?)?)
    }

    /// The kernel of a family, compiled and loaded if it is not yet. Planning does this; call it to have it done earlier.
    ///
    /// # Errors
    ///
    /// No cubin, or one that does not load.
    pub fn kernel(&self, kind: KernelKind, paged: bool) -> Result<Arc<Kernel>, CudaError> {
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = kernels.get(&(kind, paged)) {
            return Ok(kernel.clone());
        }
        let device = &self.inner.device;
        let ready = jit::obtain_for_device(device.capability(), |arch| self.source(kind, paged, arch))?;
        let kernel = Arc::new(Kernel::load(device, ready)?);
        kernels.insert((kind, paged), kernel.clone());
        Ok(kernel)
    }

    /// The kernel family for a batch: decode where every request has at most one query, else prefill.
    #[must_use]
    pub fn choose(&self, layout: &Layout) -> KernelKind {
        let by_batch = if layout.max_qo_len() <= 1 { KernelKind::Decode } else { KernelKind::Prefill };
        self.inner.kernel.unwrap_or(by_batch)
    }

    /// Bytes of workspace that a plan of this batch takes, exactly.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn workspace_size(&self, batch: &Batch<'_>) -> Result<usize, CudaError> {
        let layout = batch.validate()?;
        let (kernel, work) = self.schedule(&layout)?;
        Ok(Sections::of(&self.shape(), &kernel, &layout, &work)?.bytes)
    }

    /// Plans a batch into a workspace, which grows if it must. Returns when the plan has arrived on the device; waits for the
    /// device first where a run may still read the workspace's plan before.
    ///
    /// # Errors
    ///
    /// A batch that is not sound, a parameter that does not fit its lengths, no kernel, or no memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_in(None, batch, workspace)
    }

    /// As [`Attention::plan`], without waiting: the plan arrives in the order of the stream, the only one that may run it. Where
    /// the workspace's plan before ran on another stream, this waits for the device all the same.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn plan_on(&self, stream: &Stream, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_in(Some(stream), batch, workspace)
    }

    fn plan_in(
        &self,
        stream: Option<&Stream>,
        batch: &Batch<'_>,
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        let device = &self.inner.device;
        device.check_same("workspace", workspace.device())?;
        if let Some(stream) = stream {
            device.check_same("stream", stream.device())?;
        }
        let layout = batch.validate()?;
        let args = self.args_for(&layout)?;
        let (kernel, work) = self.schedule(&layout)?;
        Plan::put(self, stream, layout, &work, kernel, args, workspace)
    }

    /// The arguments, with tensors over the batch's lengths if the variant has such.
    fn args_for(&self, layout: &Layout) -> Result<Arc<Args>, CudaError> {
        let Inner { variant, heads, device, args, .. } = &*self.inner;
        let count = |n: usize| i64::try_from(n).ok();
        let dims = Dims {
            qo_heads: Some(heads.qo.into()),
            kv_heads: Some(heads.kv.into()),
            head_dim: Some(heads.head_dim.into()),
            batch: count(layout.batch()),
            qo_tokens: count(layout.qo_tokens()),
            kv_tokens: count(layout.kv_tokens()),
        };
        let bound = variant.bind(&dims)?;
        if args.are_of(&bound) { Ok(args.clone()) } else { Ok(Arc::new(Args::upload(device, &bound)?)) }
    }

    fn schedule(&self, layout: &Layout) -> Result<(Arc<Kernel>, WorkList), CudaError> {
        let kernel = self.kernel(self.choose(layout), layout.pages().is_some())?;
        let cell = kernel.cell();
        // one wave of CTAs: as many items per KV head as the device holds at a time
        let target_items = (kernel.resident_ctas() / self.inner.heads.kv).max(1);
        let (kv_align, min_span) = match cell.kind {
            KernelKind::Prefill => (cell.tile_keys, 512),
            KernelKind::Decode => (cell.step_keys().max(64), 256),
        };
        let rule = PlanRule { tile_rows: cell.tile_rows, kv_align, target_items, min_span, longest_first: true };
        let variant = &self.inner.variant;
        let work = WorkList::build_visible(layout, self.inner.heads.group(), &rule, &|tile| variant.tile_class(tile))?;
        Ok((kernel, work))
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { heads: self.inner.heads, kv_elem: self.inner.dtypes.kv.size() }
    }
}
