//! The build that build scripts run.

use std::{env, path::Path};

use attn_core::dtype::Dtype;
use attn_core::lang::VariantDesc;
use attn_core::lang::kv_format::KvFormatDesc;
use attn_core::registry;
use attn_core::spec::{DecodeBackend, HeadDimVo, KernelKind, KvStored};

use super::embed::{compile_all, write};
use super::environment::archs_from_env;
use super::{AotError, AotReport};
use crate::cache::{CubinCache, Origin};
use crate::compile::{Arch, Compiler};
use crate::splice::Op;

/// The kernels to embed: the product of expressions, head dimensions, element types, kernels, layouts and group sizes,
/// for each architecture. Each kernel is compiled once.
///
/// The default is head dimension 128, bf16 for all tensors, prefill and decode, ragged and paged, all group sizes, and
/// no expressions.
#[derive(Clone, Copy, Debug)]
pub struct AotOptions<'a> {
    /// The variants that expressions may name: a table (`attn::variants![..]`), or several in one. `attn::aot` adds the
    /// stock variants.
    pub variants: &'a [&'static VariantDesc],
    /// The expressions. Parameter values do not matter: one cubin serves all.
    pub expressions: &'a [&'a str],
    /// The head dimensions of queries and keys.
    pub head_dims: &'a [u32],
    /// The head dimensions of values, each combined with every head dimension of keys.
    pub head_dim_vo: &'a [HeadDimVo],
    /// The element types of q and o.
    pub dtypes: &'a [Dtype],
    /// The element types of k and v; empty: that of q and o. An 8-bit type is combined with every type of q and o, a
    /// 16-bit type with itself.
    pub kv_dtypes: &'a [Dtype],
    /// KV formats of k and v by name, beside their element types: `int8`, `int8 / int4(group=32)`. They are those of
    /// the program of the build script ([`Registry::global`](attn_core::registry::Registry::global)); parameter values
    /// matter. Each is combined with every type of q and o.
    pub kv_formats: &'a [&'a str],
    /// The kernel families.
    pub kinds: &'a [KernelKind],
    /// Whether keys are in pages (`true`), ragged (`false`), or both.
    pub paged: &'a [bool],
    /// The group sizes (query heads per KV head) of decode kernels. On tensor cores one kernel serves groups up to 8,
    /// and one all larger ones; on CUDA cores there is one for each power of two up to 8. A prefill kernel serves all,
    /// but of latent attention over keys of 8 bits another one serves those above 64.
    pub groups: &'a [u32],
    /// The decode backend. By default those that attentions of any group size up to the largest one choose.
    pub decode: Option<DecodeBackend>,
    /// How keys and values are stored (`AttentionOptions::stored`). It matters for variants with a `key_transform` or
    /// `value_transform`; other kernels are not embedded twice.
    pub stored: &'a [KvStored],
    /// Whether kernels are those of batch-invariant attention (`AttentionOptions::fixed_split_size`, `true`), of any
    /// other (`false`), or both.
    pub row_invariant: &'a [bool],
    /// Whether to add the planner kernels (`Plan::update_on_device`): one for all variants without a tile class, and
    /// one for each other variant.
    pub device_plans: bool,
    /// Ops to add.
    pub ops: &'a [Op],
    /// Whether to add appends through the transforms of the expressions, from each type of q and o to each type of k
    /// and v; to KV formats also where nothing transforms, with gathers back.
    pub appends: bool,
    /// The architectures; `None`: those of `ATTN_CUDA_ARCHS`.
    pub archs: Option<&'a [Arch]>,
    /// Whether `ATTN_AOT_EXPRS`, `ATTN_AOT_HEAD_DIMS`, `ATTN_AOT_DTYPES`, `ATTN_AOT_KV_DTYPES` and
    /// `ATTN_AOT_KV_FORMATS` (lists separated by `;`) take precedence over the fields, where they are set.
    pub env: bool,
}

impl Default for AotOptions<'_> {
    fn default() -> Self {
        AotOptions {
            variants: &[],
            expressions: &[],
            head_dims: &[128],
            head_dim_vo: &[HeadDimVo::Same],
            dtypes: &[Dtype::Bf16],
            kv_dtypes: &[],
            kv_formats: &[],
            kinds: &[KernelKind::Prefill, KernelKind::Decode],
            paged: &[false, true],
            groups: &[8, 16],
            decode: None,
            stored: &[KvStored::Raw],
            row_invariant: &[false],
            device_plans: false,
            ops: &[],
            appends: false,
            archs: None,
            env: false,
        }
    }
}

impl AotOptions<'_> {
    /// Runs a build whose expressions may name these variants too, and these KV formats, which are registered.
    pub fn with_known<R>(
        &self,
        variants: &[&'static VariantDesc],
        formats: &[&'static KvFormatDesc],
        run: impl FnOnce(&AotOptions<'_>) -> R,
    ) -> R {
        // a program that has another format of such a name keeps it
        drop(registry::register_kv_formats(formats));
        let variants = [variants, self.variants].concat();
        run(&AotOptions { variants: &variants, ..*self })
    }
}

/// Environment variables that influence the build.
const KNOBS: [&str; 13] = [
    "ATTN_CUDA_ARCHS",
    "ATTN_AOT_EXPRS",
    "ATTN_AOT_HEAD_DIMS",
    "ATTN_AOT_DTYPES",
    "ATTN_AOT_KV_DTYPES",
    "ATTN_AOT_KV_FORMATS",
    "ATTN_COMPILER",
    "ATTN_NVRTC",
    "ATTN_NVCC",
    "CUDA_HOME",
    "CUDA_PATH",
    "ATTN_CACHE",
    "ATTN_CACHE_DIR",
];

/// Runs the build of a build script: it writes to `OUT_DIR` and prints cargo directives. It prints notes as warnings,
/// and errors as errors. `attn::include_prebuilt!` reads the result.
#[allow(clippy::print_stdout)] // directives for cargo
pub fn build_script(options: &AotOptions<'_>) {
    for knob in KNOBS {
        println!("cargo::rerun-if-env-changed={knob}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out) = env::var_os("OUT_DIR") else {
        println!("cargo::error=attn: OUT_DIR is not set; `build_script` is to be called by a build script");
        return;
    };
    match build(options, Path::new(&out)) {
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
pub fn build(options: &AotOptions<'_>, out: &Path) -> Result<AotReport, AotError> {
    let mut report = AotReport::default();
    let archs = match options.archs {
        Some(archs) => archs.to_vec(),
        None => archs_from_env(&mut report)?,
    };
    let sources = options.sources(&archs)?;
    // the search for a compiler takes time and may start Python, so it is skipped if there is nothing to compile
    let built = if sources.is_empty() {
        Vec::new()
    } else {
        match Compiler::find() {
            Err(error) => {
                report.notes.push(format!("no kernels embedded, they are compiled at run time: {error}"));
                Vec::new()
            }
            // what another compiler left in the cache is not embedded
            Ok(compiler) => compile_all(&CubinCache::of_compiler(&compiler), sources)?,
        }
    };
    write(out, &built)?;
    report.cubins = built.len();
    report.bytes = built.iter().map(|cubin| cubin.compiled.cubin.len()).sum();
    report.compiled = built.iter().filter(|cubin| cubin.origin == Origin::Compiled).count();
    Ok(report)
}
