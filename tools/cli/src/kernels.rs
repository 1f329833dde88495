//! The kernels that the command line or a case asks for.

use anyhow::{Result, bail};
use attn_core::{
    batch::{Batch, indptr},
    dtype::{Dtype, Dtypes},
    expr::Variant,
    spec::{ComputeType, DecodeBackend, HeadDimVo, Heads, KernelKind, KvStored, PrefillBackend},
};
use attn_kernels::{
    compile::Arch,
    cost::{CostTable, HookClass},
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    select::{FixedChoice, KernelSelector, SelectedKernel},
    splice::KernelSource,
};
use attn_testing::{Case, LevelCase};
use clap::{Args, ValueEnum};

/// The kernels of an expression: one for each combination.
#[derive(Args)]
pub(crate) struct KernelArgs {
    /// Architectures, such as 80, 90a, sm_120. `;` or `,` separates several.
    #[arg(long, default_value = "sm_90a", value_delimiter = ';')]
    pub(crate) arch: Vec<String>,
    /// The head dimension of queries and keys.
    #[arg(long, default_value = "128", value_delimiter = ',')]
    pub(crate) head_dim: Vec<u32>,
    /// The head dimension of values: `same` as keys, a number, or `keys:NUMBER` for the first elements of the keys.
    #[arg(long, default_value = "same")]
    pub(crate) head_dim_vo: HeadDimVo,
    /// Element types of q and o: f16, bf16, f32.
    #[arg(long, default_value = "bf16", value_delimiter = ',')]
    pub(crate) dtype: Vec<Dtype>,
    /// Element types of k and v, such as e4m3, e5m2. The default is those of q and o.
    #[arg(long, value_delimiter = ',')]
    pub(crate) kv_dtype: Vec<Dtype>,
    /// KV formats of k and v, beside their element types: int8, "int8 / int4(group=32)". May be given several times.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) kv_format: Vec<String>,
    /// The storage of keys. The default is ragged for prefill and paged for decode.
    #[arg(long, value_delimiter = ',')]
    pub(crate) layout: Vec<Layout>,
    /// Query heads per KV head. One decode kernel serves up to 8, another one more.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub(crate) group: u32,
    /// The keys and values in memory, for a variant that transforms them.
    #[arg(long, value_enum, default_value = "raw")]
    pub(crate) stored: Stored,
    /// The mixed kernel for requests that share keys.
    #[arg(long)]
    pub(crate) shared_rows: bool,
    /// The prefill backend: sm80, sm90, sm90-resident, cuda-cores. The default is sm90, where there is one.
    #[arg(long)]
    pub(crate) prefill: Option<PrefillBackend>,
    /// The decode backend: tensor-cores, cuda-cores. The default is the one with less measured time.
    #[arg(long)]
    pub(crate) decode: Option<DecodeBackend>,
    /// The compute type of prefill: exact, e4m3. The default is exact.
    #[arg(long)]
    pub(crate) compute_type: Option<ComputeType>,
}

/// [`KvStored`] as an option.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Stored {
    /// As the model computed them.
    Raw,
    /// Transformed when they were appended.
    Transformed,
}

/// The storage of keys.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Layout {
    /// Packed tensors.
    Ragged,
    /// Pools of pages.
    Paged,
}

impl KernelArgs {
    /// The architectures.
    pub(crate) fn archs(&self) -> Result<Vec<Arch>> {
        parse_archs(&self.arch)
    }

    /// Checks that there is one kernel of a kind, apart from the branches of a variant.
    pub(crate) fn check_one(&self) -> Result<()> {
        for (option, count) in [
            ("--arch", self.archs()?.len()),
            ("--head-dim", self.head_dim.len()),
            ("--dtype, --kv-dtype and --kv-format", self.dtypes()?.len()),
            ("--layout", self.layout.len()),
        ] {
            if count > 1 {
                bail!("{option}: {count} kernels; this prints one translation unit, so name one");
            }
        }
        Ok(())
    }

    /// Checks that each option is of one of these kernels.
    pub(crate) fn check_used(&self, kinds: &[KernelKind]) -> Result<()> {
        let (prefill, decode, mixed) = (KernelKind::Prefill, KernelKind::Decode, KernelKind::Mixed);
        for (option, is_given, of) in [
            ("--prefill", self.prefill.is_some(), &[prefill, mixed][..]),
            ("--compute-type", self.compute_type.is_some(), &[prefill, mixed]),
            ("--decode", self.decode.is_some(), &[decode, mixed]),
            ("--shared-rows", self.shared_rows, &[mixed]),
        ] {
            if is_given && !kinds.iter().any(|kind| of.contains(kind)) {
                let named = |kinds: &[KernelKind]| kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                bail!("{option} is of these kernels: {}; here are {} (--kernel)", named(of), named(kinds));
            }
        }
        Ok(())
    }

    /// The element types.
    fn dtypes(&self) -> Result<Vec<Dtypes>> {
        let formats = self.kv_format.iter().map(|text| Ok(attn::lang::KvFormats::parse(text)?.id()));
        let formats = formats.collect::<Result<Vec<_>>>()?;
        let of = |&qo: &Dtype| {
            let kv = match &self.kv_dtype[..] {
                [] if formats.is_empty() => vec![Dtypes::new(qo, qo)],
                kv => kv.iter().map(|&kv| Dtypes::new(qo, kv)).collect(),
            };
            kv.into_iter().chain(formats.iter().map(move |&id| Dtypes::new(qo, qo).with_format(id))).collect::<Vec<_>>()
        };
        Ok(self.dtype.iter().flat_map(of).collect())
    }

    /// The kernels of a kind for a variant.
    pub(crate) fn sources(&self, variant: &Variant, kind: KernelKind, costs: &CostTable) -> Result<Vec<KernelSource>> {
        let natural = [if kind == KernelKind::Prefill { Layout::Ragged } else { Layout::Paged }];
        let layouts = if self.layout.is_empty() { &natural[..] } else { &self.layout };
        let head_dim_vo = self.head_dim_vo;
        let stored = if self.stored == Stored::Raw { KvStored::Raw } else { KvStored::Transformed };
        let variant = variant.clone().with_stored(stored);
        let mut sources = Vec::new();
        for arch in self.archs()? {
            for &head_dim in &self.head_dim {
                for dtypes in self.dtypes()? {
                    let (variant, dtypes) = variant.over(dtypes, head_dim_vo)?;
                    let (branches, hooks) = (variant.branches(), HookClass::of(&variant));
                    for &layout in layouts {
                        let (paged, group) = (layout == Layout::Paged, self.group);
                        let request = KernelTraitsRequest {
                            head_dim_vo,
                            paged,
                            group,
                            shared_rows: self.shared_rows,
                            prefill: self.prefill.unwrap_or_default(),
                            decode: self.decode,
                            compute_type: self.compute_type.unwrap_or_default(),
                            ..KernelTraitsRequest::new(kind, head_dim, dtypes, arch).with_hooks(&branches)
                        };
                        let request = request.with_decode_backend(hooks, costs);
                        for branch in &branches {
                            let traits = KernelTraits::choose(&request.for_branch(branch))?;
                            sources.push(KernelSource::build(branch, &traits)?);
                        }
                    }
                }
            }
        }
        Ok(sources)
    }
}

/// Parses architectures. A text may name several.
pub(crate) fn parse_archs(texts: &[String]) -> Result<Vec<Arch>> {
    let words = texts.iter().flat_map(|text| text.split([';', ','])).map(str::trim).filter(|w| !w.is_empty());
    let archs: Vec<Arch> = words.map(|word| Ok(word.parse()?)).collect::<Result<_>>()?;
    if archs.is_empty() { bail!("--arch names no architecture") } else { Ok(archs) }
}

/// Multiprocessor counts of GPUs. The kernel selection depends on them where requests have several queries.
const MULTIPROCESSORS: [u32; 8] = [16, 48, 84, 108, 114, 132, 148, 188];

/// The kernels that a case may run: one for each selected kernel and branch of its variant.
pub(crate) fn of_case(case: &Case, arch: Arch, costs: &CostTable) -> Result<Vec<KernelSource>> {
    of_variant(case, &attn_testing::case_variant(case)?, arch, costs)
}

fn of_variant(case: &Case, variant: &Variant, arch: Arch, costs: &CostTable) -> Result<Vec<KernelSource>> {
    let branches = variant.branches();
    let kernels = traits_of(case, variant, arch, costs)?;
    kernels.into_iter().map(|(branch, traits)| Ok(KernelSource::build(&branches[branch], &traits)?)).collect()
}

/// The kernels that a case may run: the number of a branch, and its traits. Tensors of the variant do not matter.
pub(crate) fn traits_of(
    case: &Case,
    variant: &Variant,
    arch: Arch,
    costs: &CostTable,
) -> Result<Vec<(usize, KernelTraits)>> {
    let heads: Heads = case.heads();
    heads.check()?;
    let (branches, hooks, dtypes) = (variant.branches(), HookClass::of(variant), case.dtypes()?);
    let of_attention = KernelTraitsRequest {
        head_dim_vo: case.head_dim_vo,
        paged: case.kv_layout.paged(),
        group: heads.group(),
        key_lists: variant.kv_list_sizes().is_some(),
        prefill: case.prefill,
        decode: case.decode,
        compute_type: case.compute_type,
        row_invariant: case.fixed_split_size.is_some(),
        skip_softmax: case.skip_softmax.is_some(),
        ..KernelTraitsRequest::new(KernelKind::Prefill, heads.head_dim, dtypes, arch).with_hooks(&branches)
    };
    let of_attention = of_attention.with_decode_backend(hooks, costs);
    let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(0).max(1);
    let list_queries = variant.kv_list_sizes().map(|(_, queries)| u32::try_from(queries).unwrap_or(1).max(1));
    let rows = list_queries.map_or(queries, |list_queries| list_queries.min(queries)).saturating_mul(heads.group());
    let decode = SelectedKernel::with_rows(KernelKind::Decode, rows.into(), &of_attention);
    // the same selection as in an attention
    let kernels = match (case.kernel.as_str(), list_queries) {
        ("auto" | "prefill", None) => {
            let [qo, kv] = [case.qo_lens.to_vec(), case.all_kv_lens()].map(|lens| indptr(&lens));
            let layout = Batch::ragged(&qo?, &kv?).validate()?;
            let request = KernelTraitsRequest { kind: decode.kind, group: decode.rows, ..of_attention };
            let fixed = FixedChoice {
                forced: (case.kernel == "prefill").then_some(KernelKind::Prefill),
                list_queries: None,
                shares_partials: branches.len() > 1,
            };
            let mut kernels = Vec::new();
            for multiprocessors in MULTIPROCESSORS {
                let selector = KernelSelector::new(&request, hooks, costs, heads, multiprocessors, fixed)?;
                let kernel = selector.select(&layout);
                if !kernels.contains(&kernel) {
                    kernels.push(kernel);
                }
            }
            kernels
        }
        ("auto", Some(_)) if rows <= of_attention.max_decode_rows() => vec![decode],
        ("auto", Some(_)) => vec![SelectedKernel::PREFILL],
        (named, _) => vec![match named.parse::<KernelKind>()? {
            KernelKind::Decode => decode,
            KernelKind::Prefill => SelectedKernel::PREFILL,
            KernelKind::Mixed => mixed(case, &of_attention, &[]),
        }],
    };
    // a mixed kernel attends to shared keys where the cascade policy pays
    let mut kernels: Vec<_> = kernels.into_iter().map(|kernel| (kernel, false)).collect();
    if case.kv_layout.levels() && branches.len() == 1 && list_queries.is_none() {
        kernels.push((mixed(case, &of_attention, &case.levels), true));
    }
    let mut all = Vec::new();
    for (kernel, shared) in kernels {
        for (number, branch) in branches.iter().enumerate() {
            let request = KernelTraitsRequest { shared_rows: shared, ..kernel.request(&of_attention) };
            all.push((number, KernelTraits::choose(&request.for_branch(branch))?));
        }
    }
    Ok(all)
}

/// The mixed kernel of a case. The tile of its decode part holds the requests of few rows, and the groups of them that
/// share keys in these levels.
fn mixed(case: &Case, request: &KernelTraitsRequest, levels: &[LevelCase]) -> SelectedKernel {
    let heads = case.heads();
    let queries = case.qo_lens.to_vec();
    let mut tiles = queries.clone();
    for level in levels {
        let mut first = 0;
        for (&requests, keys) in level.groups.iter().zip(level.kv_lens.to_vec()) {
            let end = queries.len().min(first + requests as usize);
            if keys > 0 {
                tiles.push(queries[first.min(end)..end].iter().sum());
            }
            first = end;
        }
    }
    let rows = tiles.into_iter().map(|queries| queries.saturating_mul(heads.group()));
    let few = rows.filter(|&rows| rows <= KernelTraits::max_mixed_rows(request)).max().unwrap_or(0);
    SelectedKernel::with_rows(KernelKind::Mixed, few.into(), request)
}

#[cfg(test)]
mod tests {
    use attn_testing::{LayoutKind, Lens};

    use super::*;

    fn rows(qo: &[u32], kv: &[u32]) -> Vec<(KernelKind, u32)> {
        let (qo_lens, kv_lens) = (Lens::List(qo.to_vec()), Lens::List(kv.to_vec()));
        let case = Case { qo_heads: 8, kv_heads: 2, qo_lens, kv_lens, ..Case::new("union(full, full)") };
        let sources = of_case(&case, Arch::for_device(9, 0), &CostTable::default()).expect("there are kernels");
        sources.iter().map(|source| (source.traits.kind(), source.traits.facts().tile_rows)).collect()
    }

    #[test]
    fn a_case_needs_every_kernel_that_some_gpu_chooses_for_each_branch() {
        let (decode, prefill) = ((KernelKind::Decode, 8), (KernelKind::Prefill, 192));
        assert_eq!(rows(&[1; 4], &[700; 4]), [decode; 2]);
        assert_eq!(rows(&[2048], &[2048]), [prefill; 2]);
        // 64 rows of a request: several tiles of decode or one of prefill, by how many workers share them
        let some = rows(&[16; 24], &[256; 24]);
        assert!(some.len().is_multiple_of(2) && some.chunks(2).all(|branches| branches[0] == branches[1]), "{some:?}");
        let mut kinds = some.clone();
        kinds.dedup();
        assert_eq!(kinds.len(), some.len() / 2, "each once: {some:?}");
    }

    #[test]
    fn lists_of_few_queries_and_prefixes_of_few_rows_decode() {
        let of = |case: &Case| of_case(case, Arch::for_device(9, 0), &CostTable::default()).expect("there are kernels");
        let one = || (Lens::List(vec![1; 16]), Lens::List(vec![700; 16]));
        let (qo_lens, kv_lens) = one();
        let list =
            Case { qo_heads: 8, kv_heads: 2, qo_lens, kv_lens, ..Case::new("page_list(page_size=16, max_pages=4)") };
        assert_eq!(of(&list)[0].traits.kind(), KernelKind::Decode);
        // a group of 16 rows, in one tile of decode
        let (qo_lens, kv_lens) = one();
        let levels = vec![LevelCase { groups: vec![16], kv_lens: Lens::List(vec![64]), page_size: None }];
        let (qo_heads, kv_heads, kv_layout) = (2, 2, LayoutKind::RaggedCascade);
        let cascade = Case { qo_heads, kv_heads, qo_lens, kv_lens, kv_layout, levels, ..Case::new("full") };
        let shared: Vec<_> = of(&cascade).into_iter().filter(|source| source.traits.shared_rows()).collect();
        assert_eq!(shared.len(), 1);
        assert_eq!(shared[0].traits.decode_part().facts().tile_rows, 16);
    }

    #[test]
    fn a_case_may_name_the_prefill_backend() {
        let case = Case { kernel: "prefill".to_owned(), prefill: PrefillBackend::Sm90, ..Case::new("causal") };
        let on =
            |arch| of_case(&case, arch, &CostTable::default()).expect("there are kernels")[0].traits.is_sm90_prefill();
        let archs = [9, 8, 10].map(|major| on(Arch::for_device(major, 0)));
        assert_eq!(archs, [true, false, false]);
    }
}
