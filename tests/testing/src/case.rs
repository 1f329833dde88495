//! Case files: one JSON object a line, a case to check or time.

mod names;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use attn::{ComputeType, DecodeBackend, Dtype, Dtypes, HeadDimVo, Heads, PrefillBackend};
use attn_core::lang::Dims;

use self::names::{by_name, head_dim_vo, optional_name};
use super::case_layout::{LayoutKind, Lens, LevelCase, Order, Pool};
use super::host::HostScale;
use super::{KeptPages, RunMode, Table, TestError, parse_json};

/// One case: a variant, sizes, a layout and a seed. This is the format of every `.jsonl` case file.
///
/// ```json
/// {"variant":"causal + soft_cap(cap=30)","kernel":"auto","dtype":"bf16","qo_heads":32,"kv_heads":8,"head_dim":128,
///  "kv_layout":"paged","page_size":16,"page_order":"NHD","qo_lens":[1,1,17],"kv_lens":[4096,513,17],"seed":7,
///  "graph":true}
/// ```
///
/// Unknown fields are refused; notes are in `meta`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name. It defaults to the variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A variant expression, `causal + soft_cap(cap=30)`.
    pub variant: String,
    /// The kernel family: `auto`, `prefill`, `decode` or `mixed`.
    #[serde(default = "auto")]
    pub kernel: String,
    /// The prefill backend: `sm80`, `sm90`, `sm90-resident` or `cuda-cores`.
    #[serde(default, with = "by_name", skip_serializing_if = "is_default")]
    pub prefill: PrefillBackend,
    /// The decode backend: `tensor-cores` or `cuda-cores`. By default the attention chooses.
    #[serde(default, with = "optional_name", skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodeBackend>,
    /// The compute type of prefill: `exact` or `e4m3`.
    #[serde(default, with = "by_name", skip_serializing_if = "is_default")]
    pub compute_type: ComputeType,
    /// The type of q and o: `f16`, `bf16` or `f32`.
    pub dtype: String,
    /// The type of k and v: as `dtype`, or `e4m3` or `e5m2`. It defaults to `dtype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_dtype: Option<String>,
    /// The type of o: `f16`, `bf16`, `f32`, or `e4m3` with [`Case::o_scale`]. It defaults to `dtype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub o_dtype: Option<String>,
    /// The type of q in memory: `e4m3` with [`Case::q_scale`]. It defaults to `dtype`, which kernels compute in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_dtype: Option<String>,
    /// Query heads.
    pub qo_heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// The head dim of queries and keys.
    pub head_dim: u32,
    /// The head dim of values: `"same"` as keys, a number, or `"keys:512"` for the first elements of the keys.
    #[serde(default, rename = "values", with = "head_dim_vo", skip_serializing_if = "is_default")]
    pub head_dim_vo: HeadDimVo,
    /// The layout of the keys.
    #[serde(default)]
    pub kv_layout: LayoutKind,
    /// The page size in keys.
    #[serde(default = "sixteen")]
    pub page_size: u32,
    /// Order of slots and heads within a page, or of tokens and heads in a ragged tensor.
    #[serde(default)]
    pub page_order: Order,
    /// How keys and values share memory. The reference has them in tensors of their own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pool: Pool,
    /// The shared levels of a cascade, outermost first. `kv_lens` are then the keys of the last level, which each
    /// request has for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelCase>,
    /// Queries of each request.
    pub qo_lens: Lens,
    /// Keys of each request.
    pub kv_lens: Lens,
    /// The seed of all random data.
    #[serde(default)]
    pub seed: u64,
    /// The keys of a split under batch invariance ([`AttentionOptions::fixed_split_size`]).
    ///
    /// [`AttentionOptions::fixed_split_size`]: attn::AttentionOptions::fixed_split_size
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_split_size: Option<u32>,
    /// How far below a row's largest logit keys are left out ([`AttentionOptions::skip_softmax`]). Tolerances are those
    /// of the weights of all keys.
    ///
    /// [`AttentionOptions::skip_softmax`]: attn::AttentionOptions::skip_softmax
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_softmax: Option<f32>,
    /// Whether a replayed CUDA graph is timed instead of a launch.
    #[serde(default)]
    pub graph: bool,
    /// The scale of logits. It defaults to `1 / sqrt(head_dim)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_scale: Option<f32>,
    /// The standard deviation of queries; that of keys and values is 1. Large values bring logits near a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_std: Option<f32>,
    /// Whether queries are 0 and values 1, so that a log-sum-exp is the logarithm of the number of visible keys, and an
    /// output is the scale of the values. The variant must leave such rows as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counting: bool,
    /// Whether the run is partial, without sink and output transform
    /// ([`RunOptions::partial`](attn::RunOptions::partial)).
    #[serde(default, skip_serializing_if = "is_default")]
    pub partial: bool,
    /// The scale of stored keys; that of stored values is 1.25 times larger. Both default to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_scale: Option<f32>,
    /// Whether each KV head has a scale of its own on top, from 0.5 to 1.5 by the seed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv_scale_per_head: bool,
    /// The tables of tensor parameters that the expression leaves out, by `VARIANT.PARAMETER`: those of a variant of
    /// one's own, or other ones for a stock variant, which has tables without being named here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
    /// The pages that the `page_list` of the variant keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<KeptPages>,
    /// Run modes that are timed besides the case itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ours_also: Vec<RunMode>,
    /// The variant that reports show this one beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<String>,
    /// The lengths of the documents in each request, for baselines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<Vec<u32>>,
    /// The type of k and v in baselines, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baselines_kv_dtype: Option<String>,
    /// Notes, of any form. They are written back with the results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<serde_json::Value>,
}

/// The most requests of a case, so that one line cannot take all memory.
const MAX_REQUESTS: usize = 1 << 20;

fn auto() -> String {
    "auto".to_owned()
}

fn sixteen() -> u32 {
    16
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Case {
    /// A small ragged bf16 case of a variant; other fields are set one by one.
    #[must_use]
    pub fn new(variant: impl Into<String>) -> Self {
        Case {
            name: None,
            variant: variant.into(),
            kernel: auto(),
            prefill: PrefillBackend::default(),
            decode: None,
            compute_type: ComputeType::default(),
            dtype: "bf16".to_owned(),
            kv_dtype: None,
            o_dtype: None,
            q_dtype: None,
            qo_heads: 4,
            kv_heads: 2,
            head_dim: 64,
            head_dim_vo: HeadDimVo::Same,
            kv_layout: LayoutKind::Ragged,
            page_size: sixteen(),
            page_order: Order::Nhd,
            pool: Pool::Split,
            levels: Vec::new(),
            qo_lens: Lens::List(vec![17, 1]),
            kv_lens: Lens::List(vec![33, 70]),
            seed: 0,
            fixed_split_size: None,
            skip_softmax: None,
            graph: false,
            sm_scale: None,
            q_std: None,
            counting: false,
            partial: false,
            kv_scale: None,
            kv_scale_per_head: false,
            tables: BTreeMap::new(),
            sparse: None,
            ours_also: Vec::new(),
            plain: None,
            documents: None,
            baselines_kv_dtype: None,
            meta: None,
        }
    }

    /// Its name, or its variant.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.variant)
    }

    /// The dims that shapes of parameters refer to.
    #[must_use]
    pub fn dims(&self) -> Dims {
        let sum = |lens: &Lens| lens.to_vec().into_iter().map(i64::from).sum();
        Dims {
            batch: i64::try_from(self.qo_lens.requests()).ok(),
            qo_tokens: Some(sum(&self.qo_lens)),
            kv_tokens: Some(self.all_kv_lens().into_iter().map(i64::from).sum()),
            ..self.head_dim_vo.dims(self.heads(), self.heads().dims())
        }
    }

    /// Head counts.
    #[must_use]
    pub fn heads(&self) -> Heads {
        Heads { qo: self.qo_heads, kv: self.kv_heads, head_dim: self.head_dim }
    }

    /// Element types.
    ///
    /// # Errors
    ///
    /// A dtype or a KV format that is not known.
    pub fn dtypes(&self) -> Result<Dtypes, TestError> {
        let qo: Dtype = self.dtype.parse()?;
        let types = Dtypes::new(qo, qo);
        let types = self.o_dtype.as_ref().map_or(Ok(types), |o| o.parse().map(|o| types.with_output(o)))?;
        let types = self.q_dtype.as_ref().map_or(Ok(types), |q| q.parse().map(|q| types.with_queries(q)))?;
        match &self.kv_dtype {
            Some(text) => match text.parse() {
                Ok(kv) => Ok(types.with_kv(kv)),
                Err(dtype) => {
                    types.with_kv_format(text).map_err(|format| TestError::KvDtype { dtype, format: Box::new(format) })
                }
            },
            None => Ok(types),
        }
    }

    /// The scale of o: a power of two, with which e4m3 holds outputs from 0.002 to 56.
    #[must_use]
    pub fn o_scale(&self) -> HostScale {
        let quantised = self.dtypes().is_ok_and(|types| types.output() == Dtype::E4m3);
        if quantised { HostScale { all: 0.25, heads: Some(vec![0.5]) } } else { HostScale { all: 1.0, heads: None } }
    }

    /// The scale of q, as [`Case::o_scale`].
    #[must_use]
    pub fn q_scale(&self) -> HostScale {
        let o_dtype = self.q_dtype.clone();
        Case { o_dtype, ..self.clone() }.o_scale()
    }

    /// The case over keys and values in a KV format, in pools that rows of its bytes fit; `None` if it counts keys,
    /// whose values no format need hold.
    #[must_use]
    pub fn over_format(&self, format: &str) -> Option<Case> {
        // in one pool, rows of keys and of values have the same bytes; queries are of no format
        let one_pool = self.pool != Pool::Packed && !format.contains('/');
        let pool = if one_pool { self.pool } else { Pool::Split };
        let name = self.name.as_ref().map(|name| format!("{name} over {format}"));
        (!self.counting).then(|| Case { name, kv_dtype: Some(format.to_owned()), pool, ..self.clone() })
    }

    /// Keys of each request over all levels.
    #[must_use]
    pub fn all_kv_lens(&self) -> Vec<u32> {
        let mut lens = self.kv_lens.to_vec();
        for level in &self.levels {
            let mut requests = lens.iter_mut();
            for (&count, shared) in level.groups.iter().zip(level.kv_lens.to_vec()) {
                requests.by_ref().take(count as usize).for_each(|len| *len = len.saturating_add(shared));
            }
        }
        lens
    }

    /// Keys in memory; shared keys count once.
    #[must_use]
    pub fn kv_memory_tokens(&self) -> u64 {
        let lens = self.levels.iter().map(|level| &level.kv_lens).chain([&self.kv_lens]);
        lens.flat_map(Lens::to_vec).map(u64::from).sum()
    }

    /// Multiplications and additions of the reference: the cost of a check.
    #[must_use]
    pub fn check_cost(&self) -> u64 {
        let lens = self.qo_lens.to_vec().into_iter().zip(self.all_kv_lens());
        let pairs: u128 = lens.map(|(q, k)| u128::from(q) * u128::from(k)).sum();
        let dims = u64::from(self.head_dim) + u64::from(self.head_dim_vo.dim(self.heads()));
        // counts need the mask alone
        let dims = if self.counting { 1 } else { dims };
        let elements = u64::from(self.qo_heads) * dims;
        u64::try_from(pairs.saturating_mul(elements.into())).unwrap_or(u64::MAX)
    }

    /// Reads a case file: one JSON object a line; empty lines are skipped.
    ///
    /// # Errors
    ///
    /// The first line that is not a case, by its number.
    pub fn parse_lines(text: &str) -> Result<Vec<Case>, TestError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text); // a byte order mark
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines
            .map(|(at, line)| {
                // a case is one line: the number is that of the file
                let case: Case = parse_json(line).map_err(|why| TestError::CaseLine {
                    line: at + 1,
                    why: why.replace(" at line 1 column ", " at column "),
                })?;
                case.check().map_err(|why| TestError::CaseInvalid { line: at + 1, why })?;
                Ok(case)
            })
            .collect()
    }

    /// Checks what the type of a field allows, and a case cannot have.
    fn check(&self) -> Result<(), String> {
        let (qo, kv) = (self.qo_lens.requests(), self.kv_lens.requests());
        if qo.max(kv) > MAX_REQUESTS {
            return Err(format!("{} requests are too many; a case has at most {MAX_REQUESTS}", qo.max(kv)));
        }
        if qo != kv {
            return Err(format!("qo_lens has {qo} requests and kv_lens has {kv}"));
        }
        if let Some(std) = self.q_std.filter(|std| !(std.is_finite() && *std >= 0.0)) {
            return Err(format!("q_std is {std}; a standard deviation is finite and not negative"));
        }
        if self.counting && self.q_std.is_some() {
            return Err("q_std has no effect where counting makes all queries 0".to_owned());
        }
        if let Some(sparse) = self.sparse.as_ref().filter(|sparse| !(0.0..=1.0).contains(&sparse.keep)) {
            return Err(format!("sparse.keep is {}; it is a fraction of pages, from 0 to 1", sparse.keep));
        }
        if let Some(twice) = self.ours_also.iter().enumerate().find(|(at, mode)| self.ours_also[..*at].contains(mode)) {
            return Err(format!("ours_also names `{}` twice", twice.1));
        }
        if self.kv_layout.paged() && self.page_size == 0 {
            return Err("page_size is 0; a page holds at least one key".to_owned());
        }
        if self.kv_layout.levels() == self.levels.is_empty() {
            return Err("a cascade has levels, and nothing else has".to_owned());
        }
        for (at, level) in self.levels.iter().enumerate() {
            let requests: u64 = level.groups.iter().copied().map(u64::from).sum();
            if requests != qo as u64 {
                return Err(format!("the groups of level {at} have {requests} requests, of {qo}"));
            }
            if level.groups.len() != level.kv_lens.requests() {
                let (groups, lens) = (level.groups.len(), level.kv_lens.requests());
                return Err(format!("level {at} has {groups} groups and lengths of {lens}"));
            }
            if level.page_size.is_some_and(|size| size == 0 || !size.is_multiple_of(self.page_size.max(1))) {
                return Err(format!("the page size of level {at} is no multiple of {}", self.page_size));
            }
        }
        if self.pool == Pool::Packed && (self.kv_layout.paged() || self.page_order != Order::Nhd) {
            return Err("packed queries, keys and values are ragged, in the order NHD".to_owned());
        }
        if self.pool != Pool::Split && self.head_dim_vo != HeadDimVo::Same {
            return Err(
                "values with another head dim than keys are in a pool of their own, or share the memory of the keys"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
