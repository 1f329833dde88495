//! Which kernels run a batch, and whether a cascade runs level by level or as requests without shared prefixes.

use attn_core::batch::{BatchCapacity, BatchError, Layout};
use attn_core::expr::Variant;
use attn_core::plan::{CascadeCosts, ListRule, MixedRule, WorkList};

use super::{bound::BoundAttention, kernels::LoadedKernels};
use crate::cuda::{CudaError, SelectedKernel};
use crate::problem::KernelKey;

impl BoundAttention {
    /// The kernels for a batch, and the batch as they run it. A cascade is flattened if its levels are not supported,
    /// or if the cost model predicts no gain from them.
    pub(in crate::cuda) fn kernels_for(
        &self,
        variant: &Variant,
        layout: Layout,
    ) -> Result<(Layout, LoadedKernels), CudaError> {
        if !layout.has_levels() {
            return self.flat_kernels(layout);
        }
        let key = KernelKey::for_batch(self.selector.select(&layout), &layout);
        let supported = self.check_levels().map_err(CudaError::from);
        let loaded = match (supported.and_then(|()| self.load(key)), layout.flattened()) {
            (Ok(loaded), _) => loaded,
            (Err(_), Some(flat)) => return self.flat_kernels(flat),
            (Err(error), None) => return Err(error),
        };
        if let (ListRule::Mixed(rule), None) = (&loaded.rule, self.kernel)
            && let Some(flat) = WorkList::flattened_if_cheaper(variant, &layout, self.heads, rule)?
        {
            return self.flat_kernels(flat);
        }
        Ok((layout, loaded))
    }

    /// The kernels for a batch without levels.
    fn flat_kernels(&self, layout: Layout) -> Result<(Layout, LoadedKernels), CudaError> {
        let mut loaded = self.load(self.flat_key(&layout)?)?;
        let (traits, resident_ctas) = (*loaded.traits(), loaded.kernels[0].resident_ctas());
        if let ListRule::Flat(rule) = &mut loaded.rule {
            *rule = traits.facts().rule_of_batch(*rule, &layout, self.heads, resident_ctas);
        }
        Ok((layout, loaded))
    }

    /// The kernel for a batch without levels.
    fn flat_key(&self, layout: &Layout) -> Result<KernelKey, CudaError> {
        let selected = self.selector.select(layout);
        self.check_batch_invariance(layout, selected)?;
        Ok(KernelKey::for_batch(selected, layout))
    }

    /// The kernels that [`BoundAttention::kernels_for`] may load: for a cascade that of its levels, and that of the
    /// batch without levels.
    pub(super) fn keys_for(&self, layout: &Layout) -> Result<Vec<KernelKey>, CudaError> {
        if !layout.has_levels() {
            return Ok(vec![self.flat_key(layout)?]);
        }
        let key = KernelKey::for_batch(self.selector.select(layout), layout);
        let by_level = self.check_levels().and_then(|()| self.check_kernel(key));
        let mut keys: Vec<_> = by_level.is_ok().then_some(key).into_iter().collect();
        if keys.is_empty() || self.kernel.is_none() {
            let flat = layout.flattened().map(|flat| self.flat_key(&flat));
            keys.extend(flat.transpose()?);
        }
        match by_level {
            Err(error) if keys.is_empty() => Err(error.into()),
            _ => Ok(keys),
        }
    }

    /// Under batch invariance: refuses a batch with a request that would select another kernel if it were alone.
    pub(in crate::cuda) fn check_batch_invariance(
        &self,
        layout: &Layout,
        runs: SelectedKernel,
    ) -> Result<(), CudaError> {
        if self.fixed_split_size.is_none() {
            return Ok(());
        }
        let requests = (0..layout.batch()).filter(|&request| layout.qo_len(request) > 0);
        let mut alone = requests.map(|request| (request, self.selector.select_for_length(layout.qo_len(request))));
        match alone.find(|&(_, alone)| alone != runs) {
            Some((request, alone)) => Err(CudaError::OtherKernel { request, alone, runs }),
            None => Ok(()),
        }
    }

    /// The kernels for all batches within a capacity, and the capacity that they support. A capacity with several
    /// levels takes the mixed kernel whose work items may have rows of several requests, whatever the batch, with the
    /// largest decode tile. Without
    /// such a kernel the capacity is reduced to one level.
    pub(in crate::cuda) fn kernels_within(
        &self,
        capacity: &BatchCapacity,
    ) -> Result<(BatchCapacity, LoadedKernels), CudaError> {
        let (capacity, key) = self.key_within(capacity);
        Ok((capacity, self.load(key)?))
    }

    /// The kernel of [`BoundAttention::kernels_within`], and the capacity.
    pub(super) fn key_within(&self, capacity: &BatchCapacity) -> (BatchCapacity, KernelKey) {
        let (qo_len, paged) = (capacity.qo_len as usize, capacity.pages.is_some());
        if capacity.levels > 1 && self.check_levels().is_ok() {
            let key = KernelKey { selected: self.selector.mixed_for_levels(qo_len), paged, shared_rows: true };
            if self.check_kernel(key).is_ok() {
                return (*capacity, key);
            }
        }
        (capacity.in_levels(1), KernelKey::without_levels(self.selector.select_for_length(qo_len), paged))
    }

    /// A batch as a plan with a capacity runs it: a cascade runs level by level if the capacity has levels and the cost
    /// model predicts a gain; otherwise it runs flattened.
    pub(in crate::cuda) fn levels_within(
        &self,
        layout: Layout,
        capacity: &BatchCapacity,
        rule: &ListRule,
    ) -> Result<Layout, CudaError> {
        if !layout.has_levels() {
            return Ok(layout);
        }
        if let ListRule::Mixed(rule) = rule
            && capacity.levels > 1
        {
            capacity.check(&layout)?;
            // the mixed kernel runs the batch in either form, so the decode penalty of mixed launches does not count
            let rule = MixedRule { cascade: CascadeCosts { decode_penalty: 0, ..rule.cascade }, ..*rule };
            let flat = match self.kernel {
                None => WorkList::flattened_if_cheaper(&self.variant, &layout, self.heads, &rule)?,
                Some(_) => None,
            };
            return Ok(flat.unwrap_or(layout));
        }
        if let Some(flat) = layout.flattened() {
            return Ok(flat);
        }
        self.check_levels()?;
        Err(BatchError::LevelsInCapacity.into())
    }
}
