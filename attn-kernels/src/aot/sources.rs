//! The sources that a build embeds: the product of its options.

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::expr::Variant;
use attn_core::lang::Hook;
use attn_core::registry::Registry;
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::{AotError, AotOptions, environment::list_from_env};
use crate::compile::Arch;
use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};
use crate::splice::{KernelSource, OpSource, PlannerKind, PlannerSource, Unit};

/// A source of any kind.
type AnySource = Box<dyn Unit + Send>;

impl AotOptions<'_> {
    /// What a build compiles; some sources are equal.
    pub(super) fn sources(&self, archs: &[Arch]) -> Result<Vec<AnySource>, AotError> {
        let mut registry = Registry::empty();
        registry.register_all(self.variants)?;
        let mut expressions: Vec<String> = self.expressions.iter().map(|&expr| expr.to_owned()).collect();
        let (mut qo_dtypes, mut kv_dtypes) = (self.dtypes.to_vec(), self.kv_dtypes.to_vec());
        let mut head_dims = self.head_dims.to_vec();
        if self.env {
            list_from_env("ATTN_AOT_EXPRS", "expressions", &mut expressions)?;
            list_from_env("ATTN_AOT_HEAD_DIMS", "head dimensions such as 64;128", &mut head_dims)?;
            list_from_env("ATTN_AOT_DTYPES", "element types such as f16;bf16", &mut qo_dtypes)?;
            list_from_env("ATTN_AOT_KV_DTYPES", "element types such as bf16;e4m3", &mut kv_dtypes)?;
        }
        let mut dtypes = pairs(&qo_dtypes, &kv_dtypes);
        dtypes.extend(self.over_formats(&qo_dtypes)?);
        let mut sources: Vec<AnySource> = Vec::new();
        for (&op, &arch) in pairs_of(self.ops, archs) {
            let source = OpSource::build(op, arch).map_err(|source| AotError::Splice { expr: op.name(), source })?;
            sources.push(Box::new(source));
        }
        for expr in &expressions {
            let variant = Variant::parse_with(expr, &registry)
                .map_err(|source| AotError::Expr { expr: expr.clone(), source: Box::new(source) })?;
            let refused = |source| AotError::Splice { expr: expr.clone(), source };
            let all_stored = self.stored.iter().map(|&stored| variant.clone().with_stored(stored));
            for variant in all_stored.clone() {
                for (branch, traits) in self.all_traits(archs, &variant, &head_dims, &dtypes)? {
                    sources.push(Box::new(KernelSource::build(&branch, &traits).map_err(refused)?));
                }
            }
            let planned_here = variant.has_union() || variant.has_kv_list() || variant.has(Hook::KvRange);
            if self.device_plans && !planned_here {
                for (variant, &arch) in
                    all_stored.clone().flat_map(|variant| archs.iter().map(move |arch| (variant.clone(), arch)))
                {
                    for kind in PlannerKind::ALL {
                        sources.push(Box::new(PlannerSource::build(&variant, kind, arch).map_err(refused)?));
                    }
                }
            }
            let rewrites = variant.has(Hook::KeyTransform) || variant.has(Hook::ValueTransform);
            if self.appends && rewrites && !variant.has_union() {
                for (&arch, of) in pairs_of(archs, &dtypes).filter(|(_, of)| of.format.is_none()) {
                    sources.push(Box::new(OpSource::transform(&variant, of.qo, of.kv, arch).map_err(refused)?));
                }
            }
            for variant in all_stored.filter(|_| self.appends) {
                self.add_formats_ops(&variant, archs, &dtypes, &mut sources)?;
            }
        }
        Ok(sources)
    }

    /// Adds appends to caches of a variant in KV formats, and gathers back.
    fn add_formats_ops(
        &self,
        variant: &Variant,
        archs: &[Arch],
        dtypes: &[Dtypes],
        sources: &mut Vec<AnySource>,
    ) -> Result<(), AotError> {
        let refused = |source| AotError::Splice { expr: variant.to_string(), source };
        let formats = pairs_of(dtypes, self.head_dim_vo).filter(|(of, _)| of.format.is_some());
        for (&arch, (&of, &head_dim_vo)) in product(archs.iter(), formats) {
            // without the hooks that an append does not apply, as a run appends
            let appends = variant.over(of, head_dim_vo)?.0.of_appends();
            let Some(appends) = appends.filter(|appends| !appends.has_union()) else { continue };
            sources.push(Box::new(OpSource::encode(&appends, of.qo, arch).map_err(refused)?));
            sources.push(Box::new(OpSource::gather_packed(&appends, of.qo, arch).map_err(refused)?));
        }
        Ok(())
    }

    /// The types of q and o with each KV format.
    fn over_formats(&self, qo: &[Dtype]) -> Result<Vec<Dtypes>, AotError> {
        let mut formats: Vec<String> = self.kv_formats.iter().map(|&text| text.to_owned()).collect();
        if self.env {
            list_from_env("ATTN_AOT_KV_FORMATS", "KV formats such as int8;int4(group=32)", &mut formats)?;
        }
        let all = formats.iter().flat_map(|text| qo.iter().map(move |&qo| (text, qo)));
        all.map(|(text, qo)| {
            let refused = |source| AotError::Expr { expr: text.clone(), source: Box::new(source) };
            Dtypes::new(qo, qo).with_kv_format(text).map_err(refused)
        })
        .collect()
    }

    /// The kernels of a variant: its branches with their traits, each once.
    fn all_traits(
        &self,
        archs: &[Arch],
        variant: &Variant,
        head_dims: &[u32],
        dtypes: &[Dtypes],
    ) -> Result<Vec<(Variant, KernelTraits)>, AotError> {
        let mut all = Vec::new();
        let mut add = |branch: &Variant, traits| {
            let kernel = (branch.clone(), traits);
            if !all.contains(&kernel) {
                all.push(kernel);
            }
        };
        for ((&arch, &head_dim), (&head_dim_vo, &dtypes)) in
            product(pairs_of(archs, head_dims), pairs_of(self.head_dim_vo, dtypes))
        {
            let (variant, dtypes) = variant.over(dtypes, head_dim_vo)?;
            let (branches, hooks) = (variant.branches(), HookClass::of(&variant));
            let kinds = pairs_of(self.kinds, self.row_invariant);
            for ((&kind, &row_invariant), (&paged, &group)) in product(kinds, pairs_of(self.paged, self.groups)) {
                let request = KernelTraitsRequest::new(kind, head_dim, dtypes, arch).with_hooks(&branches);
                let request = KernelTraitsRequest { row_invariant, decode: self.decode, ..request };
                let request = KernelTraitsRequest { head_dim_vo, paged, group, ..request };
                for request in backends_up_to(request, hooks) {
                    for (branch, group) in product(branches.iter(), groups_up_to(&request).into_iter()) {
                        let request = KernelTraitsRequest { group, ..request };
                        add(branch, KernelTraits::choose(&request.for_branch(branch))?);
                    }
                }
                // batches of short requests select it
                if kind == KernelKind::Prefill && !row_invariant && branches.len() == 1 {
                    let request = KernelTraitsRequest { prefill: PrefillBackend::Sm90Resident, ..request };
                    let traits = KernelTraits::choose(&request.for_branch(&branches[0]))?;
                    if traits.facts().special.is_some() && !traits.has_kv_preprocess() {
                        add(&branches[0], traits);
                    }
                }
            }
        }
        Ok(all)
    }
}

/// A request for each decode backend that an attention of the request's group size or of a smaller one has.
fn backends_up_to(request: KernelTraitsRequest, hooks: HookClass) -> Vec<KernelTraitsRequest> {
    // a tile has a power of two rows
    let smaller = (0..4).map(|n| 1 << n).filter(|&group| group < request.group);
    let of = |group| KernelTraitsRequest { group, ..request }.with_decode_backend(hooks, &CostTable::default()).decode;
    let mut backends: Vec<_> = smaller.chain([request.group]).map(of).collect();
    backends.sort_unstable_by_key(|backend| *backend == Some(DecodeBackend::CudaCores));
    backends.dedup();
    backends.into_iter().map(|decode| KernelTraitsRequest { decode, ..request }).collect()
}

/// What the group of a kernel's request may be: of prefill the group size, of decode the rows of the Q tiles that
/// attentions of this group size or of a smaller one may run: that for one query, on CUDA cores also all smaller ones.
fn groups_up_to(request: &KernelTraitsRequest) -> Vec<u32> {
    if request.kind == KernelKind::Prefill {
        return vec![request.group];
    }
    let rows = request.decode_rows(request.group);
    match request.decode_backend() {
        DecodeBackend::TensorCores => vec![rows],
        DecodeBackend::CudaCores => (0..4).map(|n| 1 << n).filter(|&fewer| fewer <= rows).collect(),
    }
}

fn product<A: Copy, B: Clone>(
    a: impl Iterator<Item = A>,
    b: impl Iterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    a.flat_map(move |x| b.clone().map(move |y| (x, y)))
}

fn pairs_of<'a, A, B>(a: &'a [A], b: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> + Clone {
    a.iter().flat_map(move |x| b.iter().map(move |y| (x, y)))
}

/// The pairs of element types (q and o; k and v) from two lists. A KV type that no query type allows is kept, so that
/// an error names it.
fn pairs(qo: &[Dtype], kv: &[Dtype]) -> Vec<Dtypes> {
    let own = |&qo: &Dtype| Dtypes::new(qo, qo);
    if kv.is_empty() {
        return qo.iter().map(own).collect();
    }
    let of = |&kv: &Dtype| {
        let alone = !kv.is_fp8() && qo.contains(&kv);
        qo.iter().filter(move |&&qo| !alone || qo == kv).map(move |&qo| Dtypes::new(qo, kv))
    };
    kv.iter().flat_map(of).collect()
}
