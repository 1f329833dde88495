//! The cases that a command runs.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use attn::{ComputeType, DecodeBackend, Dtype, PrefillBackend};
use attn_testing::{Case, grid};
use clap::{Args, ValueEnum};
use regex::Regex;

/// Case files and how to choose from them.
#[derive(Args)]
pub(crate) struct Cases {
    /// Files of JSON lines, one case a line; `-` is stdin.
    #[arg(value_name = "CASES.jsonl")]
    files: Vec<PathBuf>,
    /// A built-in grid.
    #[arg(long)]
    grid: Option<Grid>,
    /// Runs an expression over a small grid: both kernels, ragged and paged, both types, groups, odd lengths. May be
    /// given several times.
    #[arg(long, value_name = "EXPR")]
    expr: Vec<String>,
    /// Runs the expressions of a file like --expr, one a line. Empty lines and lines that begin with `#` are left out.
    #[arg(long, value_name = "FILE")]
    exprs: Vec<PathBuf>,
    /// The prefill backend for all cases: sm80, sm90, sm90-resident, cuda-cores.
    #[arg(long, value_name = "BACKEND")]
    prefill: Option<PrefillBackend>,
    /// The decode backend for all cases: tensor-cores, cuda-cores.
    #[arg(long, value_name = "BACKEND")]
    decode: Option<DecodeBackend>,
    /// The element type of q, k, v and o for all cases: f16, bf16, f32. Those over fp8 or a KV format keep it for k and
    /// v.
    #[arg(long)]
    dtype: Option<Dtype>,
    /// The KV format for all cases: int8, "int4(group=32)", "int8 / int4". Cases that count keys are left out. Given
    /// several times, the formats alternate: the first is that of the first case.
    #[arg(long, value_name = "FORMAT", conflicts_with = "dtype")]
    kv_format: Vec<String>,
    /// The compute type of prefill, for all cases: exact, e4m3. With e4m3, cases of other kernels and of variants that
    /// it does not support are left out.
    #[arg(long, conflicts_with = "kv_format")]
    compute_type: Option<ComputeType>,
    /// Only cases whose name (or variant) matches.
    #[arg(long = "match", value_name = "REGEX")]
    pattern: Option<Regex>,
}

/// The built-in grids.
#[derive(Clone, Copy, ValueEnum)]
enum Grid {
    /// Over 600 cases: layouts, lengths, types, groups.
    #[value(alias = "check")]
    Full,
    /// Head dimensions of keys and values, ratios of heads.
    Dims,
    /// Every variant in both kernels, short.
    Small,
    /// Over 2000 cases: every stock variant in every kernel and layout.
    Serving,
    /// Every KV format in every kernel.
    Formats,
    /// The cases of the grids that can count keys: log-sum-exps are logarithms of counts.
    Counting,
    /// Sinks and output transforms, in whole runs and in partial ones.
    Partial,
    /// Every stock variant over latent caches (MLA).
    Latent,
}

impl Cases {
    /// Whether a file or a grid was named.
    pub(crate) fn named(&self) -> bool {
        !self.files.is_empty() || self.grid.is_some() || !self.expr.is_empty() || !self.exprs.is_empty()
    }

    /// The files that are read, each with its option.
    pub(crate) fn read(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let cases = self.files.iter().map(|file| ("CASES.jsonl", file));
        cases.chain(self.exprs.iter().map(|file| ("--exprs", file)))
    }

    /// The cases, in order; at least one.
    pub(crate) fn load(&self) -> Result<Vec<Case>> {
        self.load_or(Vec::new())
    }

    /// Loads the cases; without a file, a grid or an expression those of `default`, chosen and changed alike.
    pub(crate) fn load_or(&self, default: Vec<Case>) -> Result<Vec<Case>> {
        let mut cases = if self.named() { load_files(&self.files)? } else { default };
        match self.grid {
            Some(Grid::Full) => cases.extend(grid::check()),
            Some(Grid::Dims) => cases.extend(grid::dims()),
            Some(Grid::Small) => cases.extend(grid::small()),
            Some(Grid::Serving) => cases.extend(grid::serving()),
            Some(Grid::Formats) => cases.extend(grid::formats()),
            Some(Grid::Counting) => cases.extend(grid::counting()),
            Some(Grid::Partial) => cases.extend(grid::partial()),
            Some(Grid::Latent) => cases.extend(grid::latent()),
            None if !self.named() && cases.is_empty() => bail!(
                "no cases: name a file of cases, a grid (--grid full, small, serving, dims, formats, counting, \
                 partial, latent), or an expression (--expr EXPR, --exprs FILE)"
            ),
            None => {}
        }
        cases.extend(grid::over(&self.expressions()?));
        if cases.is_empty() {
            bail!("no cases in {}", names(&[&self.files[..], &self.exprs].concat()));
        }
        if let Some(prefill) = self.prefill {
            cases.iter_mut().for_each(|case| case.prefill = prefill);
        }
        if self.decode.is_some() {
            cases.iter_mut().for_each(|case| case.decode = self.decode);
        }
        if let Some(dtype) = self.dtype {
            for case in &mut cases {
                let kv = case.kv_dtype.as_ref().and_then(|kv| kv.parse::<Dtype>().ok());
                case.kv_dtype = case.kv_dtype.take().filter(|_| kv.is_none_or(Dtype::is_fp8));
                case.dtype = dtype.to_string();
            }
        }
        for format in &self.kv_format {
            attn::lang::KvFormats::parse(format)?;
        }
        if !self.kv_format.is_empty() {
            let (count, turns) = (cases.len(), cases.iter().zip(self.kv_format.iter().cycle()));
            cases = turns.filter_map(|(case, format)| case.over_format(format)).collect();
            if cases.is_empty() {
                bail!("none of {count} cases can be over a KV format: all of them count keys");
            }
        }
        match self.compute_type {
            Some(ComputeType::E4m3) => {
                let is_other = self.prefill.is_some_and(|backend| backend != PrefillBackend::Sm90);
                if is_other || self.decode.is_some() || self.dtype == Some(Dtype::F32) {
                    bail!(
                        "--compute-type e4m3 is of sm90 prefill over q and o of 16 bits: --prefill of another backend, \
                         --decode and --dtype f32 have nothing to act on"
                    );
                }
                let count = cases.len();
                cases = cases.iter().filter_map(Case::with_e4m3_compute).collect();
                if cases.is_empty() {
                    bail!("none of {count} cases can compute in e4m3: those of prefill can, for some variants");
                }
            }
            Some(compute_type) => cases.iter_mut().for_each(|case| case.compute_type = compute_type),
            None => {}
        }
        let count = cases.len();
        if let Some(pattern) = &self.pattern {
            cases.retain(|case| pattern.is_match(case.title()));
        }
        match &self.pattern {
            Some(pattern) if cases.is_empty() => bail!("none of {count} cases matches `{pattern}`"),
            _ => Ok(cases),
        }
    }

    /// The expressions that were named, in order.
    fn expressions(&self) -> Result<Vec<String>> {
        let mut exprs = self.expr.clone();
        for path in &self.exprs {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text); // a byte order mark
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            exprs.extend(lines.map(str::to_owned));
        }
        Ok(exprs)
    }
}

/// Reads the cases of files.
pub(crate) fn load_files(files: &[PathBuf]) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for path in files {
        let text = if path.as_os_str() == "-" {
            std::io::read_to_string(std::io::stdin()).context("cannot read stdin")?
        } else {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        };
        cases.extend(Case::parse_lines(&text).with_context(|| path.display().to_string())?);
    }
    Ok(cases)
}

fn names(files: &[PathBuf]) -> String {
    files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ")
}
