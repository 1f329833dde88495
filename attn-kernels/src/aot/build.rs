//! The builder that build scripts call.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
    sync::Arc,
};

use attn_core::{
    dtype::{Dtype, Dtypes},
    expr::Variant,
    lang::{Hook, VariantDesc},
    registry::Registry,
    spec::{KernelKind, KvStored, PrefillTemplate, ValueRows},
};
use rayon::prelude::*;

use super::{AotError, AotReport};
use crate::{
    cache::{CubinCache, Key, Origin},
    cell::{Cell, CellRequest},
    compile::{Arch, Compiled, Compiler},
    jit::{self, Ready},
    splice::{KernelSource, Op, OpSource, PlannerSource, Unit, has_key_hooks, has_key_list, has_value_hooks},
};

/// What is to be embedded: expressions x head dimensions x element types x kernels x layouts x group sizes, for the
/// architectures of `ATTN_CUDA_ARCHS`. What comes to the same kernel is compiled once.
#[derive(Clone, Debug)]
pub struct Aot {
    table: Vec<&'static VariantDesc>,
    expressions: Vec<String>,
    head_dims: Vec<u32>,
    values: Vec<ValueRows>,
    dtypes: Vec<Dtype>,
    kv_dtypes: Vec<Dtype>,
    kinds: Vec<KernelKind>,
    paged: Vec<bool>,
    groups: Vec<u32>,
    stored: Vec<KvStored>,
    device_plans: bool,
    ops: Vec<Op>,
    appends: bool,
    archs: Option<Vec<Arch>>,
    sizes_from_env: bool,
}

/// Environment variables that change what is embedded.
const KNOBS: [&str; 12] = [
    "ATTN_CUDA_ARCHS",
    "ATTN_AOT_EXPRS",
    "ATTN_AOT_HEAD_DIMS",
    "ATTN_AOT_DTYPES",
    "ATTN_AOT_KV_DTYPES",
    "ATTN_COMPILER",
    "ATTN_NVRTC",
    "ATTN_NVCC",
    "CUDA_HOME",
    "CUDA_PATH",
    "ATTN_CACHE",
    "ATTN_CACHE_DIR",
];

impl Aot {
    /// Over the variants of a table (`attn::variants![..]`), or of several one after another ([`Aot::and`]).
    ///
    /// Head dimension 128, bf16 (keys and values too), both kernels, paged and ragged, all group sizes, and no expressions, unless told.
    #[must_use]
    pub fn new(variants: &[&'static VariantDesc]) -> Self {
        Aot {
            table: variants.to_vec(),
            expressions: Vec::new(),
            head_dims: vec![128],
            values: vec![ValueRows::Same],
            dtypes: vec![Dtype::Bf16],
            kv_dtypes: Vec::new(),
            kinds: vec![KernelKind::Prefill, KernelKind::Decode],
            paged: vec![false, true],
            groups: vec![8, 16],
            stored: vec![KvStored::Raw],
            device_plans: false,
            ops: Vec::new(),
            appends: false,
            archs: None,
            sizes_from_env: false,
        }
    }

    /// More variants that expressions may name.
    #[must_use]
    pub fn and(mut self, variants: &[&'static VariantDesc]) -> Self {
        self.table.extend(variants);
        self
    }

    /// The expressions, instead of those so far. Values of parameters do not matter: one cubin serves all.
    #[must_use]
    pub fn expressions<S: Into<String>>(mut self, expressions: impl IntoIterator<Item = S>) -> Self {
        self.expressions = expressions.into_iter().map(Into::into).collect();
        self
    }

    /// The expressions of `ATTN_AOT_EXPRS` (separated by `;`) if it is set, else these.
    #[must_use]
    pub fn expressions_or_env<S: Into<String>>(self, expressions: impl IntoIterator<Item = S>) -> Self {
        match env::var("ATTN_AOT_EXPRS") {
            Ok(list) if !list.trim().is_empty() => self.expressions(split(&list)),
            _ => self.expressions(expressions),
        }
    }

    /// The head dimensions, instead of 128.
    #[must_use]
    pub fn head_dims(mut self, head_dims: impl IntoIterator<Item = u32>) -> Self {
        self.head_dims = head_dims.into_iter().collect();
        self
    }

    /// How wide values are, instead of as wide as keys alone: with each of the head dimensions.
    #[must_use]
    pub fn values(mut self, values: impl IntoIterator<Item = ValueRows>) -> Self {
        self.values = values.into_iter().collect();
        self
    }

    /// The element types of q and o, instead of bf16.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    /// The element types of k and v, instead of that of q and o: one of 8 bits is for every type of q and o, one of 16 for its own.
    #[must_use]
    pub fn kv_dtypes(mut self, kv_dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.kv_dtypes = kv_dtypes.into_iter().collect();
        self
    }

    /// The head dimensions of `ATTN_AOT_HEAD_DIMS` and the element types of `ATTN_AOT_DTYPES` and `ATTN_AOT_KV_DTYPES` (several
    /// separated by `;`) where these are set, instead of what this was told.
    #[must_use]
    pub fn sizes_or_env(mut self) -> Self {
        self.sizes_from_env = true;
        self
    }

    /// The kernels, instead of both.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = KernelKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Whether for paged keys, ragged keys, or both.
    #[must_use]
    pub fn layouts(mut self, ragged: bool, paged: bool) -> Self {
        self.paged = [(ragged, false), (paged, true)].into_iter().filter(|(on, _)| *on).map(|(_, p)| p).collect();
        self
    }

    /// The group sizes (query heads per KV head) that decode is built for, instead of all. One kernel serves those up to 8, and one all
    /// beyond, so that most lists say the same. Prefill serves all.
    #[must_use]
    pub fn groups(mut self, groups: impl IntoIterator<Item = u32>) -> Self {
        self.groups = groups.into_iter().collect();
        self
    }

    /// What keys and values in memory are (`AttentionOptions::stored`), instead of raw alone. It makes a difference for variants that
    /// rewrite keys or values; of the others nothing is embedded twice.
    #[must_use]
    pub fn stored(mut self, stored: impl IntoIterator<Item = KvStored>) -> Self {
        self.stored = stored.into_iter().collect();
        self
    }

    /// Also the kernels that plan on the device (`Plan::update_on_device`): one for all variants of whose tiles nothing is known beforehand, and one
    /// for each other.
    #[must_use]
    pub fn device_plans(mut self) -> Self {
        self.device_plans = true;
        self
    }

    /// Also these ops.
    #[must_use]
    pub fn ops(mut self, ops: impl IntoIterator<Item = Op>) -> Self {
        self.ops = ops.into_iter().collect();
        self
    }

    /// Also appends through the transforms of the expressions that have any: from each type of q and o to each type of k and v.
    #[must_use]
    pub fn appends(mut self) -> Self {
        self.appends = true;
        self
    }

    /// These architectures, instead of those of `ATTN_CUDA_ARCHS`.
    #[must_use]
    pub fn archs(mut self, archs: impl IntoIterator<Item = Arch>) -> Self {
        self.archs = Some(archs.into_iter().collect());
        self
    }

    /// Everything that a build script has to do: builds into `OUT_DIR`, prints what cargo is to watch, notes as warnings
    /// and errors as errors. `attn::include_prebuilt!` reads what it wrote.
    #[allow(clippy::print_stdout)] // a build script speaks to cargo by printing
    pub fn build_script(self) {
        for knob in KNOBS {
            println!("cargo::rerun-if-env-changed={knob}");
        }
        println!("cargo::rerun-if-changed=build.rs");
        let Some(out) = env::var_os("OUT_DIR") else {
            println!("cargo::error=attn: OUT_DIR is not set; `build_script` is to be called by a build script");
            return;
        };
        match self.build(Path::new(&out)) {
            Ok(report) => report.notes.iter().for_each(|note| println!("cargo::warning=attn: {note}")),
            Err(error) => {
                for line in error.to_string().lines() {
                    println!("cargo::error=attn: {line}");
                }
            }
        }
    }

    /// Compiles in parallel, and writes `attn_aot.rs` and the cubins into a folder.
    ///
    /// Without architectures nothing is embedded; without a compiler nothing is embedded either, with a note that says so.
    ///
    /// # Errors
    ///
    /// Something that was asked for cannot be: an unknown architecture, an expression that does not parse, a kernel that
    /// does not compile.
    pub fn build(&self, out: &Path) -> Result<AotReport, AotError> {
        let mut report = AotReport::default();
        let archs = match &self.archs {
            Some(archs) => archs.clone(),
            None => archs_from_env(&mut report)?,
        };
        let (sources, planners, ops) = (self.sources(&archs)?, self.planners(&archs)?, self.op_sources(&archs)?);
        // looking for a compiler takes time, and may start Python: not for nothing
        let nothing = sources.is_empty() && planners.is_empty() && ops.is_empty();
        let missing = if nothing { None } else { Compiler::find().err() };
        let built = match missing {
            Some(error) => {
                report.notes.push(format!("no kernels embedded, they are compiled at run time: {error}"));
                Vec::new()
            }
            None => [compile_all(sources)?, compile_all(planners)?, compile_all(ops)?].concat(),
        };
        write(out, &built)?;
        report.cubins = built.len();
        report.bytes = built.iter().map(|cubin| cubin.compiled.cubin.len()).sum();
        report.compiled = built.iter().filter(|cubin| cubin.origin == Origin::Compiled).count();
        Ok(report)
    }

    /// Every source that is asked for, each once.
    fn sources(&self, archs: &[Arch]) -> Result<Vec<KernelSource>, AotError> {
        let mut registry = Registry::empty();
        registry.register_all(&self.table)?;
        let mut sources: Vec<KernelSource> = Vec::new();
        for expr in &self.expressions {
            let variant = Variant::parse_with(expr, &registry)
                .map_err(|e| AotError::Expr { expr: expr.clone(), source: Box::new(e) })?;
            let arms = self.stored.iter().flat_map(|&stored| variant.clone().over(stored).arms());
            for variant in arms {
                for cell in self.cells(archs, &variant)? {
                    let source = KernelSource::build(&variant, &cell)
                        .map_err(|e| AotError::Splice { expr: expr.clone(), source: e })?;
                    sources.push(source);
                }
            }
        }
        sources.sort_by_key(KernelSource::key);
        sources.dedup_by_key(|source| source.key());
        Ok(sources)
    }

    /// The kernels that plan, each once; of those that a device plans for.
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
                let source = PlannerSource::build(&variant.clone().over(stored), arch)
                    .map_err(|e| AotError::Splice { expr: expr.clone(), source: e })?;
                sources.push(source);
            }
        }
        sources.sort_by_key(Unit::key);
        sources.dedup_by_key(|source| source.key());
        Ok(sources)
    }

    /// The ops, each once.
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
        sources.sort_by_key(Unit::key);
        sources.dedup_by_key(|source| source.key());
        Ok(sources)
    }

    /// Element types of q and o, and of k and v.
    fn dtype_lists(&self) -> Result<(Vec<Dtype>, Vec<Dtype>), AotError> {
        let (mut qo, mut kv) = (self.dtypes.clone(), self.kv_dtypes.clone());
        if self.sizes_from_env {
            list_from_env("ATTN_AOT_DTYPES", "element types such as f16;bf16", &mut qo)?;
            list_from_env("ATTN_AOT_KV_DTYPES", "element types such as bf16;e4m3", &mut kv)?;
        }
        Ok((qo, kv))
    }

    fn cells(&self, archs: &[Arch], variant: &Variant) -> Result<Vec<Cell>, AotError> {
        let mut cells = Vec::new();
        let (key_hooks, value_hooks) = (has_key_hooks(variant), has_value_hooks(variant));
        let (qo_dtypes, kv_dtypes) = self.dtype_lists()?;
        let mut head_dims = self.head_dims.clone();
        if self.sizes_from_env {
            list_from_env("ATTN_AOT_HEAD_DIMS", "head dimensions such as 64;128", &mut head_dims)?;
        }
        let dtypes = pairs(&qo_dtypes, &kv_dtypes);
        let widths: Vec<_> =
            head_dims.iter().flat_map(|&dim| self.values.iter().map(move |&values| (dim, values))).collect();
        for (&arch, &(head_dim, values), &dtypes) in product(archs, &widths, &dtypes) {
            for (&kind, &paged, &group) in product(&self.kinds, &self.paged, &self.groups) {
                let (key_lists, template) = (has_key_list(variant), PrefillTemplate::default());
                let request = CellRequest {
                    kind,
                    head_dim,
                    values,
                    dtypes,
                    paged,
                    group,
                    key_hooks,
                    value_hooks,
                    key_lists,
                    template,
                    arch,
                };
                let cell = Cell::choose(&request)?;
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
        Ok(cells)
    }
}

fn product<'a, A, B, C>(a: &'a [A], b: &'a [B], c: &'a [C]) -> impl Iterator<Item = (&'a A, &'a B, &'a C)> {
    a.iter().flat_map(move |x| b.iter().flat_map(move |y| c.iter().map(move |z| (x, y, z))))
}

/// The pairs of element types that lists of both stand for. A type of keys that goes with none is left in, to be refused by name.
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

/// A cubin to be embedded.
#[derive(Clone)]
struct Cubin {
    key: Key,
    name: String,
    arch: Arch,
    compiled: Arc<Compiled>,
    origin: Origin,
}

fn compile_all<S: Unit + Send>(sources: Vec<S>) -> Result<Vec<Cubin>, AotError> {
    let cache = CubinCache::global();
    let compile = |source: S| {
        let Ready { source, compiled, origin } = jit::build_from(cache, source)?;
        Ok(Cubin { key: source.key(), name: source.name().to_owned(), arch: source.arch(), compiled, origin })
    };
    sources.into_par_iter().map(compile).collect()
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').map(str::trim).filter(|part| !part.is_empty())
}

/// The values of a variable, if it is set.
fn list_from_env<T: FromStr>(name: &'static str, allowed: &'static str, values: &mut Vec<T>) -> Result<(), AotError> {
    let text = env::var(name).unwrap_or_default();
    if !text.trim().is_empty() {
        let bad = |word: &str| AotError::Variable { name, value: word.to_owned(), allowed };
        *values = split(&text).map(|word| word.parse().map_err(|_| bad(word))).collect::<Result<_, _>>()?;
    }
    Ok(())
}

fn archs_from_env(report: &mut AotReport) -> Result<Vec<Arch>, AotError> {
    let list = env::var("ATTN_CUDA_ARCHS").unwrap_or_default();
    let mut archs = Vec::new();
    for part in split(&list) {
        if part == "native" {
            let native = native();
            if native.is_empty() {
                report
                    .notes
                    .push("ATTN_CUDA_ARCHS=native: nvidia-smi names no GPU here, nothing is embedded for it".into());
            }
            archs.extend(native);
        } else {
            archs.push(part.parse()?);
        }
    }
    archs.sort_unstable();
    archs.dedup();
    Ok(archs)
}

/// The architectures of the GPUs of this machine.
fn native() -> Vec<Arch> {
    let output = Command::new("nvidia-smi").args(["--query-gpu=compute_cap", "--format=csv,noheader"]).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.trim().parse::<Arch>().ok())
        .map(|arch| Arch::for_device(arch.major(), arch.minor()))
        .collect()
}

/// The table as Rust, and the cubins beside it.
fn write(out: &Path, built: &[Cubin]) -> Result<(), AotError> {
    let put = |path: PathBuf, bytes: &[u8]| fs::write(&path, bytes).map_err(|source| AotError::Write { path, source });
    let dir = out.join("attn_aot");
    fs::create_dir_all(&dir).map_err(|source| AotError::Write { path: dir.clone(), source })?;
    let mut table = String::from("&[\n");
    for Cubin { key, name, arch, compiled, .. } in built {
        let (key, arch) = (key.to_string(), arch.to_string());
        let path = dir.join(format!("{key}.cubin"));
        let Compiled { compiler, log, cubin, .. } = &**compiled;
        // writing into a String does not fail
        let _ = writeln!(
            table,
            "    ::attn::aot::Prebuilt {{ key: {key:?}, name: {name:?}, arch: {arch:?}, compiler: {compiler:?}, log: {log:?}, \
             cubin: include_bytes!({path:?}) }},"
        );
        put(path, cubin)?;
    }
    table.push_str("]\n");
    put(out.join("attn_aot.rs"), table.as_bytes())
}
