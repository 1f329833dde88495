//! Kernels that are compiled on all cores and loaded before their first use.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, mem};

use attn_core::batch::{Batch, BatchCapacity};
use attn_core::dtype::Dtype;
use attn_core::expr::Variant;
use attn_core::spec::KernelKind;

use super::bound::BoundAttention;
use crate::cache::Key;
use crate::compile::Arch;
use crate::cuda::ops::{self, CudaKvTransform, Op};
use crate::cuda::{CudaAttention, CudaError, Device};
use crate::jit::{DeviceSource, PrepareReport, Progress, obtain_all_for_device};
use crate::problem::KernelKey;
use crate::splice::{OpSource, PlannerKind, Unit};

/// A list of the kernels that plans and ops will load. [`CudaPreparation::run`] compiles them on all cores and then
/// loads them, one after the other.
///
/// `Send` and `Sync`: threads may add to it at once. A source is kept once, however many plans need it.
pub struct CudaPreparation {
    device: Device,
    loads: bool,
    needed: Mutex<Needed>,
}

#[derive(Default)]
struct Needed {
    sources: BTreeMap<Key, DeviceSource>,
    /// What is to be loaded, with the keys of its cubins.
    loads: Vec<(Load, Vec<Key>)>,
}

/// What loads cubins.
enum Load {
    Kernels(Arc<BoundAttention>, KernelKey),
    Planner(Arc<BoundAttention>, PlannerKind),
    Op(Op),
    Append(Arc<CudaKvTransform>, Dtype, Dtype),
}

impl CudaPreparation {
    /// An empty list.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        CudaPreparation { device: device.clone(), loads: true, needed: Mutex::default() }
    }

    /// An empty list whose kernels are compiled and not loaded: the cache then has what other attentions load later.
    #[must_use]
    pub fn without_loading(device: &Device) -> Self {
        CudaPreparation { loads: false, ..Self::new(device) }
    }

    /// Adds the kernels that a plan of a batch loads; of a cascade also those for the batch without levels.
    ///
    /// # Errors
    ///
    /// Those of [`CudaAttention::plan`] that do not depend on cubins.
    pub fn batch(&self, attention: &CudaAttention, batch: &Batch<'_>) -> Result<(), CudaError> {
        let keys = attention.bound.keys_for(&batch.validate()?)?;
        keys.into_iter().try_for_each(|key| self.kernels(attention, key))
    }

    /// Adds the kernels that a plan with a capacity loads.
    ///
    /// # Errors
    ///
    /// A capacity that no plan can have; a hook that the kernel does not support; an attention of another device.
    pub fn capacity(&self, attention: &CudaAttention, capacity: &BatchCapacity) -> Result<(), CudaError> {
        capacity.largest()?;
        self.kernels(attention, attention.bound.key_within(capacity).1)
    }

    /// Adds the kernels that [`CudaPlan::update_on_device`](crate::cuda::CudaPlan::update_on_device) loads, also those
    /// of plans with a capacity for levels, unless the attention runs none or names another kernel.
    ///
    /// # Errors
    ///
    /// An attention whose plans only the host can update; an attention of another device.
    pub fn device_updates(&self, attention: &CudaAttention) -> Result<(), CudaError> {
        let bound = &attention.bound;
        self.device.check_same("attention", &bound.device)?;
        bound.check_device_updates()?;
        // without levels a capacity has the mixed kernel only where the options name it
        let is_mixed = bound.kernel == Some(KernelKind::Mixed);
        let has_levels = (is_mixed || bound.kernel.is_none())
            && [false, true].into_iter().any(|paged| bound.check_cascade(paged).is_ok());
        let mut kinds = PlannerKind::ALL.into_iter().filter(|kind| match kind {
            PlannerKind::StreamK | PlannerKind::SplitTiles => !is_mixed,
            PlannerKind::Mixed => is_mixed || has_levels,
            PlannerKind::Cascade => has_levels,
        });
        kinds.try_for_each(|kind| {
            let planned = bound.clone();
            let source = self.source(move |arch| planned.planner_source(kind, arch))?;
            self.add(Load::Planner(bound.clone(), kind), vec![source]);
            Ok(())
        })
    }

    /// Adds the kernels of an op.
    ///
    /// # Errors
    ///
    /// A mistake in the templates.
    pub fn op(&self, op: Op) -> Result<(), CudaError> {
        let source = self.source(move |arch| Ok(OpSource::build(op, arch)?))?;
        self.add(Load::Op(op), vec![source]);
        Ok(())
    }

    /// Adds the kernels of an append through a transform, from one element type to another.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together; a transform of another device.
    pub fn append(&self, transform: &Arc<CudaKvTransform>, from: Dtype, to: Dtype) -> Result<(), CudaError> {
        self.device.check_same("transform", transform.device())?;
        let applied = transform.clone();
        let source = self.source(move |arch| applied.source(from, to, arch))?;
        self.add(Load::Append(transform.clone(), from, to), vec![source]);
        Ok(())
    }

    fn kernels(&self, attention: &CudaAttention, key: KernelKey) -> Result<(), CudaError> {
        let bound = &attention.bound;
        self.device.check_same("attention", &bound.device)?;
        let source = |branch: &Variant| {
            let (bound, branch) = (bound.clone(), branch.clone());
            self.source(move |arch| Ok(bound.source(&branch, key, arch)?))
        };
        let sources = bound.branches.iter().map(source).collect::<Result<_, _>>()?;
        self.add(Load::Kernels(bound.clone(), key), sources);
        Ok(())
    }

    /// A source for the device.
    fn source<S: Unit + Send + 'static>(
        &self,
        build: impl Fn(Arch) -> Result<S, CudaError> + Send + 'static,
    ) -> Result<DeviceSource, CudaError> {
        DeviceSource::new(self.device.capability(), build)
    }

    fn add(&self, load: Load, sources: Vec<DeviceSource>) {
        let sources: Vec<_> = sources.into_iter().map(|source| (source.key(), source)).collect();
        let mut needed = self.needed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.loads {
            needed.loads.push((load, sources.iter().map(|(key, _)| *key).collect()));
        }
        for (key, source) in sources {
            needed.sources.entry(key).or_insert(source);
        }
    }

    /// Distinct kernels so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner).sources.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties the list: compiles what is neither embedded nor cached, on `threads` threads (`None`: as many as rayon's
    /// pool has). `progress` is called after each cubin. Then this thread loads everything on the device, one kernel
    /// after the other, without further reports.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unprepared`] with the error of each kernel that does not compile or load. All others are prepared.
    pub fn run(
        &self,
        threads: Option<usize>,
        progress: impl FnMut(Progress<'_>) + Send,
    ) -> Result<PrepareReport, CudaError> {
        let Needed { sources, loads } = mem::take(&mut *self.needed.lock().unwrap_or_else(PoisonError::into_inner));
        let (keys, sources): (Vec<Key>, Vec<_>) = sources.into_iter().unzip();
        let (mut report, mut failed, mut failures) = (PrepareReport::default(), HashSet::new(), Vec::new());
        for (key, result) in keys.into_iter().zip(obtain_all_for_device(sources, threads, progress)) {
            match result {
                Ok(ready) => report.count(ready.origin),
                Err(error) => {
                    failed.insert(key);
                    failures.push(error.into());
                }
            }
        }
        for (load, keys) in loads {
            if !keys.iter().any(|key| failed.contains(key)) {
                failures.extend(load.load(&self.device).err());
            }
        }
        if failures.is_empty() { Ok(report) } else { Err(CudaError::Unprepared { failures }) }
    }
}

impl Load {
    fn load(self, device: &Device) -> Result<(), CudaError> {
        match self {
            Load::Kernels(bound, key) => bound.kernels(key).map(|_| ()),
            Load::Planner(bound, kind) => bound.planner(kind).map(|_| ()),
            Load::Op(op) => ops::prepare(device, &[op]),
            Load::Append(transform, from, to) => transform.prepare(from, to),
        }
    }
}

impl fmt::Debug for CudaPreparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparation").field("device", &self.device).field("kernels", &self.len()).finish()
    }
}
