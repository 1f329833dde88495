//! The builder that build scripts call.

use std::{env, path::Path};

use attn_core::{
    dtype::Dtype,
    lang::VariantDesc,
    spec::{HeadDimVo, KernelKind, KvStored},
};

use super::{
    AotError, AotReport,
    embed::{compile_all, write},
    environment::{archs_from_env, split},
};
use crate::{
    cache::Origin,
    compile::{Arch, Compiler},
    splice::Op,
};

/// The kernels to embed: the product of expressions, head dimensions, element types, kernels, layouts and group sizes,
/// for the architectures of `ATTN_CUDA_ARCHS`. Each kernel is compiled once.
#[derive(Clone, Debug)]
pub struct Aot {
    pub(super) table: Vec<&'static VariantDesc>,
    pub(super) expressions: Vec<String>,
    pub(super) head_dims: Vec<u32>,
    pub(super) head_dim_vo: Vec<HeadDimVo>,
    pub(super) dtypes: Vec<Dtype>,
    pub(super) kv_dtypes: Vec<Dtype>,
    pub(super) kinds: Vec<KernelKind>,
    pub(super) paged: Vec<bool>,
    pub(super) groups: Vec<u32>,
    pub(super) stored: Vec<KvStored>,
    pub(super) device_plans: bool,
    pub(super) ops: Vec<Op>,
    pub(super) appends: bool,
    pub(super) archs: Option<Vec<Arch>>,
    pub(super) sizes_from_env: bool,
}

/// Environment variables that influence the build.
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
    /// A build over the variants of a table (`attn::variants![..]`); [`Aot::and`] adds further tables.
    ///
    /// The defaults are head dimension 128, bf16 for all tensors, prefill and decode, paged and ragged, all group
    /// sizes, and no expressions.
    #[must_use]
    pub fn new(variants: &[&'static VariantDesc]) -> Self {
        Aot {
            table: variants.to_vec(),
            expressions: Vec::new(),
            head_dims: vec![128],
            head_dim_vo: vec![HeadDimVo::Same],
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

    /// Adds variants that expressions may name.
    #[must_use]
    pub fn and(mut self, variants: &[&'static VariantDesc]) -> Self {
        self.table.extend(variants);
        self
    }

    /// Sets the expressions. Parameter values do not matter: one cubin serves all.
    #[must_use]
    pub fn expressions<S: Into<String>>(mut self, expressions: impl IntoIterator<Item = S>) -> Self {
        self.expressions = expressions.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the expressions to those of `ATTN_AOT_EXPRS` (separated by `;`) if it is set, else to these.
    #[must_use]
    pub fn expressions_or_env<S: Into<String>>(self, expressions: impl IntoIterator<Item = S>) -> Self {
        match env::var("ATTN_AOT_EXPRS") {
            Ok(list) if !list.trim().is_empty() => self.expressions(split(&list)),
            _ => self.expressions(expressions),
        }
    }

    /// Sets the head dimensions, instead of 128.
    #[must_use]
    pub fn head_dims(mut self, head_dims: impl IntoIterator<Item = u32>) -> Self {
        self.head_dims = head_dims.into_iter().collect();
        self
    }

    /// Sets the head dimensions of values, instead of those of the keys. Each one is combined with every head dimension
    /// of keys.
    #[must_use]
    pub fn head_dim_vo(mut self, widths: impl IntoIterator<Item = HeadDimVo>) -> Self {
        self.head_dim_vo = widths.into_iter().collect();
        self
    }

    /// Sets the element types of q and o, instead of bf16.
    #[must_use]
    pub fn dtypes(mut self, dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.dtypes = dtypes.into_iter().collect();
        self
    }

    /// Sets the element types of k and v, instead of that of q and o. An 8-bit type is combined with every type of q
    /// and o, a 16-bit type with itself.
    #[must_use]
    pub fn kv_dtypes(mut self, kv_dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        self.kv_dtypes = kv_dtypes.into_iter().collect();
        self
    }

    /// Reads head dimensions from `ATTN_AOT_HEAD_DIMS` and element types from `ATTN_AOT_DTYPES` and
    /// `ATTN_AOT_KV_DTYPES` (separated by `;`) where these are set; they take precedence.
    #[must_use]
    pub fn sizes_or_env(mut self) -> Self {
        self.sizes_from_env = true;
        self
    }

    /// Sets the kernel families, instead of prefill and decode.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = KernelKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Sets whether kernels are for ragged keys, paged keys, or both.
    #[must_use]
    pub fn layouts(mut self, ragged: bool, paged: bool) -> Self {
        self.paged = [(ragged, false), (paged, true)].into_iter().filter(|(on, _)| *on).map(|(_, p)| p).collect();
        self
    }

    /// Sets the group sizes (query heads per KV head) of decode kernels, instead of all. One kernel serves groups up to
    /// 8, and one all larger ones. A prefill kernel serves all.
    #[must_use]
    pub fn groups(mut self, groups: impl IntoIterator<Item = u32>) -> Self {
        self.groups = groups.into_iter().collect();
        self
    }

    /// Sets how keys and values are stored (`AttentionOptions::stored`), instead of raw. It matters for variants with a
    /// `key_transform` or `value_transform`; other kernels are not embedded twice.
    #[must_use]
    pub fn stored(mut self, stored: impl IntoIterator<Item = KvStored>) -> Self {
        self.stored = stored.into_iter().collect();
        self
    }

    /// Adds the planner kernels (`Plan::update_on_device`): one for all variants without a tile class, and one for each
    /// other variant.
    #[must_use]
    pub fn device_plans(mut self) -> Self {
        self.device_plans = true;
        self
    }

    /// Adds ops.
    #[must_use]
    pub fn ops(mut self, ops: impl IntoIterator<Item = Op>) -> Self {
        self.ops = ops.into_iter().collect();
        self
    }

    /// Adds appends through the transforms of the expressions, from each type of q and o to each type of k and v.
    #[must_use]
    pub fn appends(mut self) -> Self {
        self.appends = true;
        self
    }

    /// Sets the architectures, instead of those of `ATTN_CUDA_ARCHS`.
    #[must_use]
    pub fn archs(mut self, archs: impl IntoIterator<Item = Arch>) -> Self {
        self.archs = Some(archs.into_iter().collect());
        self
    }

    /// Runs the build of a build script: it writes to `OUT_DIR` and prints cargo directives. It prints notes as
    /// warnings, and errors as errors. `attn::include_prebuilt!` reads the result.
    #[allow(clippy::print_stdout)] // directives for cargo
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

    /// Compiles in parallel, and writes `attn_aot.rs` and the cubins to a folder.
    ///
    /// Without architectures nothing is embedded. Without a compiler nothing is embedded either, and a note says so.
    ///
    /// # Errors
    ///
    /// An unknown architecture, an expression that does not parse, a kernel that does not compile.
    pub fn build(&self, out: &Path) -> Result<AotReport, AotError> {
        let mut report = AotReport::default();
        let archs = match &self.archs {
            Some(archs) => archs.clone(),
            None => archs_from_env(&mut report)?,
        };
        let sources = self.all_sources(&archs)?;
        // the search for a compiler takes time and may start Python, so it is skipped if there is nothing to compile
        let missing = if sources.is_empty() { None } else { Compiler::find().err() };
        let built = match missing {
            Some(error) => {
                report.notes.push(format!("no kernels embedded, they are compiled at run time: {error}"));
                Vec::new()
            }
            None => compile_all(sources)?,
        };
        write(out, &built)?;
        report.cubins = built.len();
        report.bytes = built.iter().map(|cubin| cubin.compiled.cubin.len()).sum();
        report.compiled = built.iter().filter(|cubin| cubin.origin == Origin::Compiled).count();
        Ok(report)
    }
}
