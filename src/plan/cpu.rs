//! A planned batch on the CPU.

use attn_core::batch::{Batch, BatchCapacity, BatchError, DeviceBatch, Layout};
use attn_core::cpu;
use attn_core::plan::{ListRule, PlanRule, Schedule, WorkList};
use attn_core::tensor::{Tokens, check_run};

use crate::{Error, Kv, Out, TensorRef, Variant, attention::CpuAttention};

#[derive(Debug)]
pub(crate) struct CpuPlan {
    /// The attention, not bound to a batch.
    pub(crate) attention: CpuAttention,
    /// Layers with other parameters, which the work list also covers.
    pub(crate) layers: Vec<CpuAttention>,
    /// The variant, bound to this batch's lengths.
    pub(crate) variant: Variant,
    pub(crate) layout: Layout,
    pub(crate) work: WorkList,
    /// `None` for a plan of one batch.
    pub(crate) capacity: Option<BatchCapacity>,
}

impl CpuPlan {
    /// Builds the work of a batch for an attention and for other layers.
    pub(super) fn new(
        attention: &CpuAttention,
        batch: &Batch<'_>,
        layers: &[&CpuAttention],
        capacity: Option<BatchCapacity>,
    ) -> Result<Self, Error> {
        let mut layout = batch.validate()?;
        if let Some(capacity) = &capacity {
            capacity.largest()?;
            layout = levels_within(layout, capacity)?;
        }
        let layers = attention.layers(layers)?;
        let (variant, layout, work) = build_work(attention, layout, &layers)?;
        Ok(CpuPlan { attention: attention.clone(), layers, variant, layout, work, capacity })
    }

    pub(super) fn run(
        &self,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
        layer: Option<&CpuAttention>,
        partial: bool,
    ) -> Result<(), Error> {
        let CpuPlan { attention, layers, variant, layout, work, .. } = self;
        let of_layer = match layer {
            Some(layer) => {
                attention.check_layer(layers, layer)?;
                let dims = layer.head_dim_vo.dims(layer.heads, layout.dims(layer.heads));
                let variant = layer.replaced(layout)?.map_or_else(|| layer.variant.bind(&dims), Ok)?;
                Some((variant, layer.sm_scale))
            }
            None => attention.replaced(layout)?.map(|variant| (variant, attention.sm_scale)),
        };
        let &CpuAttention { heads, dtypes, head_dim_vo, sm_scale, .. } = attention;
        let (variant, sm_scale) = of_layer.as_ref().map_or((variant, sm_scale), |(variant, scale)| (variant, *scale));
        let tokens = if self.capacity.is_some() { Tokens::AtLeast } else { Tokens::Exactly };
        check_run(layout, tokens, heads, head_dim_vo, dtypes, &q, &kv, &out)?;
        let problem = cpu::Problem { variant, heads, head_dim_vo, sm_scale, layout, work, q, kv };
        if partial {
            cpu::run_partial(&problem, out)?;
        } else {
            cpu::run(&problem, out)?;
        }
        Ok(())
    }

    /// Updates the plan to another batch within the capacity.
    pub(super) fn update(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let capacity = self.required_capacity()?;
        self.replace(batch.validate()?, &capacity)
    }

    /// Updates to lengths and pages that ops write.
    pub(super) fn update_on_device(&mut self, batch: &DeviceBatch<'_>) -> Result<(), Error> {
        let capacity = self.required_capacity()?;
        if !batch.levels.is_empty() && capacity.levels <= 1 {
            return Err(BatchError::LevelsInCapacity.into());
        }
        let elsewhere = Error::Backend { what: "batch", got: "a CUDA device", want: "the CPU" };
        self.replace(batch.layout(capacity.pages)?.ok_or(elsewhere)?, &capacity)
    }

    /// The capacity, which every update needs.
    pub(super) fn required_capacity(&self) -> Result<BatchCapacity, BatchError> {
        self.capacity.ok_or(BatchError::NoCapacity)
    }

    fn replace(&mut self, layout: Layout, capacity: &BatchCapacity) -> Result<(), Error> {
        let layout = levels_within(layout, capacity)?;
        let (variant, layout, work) = build_work(&self.attention, layout, &self.layers)?;
        (self.variant, self.layout, self.work) = (variant, layout, work);
        Ok(())
    }
}

/// Checks a batch against a capacity. A cascade is flattened if the capacity has no levels.
fn levels_within(layout: Layout, capacity: &BatchCapacity) -> Result<Layout, BatchError> {
    let flat = (layout.has_levels() && capacity.levels <= 1).then(|| layout.flattened()).flatten();
    let layout = flat.unwrap_or(layout);
    capacity.check(&layout)?;
    Ok(layout)
}

/// Binds the variant to the batch's lengths and builds the work, for other layers too. A cascade runs level by level if
/// the cost model predicts a gain and the variant allows shared keys; otherwise it is flattened.
fn build_work(
    attention: &CpuAttention,
    layout: Layout,
    layers: &[CpuAttention],
) -> Result<(Variant, Layout, WorkList), Error> {
    let dims = attention.head_dim_vo.dims(attention.heads, layout.dims(attention.heads));
    let variant = attention.variant.bind(&dims)?;
    let others = layers.iter().map(|layer| layer.variant.bind(&dims)).collect::<Result<Vec<_>, _>>()?;
    let flat = cpu::plan_rule(attention.heads);
    let fixed = attention.fixed_split_size.map(|keys| Schedule::FixedSplit { keys });
    let mut rule = ListRule::Flat(PlanRule { schedule: fixed.unwrap_or(flat.schedule), ..flat });
    let mut layout = layout;
    if layout.has_levels() {
        let mixed = cpu::mixed_rule(attention.heads);
        match WorkList::flattened_if_cheaper(&variant, &layout, attention.heads, &mixed)? {
            Some(flat) => layout = flat,
            None if fixed.is_none() && WorkList::supports(&variant, layout.has_levels()).is_ok() => rule = mixed.into(),
            None => {}
        }
    }
    let others: Vec<_> = others.iter().collect();
    let work = cpu::work_of(&variant, &others, &layout, attention.heads, &rule)?;
    Ok((variant, layout, work))
}
