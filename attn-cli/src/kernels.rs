//! From what a person asks for to the source of a kernel.

use anyhow::{Result, bail};
use attn::testing::Case;
use attn_core::{
    batch::{Batch, indptr},
    dtype::{Dtype, Dtypes},
    expr::Variant,
    spec::{Heads, KernelKind, KvStored, PrefillTemplate, ValueRows},
};
use attn_kernels::{
    cell::{Cell, CellRequest},
    compile::Arch,
    cost::HookClass,
    family::{Families, Family},
    splice::{KernelSource, has_key_hooks, has_key_list, has_value_hooks},
};
use clap::{Args, ValueEnum};

/// The kernels of an expression: one for each combination.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Architectures, such as 80, 90a, sm_120; several with `;` or `,`.
    #[arg(long, default_value = "sm_90a", value_delimiter = ';')]
    pub(crate) arch: Vec<String>,
    /// Values per head.
    #[arg(long, default_value = "128", value_delimiter = ',')]
    pub(crate) head_dim: Vec<u32>,
    /// How wide values are: `same` as keys, a number of elements, or `keys:NUMBER` for the first elements of the keys.
    #[arg(long, default_value = "same")]
    pub(crate) values: ValueRows,
    /// Element types of q and o: f16, bf16.
    #[arg(long, default_value = "bf16", value_delimiter = ',')]
    pub(crate) dtype: Vec<Dtype>,
    /// Element types of k and v, such as e4m3, e5m2; those of q and o unless given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) kv_dtype: Vec<Dtype>,
    /// Where keys are; ragged for prefill and paged for decode unless given.
    #[arg(long, value_delimiter = ',')]
    pub(crate) layout: Vec<Layout>,
    /// Query heads per KV head; one decode kernel is for up to 8, another for more.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) group: u32,
    /// What keys and values in memory are, for a variant that rewrites them.
    #[arg(long, value_enum, default_value = "raw")]
    pub(crate) stored: Stored,
    /// Of mixed kernels, that for requests that share keys.
    #[arg(long)]
    pub(crate) shared_rows: bool,
    /// The template of prefill: mma, warpgroups.
    #[arg(long, default_value = "warpgroups")]
    pub(crate) prefill: PrefillTemplate,
}

/// [`KvStored`], by name.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Stored {
    /// As the model made them.
    Raw,
    /// Rewritten when they were appended.
    Transformed,
}

/// Where keys are.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Layout {
    /// Packed tensors.
    Ragged,
    /// Pools of pages.
    Paged,
}

impl Wanted {
    /// The architectures.
    pub(crate) fn archs(&self) -> Result<Vec<Arch>> {
        parse_archs(&self.arch)
    }

    /// The element types.
    fn dtypes(&self) -> Vec<Dtypes> {
        let of = |&qo: &Dtype| match &self.kv_dtype[..] {
            [] => vec![Dtypes { qo, kv: qo }],
            kv => kv.iter().map(|&kv| Dtypes { qo, kv }).collect(),
        };
        self.dtype.iter().flat_map(of).collect()
    }

    /// The kernels of a kind for a variant.
    pub(crate) fn sources(&self, variant: &Variant, kind: KernelKind) -> Result<Vec<KernelSource>> {
        let natural = [if kind == KernelKind::Prefill { Layout::Ragged } else { Layout::Paged }];
        let layouts = if self.layout.is_empty() { &natural[..] } else { &self.layout };
        let values = self.values;
        let stored = if self.stored == Stored::Raw { KvStored::Raw } else { KvStored::Transformed };
        let arms = variant.clone().over(stored).arms();
        let mut sources = Vec::new();
        for arch in self.archs()? {
            for &head_dim in &self.head_dim {
                for dtypes in self.dtypes() {
                    for &layout in layouts {
                        let (paged, group) = (layout == Layout::Paged, self.group);
                        for variant in &arms {
                            let (key_hooks, value_hooks) = (has_key_hooks(variant), has_value_hooks(variant));
                            let request = CellRequest {
                                kind,
                                head_dim,
                                values,
                                dtypes,
                                paged,
                                group,
                                key_hooks,
                                value_hooks,
                                key_lists: arms.iter().any(has_key_list),
                                template: self.prefill,
                                arch,
                            };
                            let cell = Cell::choose(&request)?;
                            let cell = if self.shared_rows { cell.with_shared_rows() } else { cell };
                            sources.push(KernelSource::build(variant, &cell)?);
                        }
                    }
                }
            }
        }
        Ok(sources)
    }
}

/// Architectures, each text perhaps several.
pub(crate) fn parse_archs(texts: &[String]) -> Result<Vec<Arch>> {
    let words = texts.iter().flat_map(|text| text.split([';', ','])).map(str::trim).filter(|w| !w.is_empty());
    let archs: Vec<Arch> = words.map(|word| Ok(word.parse()?)).collect::<Result<_>>()?;
    if archs.is_empty() { bail!("--arch names no architecture") } else { Ok(archs) }
}

/// Multiprocessors of GPUs that a batch may be planned for; they decide between kernels where requests have several queries.
const MULTIPROCESSORS: [u32; 8] = [16, 48, 84, 108, 114, 132, 148, 188];

/// The kernels that a case may run: for each family one for each arm of its variant.
pub(crate) fn of_case(case: &Case, arch: Arch) -> Result<Vec<KernelSource>> {
    let heads: Heads = case.heads();
    heads.check()?;
    let variant = attn::testing::case_variant(case)?;
    let arms = variant.arms();
    let request = |family: Family, arms: &[Variant]| -> Result<CellRequest> {
        Ok(CellRequest {
            kind: family.kind,
            head_dim: heads.head_dim,
            values: case.values,
            dtypes: case.dtypes()?,
            paged: case.kv_layout.paged(),
            group: family.rows,
            key_hooks: arms.iter().any(has_key_hooks),
            value_hooks: arms.iter().any(has_value_hooks),
            key_lists: variant.kv_list_sizes().is_some(),
            template: case.prefill,
            arch,
        })
    };
    let queries = case.qo_lens.to_vec().into_iter().max().unwrap_or(0).max(1);
    let of_list = variant.kv_list_sizes().map(|(_, queries)| u32::try_from(queries).unwrap_or(1).max(1));
    let rows = of_list.map_or(queries, |of_list| of_list.min(queries)).saturating_mul(heads.group());
    let decode = Family::decode(rows.into(), heads.head_dim, case.values.dim(heads));
    // as an attention chooses
    let families = match (case.kernel.as_str(), of_list) {
        ("auto", None) => {
            let [qo, kv] = [&case.qo_lens, &case.kv_lens].map(|lens| indptr(&lens.to_vec()));
            let layout = Batch::ragged(&qo?, &kv?).validate()?;
            let request = request(decode, &arms)?;
            let hooks = HookClass::of(&variant);
            let mut families = Vec::new();
            for multiprocessors in MULTIPROCESSORS {
                let family = Families::new(&request, hooks, heads, multiprocessors)?.cheapest(&layout);
                if !families.contains(&family) {
                    families.push(family);
                }
            }
            families
        }
        ("auto", Some(_)) if rows <= Cell::most_decode_rows(heads.head_dim, case.values.dim(heads)) => vec![decode],
        ("auto", Some(_)) => vec![Family::PREFILL],
        (named, _) => vec![match named.parse::<KernelKind>()? {
            KernelKind::Decode => decode,
            KernelKind::Prefill => Family::PREFILL,
            KernelKind::Mixed => mixed(case, &request(Family::PREFILL, &arms)?),
        }],
    };
    // keys that requests share are run by a mixed kernel for them, where that pays
    let mut families: Vec<_> = families.into_iter().map(|family| (family, false)).collect();
    if case.kv_layout.levels() && arms.len() == 1 && of_list.is_none() {
        families.push((mixed(case, &request(Family::PREFILL, &arms)?), true));
    }
    let mut sources = Vec::new();
    for (family, shared) in families {
        for arm in &arms {
            let cell = Cell::choose(&request(family, std::slice::from_ref(arm))?)?;
            let cell = if shared { cell.with_shared_rows() } else { cell };
            sources.push(KernelSource::build(arm, &cell)?);
        }
    }
    Ok(sources)
}

/// The mixed kernel of a case: its decode part has the tile that holds requests of few rows, and groups of them that share keys.
fn mixed(case: &Case, request: &CellRequest) -> Family {
    let heads = case.heads();
    let queries = case.qo_lens.to_vec();
    let mut tiles = queries.clone();
    for level in &case.levels {
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
    let few = rows.filter(|&rows| rows <= Cell::most_mixed_rows(request)).max().unwrap_or(0);
    Family::mixed(few.into(), heads.head_dim, case.values.dim(heads))
}

#[cfg(test)]
mod tests {
    use attn::testing::{LayoutKind, Lens, LevelCase};

    use super::*;

    fn rows(qo: &[u32], kv: &[u32]) -> Vec<(KernelKind, u32)> {
        let (qo_lens, kv_lens) = (Lens::List(qo.to_vec()), Lens::List(kv.to_vec()));
        let case = Case { qo_heads: 8, kv_heads: 2, qo_lens, kv_lens, ..Case::new("union(full, full)") };
        let sources = of_case(&case, Arch::for_device(9, 0)).expect("there are kernels");
        sources.iter().map(|source| (source.cell.kind, source.cell.tile_rows)).collect()
    }

    #[test]
    fn a_case_asks_for_every_kernel_that_some_gpu_chooses_and_for_one_of_each_arm() {
        let (decode, prefill) = ((KernelKind::Decode, 8), (KernelKind::Prefill, 192));
        assert_eq!(rows(&[1; 4], &[700; 4]), [decode; 2]);
        assert_eq!(rows(&[2048], &[2048]), [prefill; 2]);
        // 64 rows of a request: several tiles of decode or one of prefill, by how many workers share them
        let some = rows(&[16; 24], &[256; 24]);
        assert!(some.len().is_multiple_of(2) && some.chunks(2).all(|arms| arms[0] == arms[1]), "{some:?}");
        let mut kinds = some.clone();
        kinds.dedup();
        assert_eq!(kinds.len(), some.len() / 2, "each once: {some:?}");
    }

    #[test]
    fn lists_of_few_queries_and_prefixes_of_few_rows_decode() {
        let of = |case: &Case| of_case(case, Arch::for_device(9, 0)).expect("there are kernels");
        let one = || (Lens::List(vec![1; 16]), Lens::List(vec![700; 16]));
        let (qo_lens, kv_lens) = one();
        let list =
            Case { qo_heads: 8, kv_heads: 2, qo_lens, kv_lens, ..Case::new("page_list(page_size=16, max_pages=4)") };
        assert_eq!(of(&list)[0].cell.kind, KernelKind::Decode);
        // a group of 16 rows, in one tile of decode
        let (qo_lens, kv_lens) = one();
        let levels = vec![LevelCase { groups: vec![16], kv_lens: Lens::List(vec![64]), page_size: None }];
        let (qo_heads, kv_heads, kv_layout) = (2, 2, LayoutKind::RaggedCascade);
        let cascade = Case { qo_heads, kv_heads, qo_lens, kv_lens, kv_layout, levels, ..Case::new("full") };
        let shared: Vec<_> = of(&cascade).into_iter().filter(|source| source.cell.shared_rows).collect();
        assert_eq!(shared.len(), 1);
        assert_eq!(shared[0].cell.decode_part().tile_rows, 16);
    }

    #[test]
    fn a_case_may_ask_for_another_template_of_prefill() {
        let case = Case { kernel: "prefill".to_owned(), prefill: PrefillTemplate::Warpgroups, ..Case::new("causal") };
        let on = |arch| of_case(&case, arch).expect("there are kernels")[0].cell.copy_warps;
        assert_eq!((on(Arch::for_device(9, 0)), on(Arch::for_device(8, 0)), on(Arch::for_device(10, 0))), (4, 0, 0));
    }
}
