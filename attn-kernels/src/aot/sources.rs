//! The sources that a build embeds: the product of its options.

use attn_core::{
    dtype::{Dtype, Dtypes},
    expr::Variant,
    lang::Hook,
    registry::Registry,
    spec::PrefillBackend,
};

use super::{Aot, AotError, environment::list_from_env};
use crate::{
    compile::Arch,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, OpSource, PlannerSource, Unit, has_key_hooks, has_key_list, has_value_hooks},
};

impl Aot {
    /// All sources; some are equal.
    pub(super) fn all_sources(&self, archs: &[Arch]) -> Result<Vec<Box<dyn Unit + Send>>, AotError> {
        let mut all: Vec<Box<dyn Unit + Send>> = Vec::new();
        all.extend(boxed(self.sources(archs)?));
        all.extend(boxed(self.planners(archs)?));
        all.extend(boxed(self.op_sources(archs)?));
        Ok(all)
    }

    /// The sources of attention kernels.
    fn sources(&self, archs: &[Arch]) -> Result<Vec<KernelSource>, AotError> {
        let mut registry = Registry::empty();
        registry.register_all(&self.table)?;
        let mut sources: Vec<KernelSource> = Vec::new();
        for expr in &self.expressions {
            let variant = Variant::parse_with(expr, &registry)
                .map_err(|e| AotError::Expr { expr: expr.clone(), source: Box::new(e) })?;
            let branches = self.stored.iter().flat_map(|&stored| variant.clone().with_stored(stored).branches());
            for variant in branches {
                for traits in self.all_traits(archs, &variant)? {
                    let source = KernelSource::build(&variant, &traits)
                        .map_err(|e| AotError::Splice { expr: expr.clone(), source: e })?;
                    sources.push(source);
                }
            }
        }
        Ok(sources)
    }

    /// The sources of planner kernels, for the variants that the device can plan.
    fn planners(&self, archs: &[Arch]) -> Result<Vec<PlannerSource>, AotError> {
        let mut registry = Registry::empty();
        registry.register_all(&self.table)?;
        let mut sources: Vec<PlannerSource> = Vec::new();
        for expr in self.expressions.iter().filter(|_| self.device_plans) {
            let variant = Variant::parse_with(expr, &registry)
                .map_err(|e| AotError::Expr { expr: expr.clone(), source: Box::new(e) })?;
            if variant.has_union() || variant.has_kv_list() || variant.has(Hook::KvRange) {
                continue;
            }
            for (&stored, &arch) in self.stored.iter().flat_map(|stored| archs.iter().map(move |arch| (stored, arch))) {
                let source = PlannerSource::build(&variant.clone().with_stored(stored), arch)
                    .map_err(|e| AotError::Splice { expr: expr.clone(), source: e })?;
                sources.push(source);
            }
        }
        Ok(sources)
    }

    /// The sources of ops.
    fn op_sources(&self, archs: &[Arch]) -> Result<Vec<OpSource>, AotError> {
        let mut sources = Vec::new();
        for (&op, &arch) in self.ops.iter().flat_map(|op| archs.iter().map(move |arch| (op, arch))) {
            let name = op.name();
            sources.push(OpSource::build(op, arch).map_err(|e| AotError::Splice { expr: name, source: e })?);
        }
        let mut registry = Registry::empty();
        registry.register_all(&self.table)?;
        let (qo_dtypes, kv_dtypes) = self.dtype_lists()?;
        for expr in self.expressions.iter().filter(|_| self.appends) {
            let variant = Variant::parse_with(expr, &registry)
                .map_err(|e| AotError::Expr { expr: expr.clone(), source: Box::new(e) })?;
            if variant.has_union() || !(has_key_hooks(&variant) || has_value_hooks(&variant)) {
                continue;
            }
            for (&arch, &dtypes, ()) in product(archs, &pairs(&qo_dtypes, &kv_dtypes), &[()]) {
                let source = OpSource::transform(&variant, dtypes.qo, dtypes.kv, arch)
                    .map_err(|e| AotError::Splice { expr: expr.clone(), source: e })?;
                sources.push(source);
            }
        }
        Ok(sources)
    }

    /// The element types of q and o, and those of k and v.
    fn dtype_lists(&self) -> Result<(Vec<Dtype>, Vec<Dtype>), AotError> {
        let (mut qo, mut kv) = (self.dtypes.clone(), self.kv_dtypes.clone());
        if self.sizes_from_env {
            list_from_env("ATTN_AOT_DTYPES", "element types such as f16;bf16", &mut qo)?;
            list_from_env("ATTN_AOT_KV_DTYPES", "element types such as bf16;e4m3", &mut kv)?;
        }
        Ok((qo, kv))
    }

    fn all_traits(&self, archs: &[Arch], variant: &Variant) -> Result<Vec<KernelTraits>, AotError> {
        let mut all_traits = Vec::new();
        let (key_hooks, value_hooks) = (has_key_hooks(variant), has_value_hooks(variant));
        let (qo_dtypes, kv_dtypes) = self.dtype_lists()?;
        let mut head_dims = self.head_dims.clone();
        if self.sizes_from_env {
            list_from_env("ATTN_AOT_HEAD_DIMS", "head dimensions such as 64;128", &mut head_dims)?;
        }
        let dtypes = pairs(&qo_dtypes, &kv_dtypes);
        let widths: Vec<_> = head_dims
            .iter()
            .flat_map(|&dim| self.head_dim_vo.iter().map(move |&head_dim_vo| (dim, head_dim_vo)))
            .collect();
        for (&arch, &(head_dim, head_dim_vo), &dtypes) in product(archs, &widths, &dtypes) {
            for (&kind, &paged, &group) in product(&self.kinds, &self.paged, &self.groups) {
                let (key_lists, prefill) = (has_key_list(variant), PrefillBackend::default());
                let request = KernelTraitsRequest {
                    kind,
                    head_dim,
                    head_dim_vo,
                    dtypes,
                    paged,
                    group,
                    key_hooks,
                    value_hooks,
                    key_lists,
                    prefill,
                    arch,
                };
                let traits = KernelTraits::choose(&request)?;
                if !all_traits.contains(&traits) {
                    all_traits.push(traits);
                }
            }
        }
        Ok(all_traits)
    }
}

fn boxed<U: Unit + Send + 'static>(sources: Vec<U>) -> impl Iterator<Item = Box<dyn Unit + Send>> {
    sources.into_iter().map(|source| Box::new(source) as Box<dyn Unit + Send>)
}

fn product<'a, A, B, C>(a: &'a [A], b: &'a [B], c: &'a [C]) -> impl Iterator<Item = (&'a A, &'a B, &'a C)> {
    a.iter().flat_map(move |x| b.iter().flat_map(move |y| c.iter().map(move |z| (x, y, z))))
}

/// The pairs of element types (q and o; k and v) from two lists. A KV type that no query type allows is kept, so that
/// an error names it.
fn pairs(qo: &[Dtype], kv: &[Dtype]) -> Vec<Dtypes> {
    let own = |&qo: &Dtype| Dtypes { qo, kv: qo };
    if kv.is_empty() {
        return qo.iter().map(own).collect();
    }
    let of = |&kv: &Dtype| {
        let alone = !kv.is_fp8() && qo.contains(&kv);
        qo.iter().filter(move |&&qo| !alone || qo == kv).map(move |&qo| Dtypes { qo, kv })
    };
    kv.iter().flat_map(of).collect()
}
