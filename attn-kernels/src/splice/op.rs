//! Ops around attention. Each op has one translation unit per combination of element types; only appends through
//! transforms depend on a variant.

use attn_core::dtype::Dtype;
use attn_core::expr::Variant;
use attn_core::sampling::{BLOCK_TOKENS, CANDIDATES, DRAWS_OF_CANDIDATE, Source};

use super::templates::{Inliner, LANGUAGE};
use super::traits_block::elem;
use super::{SpliceError, Unit, variant};
use crate::compile::Arch;
use crate::launch::{
    CHAIN_SHARED_BYTES, COPY_INLINE, OP_THREADS, SAMPLE_CLUSTER, SAMPLE_THREADS, SELECT_THREADS, TREE_ARRAYS,
    VERIFY_CLUSTER, VERIFY_THREADS, sample_shared_bytes, tree_shared_bytes,
};

/// An op and the element types of its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Merges or sums partial states of an element type.
    Merge(Dtype),
    /// Converts log-sum-exps from one base to another.
    Lse,
    /// Appends keys and values to pools.
    Append {
        /// Type of the new rows.
        from: Dtype,
        /// Type of the pool.
        to: Dtype,
    },
    /// Gathers pages into packed tensors.
    Gather {
        /// Type of the pool.
        from: Dtype,
        /// Type of the packed tensors.
        to: Dtype,
    },
    /// Copies pages to pages, of any element type, also to and from the host.
    Copy,
    /// Converts x-packed caches to and from pools, of any element type.
    XPacked,
    /// Packs bools into bits.
    Bits,
    /// Writes rows of a parameter tensor, of any element type.
    TensorRows,
    /// Samples tokens.
    Sample {
        /// Type of the logits or probabilities.
        from: Dtype,
        /// What they are.
        source: Source,
        /// Whether the CTAs of a cluster share a row; for GPUs with clusters.
        cluster: bool,
    },
    /// Scores of keys, or of blocks of keys, for index queries.
    IndexScores {
        /// Type of queries and keys.
        of: Dtype,
        /// Index heads.
        heads: u32,
        /// Elements of a head.
        dim: u32,
        /// Whether blocks have scores, or keys.
        blocks: bool,
    },
    /// Chooses the largest scores of rows.
    Select {
        /// Whether the CTAs of a cluster share a row; for GPUs with clusters.
        cluster: bool,
    },
    /// Verifies chains of drafts.
    VerifyChain {
        /// Whether the CTAs of a cluster share a request; for GPUs with clusters.
        cluster: bool,
    },
    /// Verifies trees of drafts.
    VerifyTree {
        /// As of chains.
        cluster: bool,
    },
}

impl Op {
    /// The name in messages.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Op::Merge(dtype) => format!("merges states of {dtype}"),
            Op::Lse => "scales log-sum-exps".to_owned(),
            Op::Append { from, to } => format!("appends {from} to {to}"),
            Op::Gather { from, to } => format!("gathers {from} into {to}"),
            Op::Copy => "copies pages".to_owned(),
            Op::XPacked => "turns x-packed caches over".to_owned(),
            Op::Bits => "packs bits".to_owned(),
            Op::TensorRows => "writes rows of a tensor".to_owned(),
            Op::Sample { from, source, cluster } => {
                format!("samples from {} of {from}{}", source.name(), in_clusters(cluster))
            }
            Op::IndexScores { of, heads, dim, blocks } => {
                format!("scores {} for {heads} index heads of {dim} {of}", if blocks { "blocks" } else { "keys" })
            }
            Op::Select { cluster } => format!("chooses the largest scores{}", in_clusters(cluster)),
            Op::VerifyChain { cluster } => format!("verifies chains of drafts{}", in_clusters(cluster)),
            Op::VerifyTree { cluster } => format!("verifies trees of drafts{}", in_clusters(cluster)),
        }
    }

    /// The kernels in its translation unit.
    #[must_use]
    pub fn kernels(self) -> &'static [&'static str] {
        match self {
            Op::Merge(_) => &["attn_merge_wide", "attn_merge_narrow"],
            Op::Lse => &["attn_scale_lse"],
            Op::Append { .. } | Op::Gather { .. } => &["attn_rows_wide", "attn_rows_narrow"],
            Op::Copy => &["attn_copy_16", "attn_copy_4", "attn_copy_2", "attn_copy_1"],
            Op::XPacked => &["attn_x_packed_4", "attn_x_packed_2", "attn_x_packed_1"],
            Op::Bits => &["attn_packbits", "attn_segment_packbits"],
            Op::TensorRows => {
                &["attn_tensor_rows_16", "attn_tensor_rows_4", "attn_tensor_rows_2", "attn_tensor_rows_1"]
            }
            Op::Sample { .. } => &["attn_sample_few", "attn_sample_many", "attn_sample_large"],
            Op::IndexScores { .. } => &["attn_index_scores"],
            Op::Select { .. } => &["attn_select"],
            Op::VerifyChain { .. } => &["attn_verify_chain"],
            Op::VerifyTree { .. } => &["attn_verify_tree"],
        }
    }
}

/// The kernels of an append through the transforms of a variant.
pub const TRANSFORM_KERNELS: [&str; 2] = ["attn_transform_wide", "attn_transform_narrow"];

/// The kernels of an append to a pool of a KV format.
pub const ENCODE_KERNELS: [&str; 2] = ["attn_encode_wide", "attn_encode_narrow"];
/// The kernels of an append that transforms queries too.
pub const ROTATE_APPEND_KERNELS: [&str; 2] = ["attn_rotate_append_wide", "attn_rotate_append_narrow"];
/// The kernels of a gather from a pool of a KV format.
pub const GATHER_PACKED_KERNELS: [&str; 2] = ["attn_gather_packed_wide", "attn_gather_packed_narrow"];

/// The source of an op, or of kernels of the caller.
#[derive(Clone, Debug)]
pub struct OpSource {
    /// The translation unit.
    pub text: String,
    /// The name in messages.
    pub name: String,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl OpSource {
    /// The source of an op for an architecture.
    ///
    /// # Errors
    ///
    /// A mistake in the templates.
    pub fn build(op: Op, arch: Arch) -> Result<Self, SpliceError> {
        let (block, template) = match op {
            Op::Merge(dtype) => (format!("using MergeElem = {};\n", elem(dtype)), "ops/merge.cuh"),
            Op::Lse => (String::new(), "ops/lse.cuh"),
            Op::Append { from, to } => (rows_block(from, to, true), "ops/rows_kernels.cuh"),
            Op::Gather { from, to } => (rows_block(from, to, false), "ops/rows_kernels.cuh"),
            Op::Copy => (String::new(), "ops/copy.cuh"),
            Op::XPacked => (String::new(), "ops/x_packed.cuh"),
            Op::Bits => (String::new(), "ops/bits.cuh"),
            Op::TensorRows => (String::new(), "ops/tensor_rows.cuh"),
            Op::Sample { from, source, cluster } => (sample_block(from, source, cluster), "sampling/sample.cuh"),
            Op::IndexScores { .. } => (index_block(op, arch), "select/scores.cuh"),
            Op::Select { cluster } => (select_block(cluster), "select/top_k.cuh"),
            Op::VerifyChain { cluster } => (verify_block(cluster, CHAIN_SHARED_BYTES), "sampling/verify_chain.cuh"),
            Op::VerifyTree { cluster } => (verify_block(cluster, tree_shared_bytes(0)), "sampling/verify_tree.cuh"),
        };
        let name = format!("{} {arch}", op.name());
        let mut unit = Inliner::of_unit(&name, &["arch/element.cuh"])?;
        unit.push(&format!("\n#line 1 \"op\"\n{block}"));
        unit.include(template)?;
        unit.push(&checks(op == Op::Copy));
        Ok(OpSource { text: unit.finish(), name, arch })
    }

    /// The source of an append through the `key_transform` and `value_transform` of a variant that is no union.
    ///
    /// # Errors
    ///
    /// Parts that have no meaning together.
    pub fn transform(of: &Variant, from: Dtype, to: Dtype, arch: Arch) -> Result<Self, SpliceError> {
        let what = format!("appends {from} to {to}");
        Self::of_rows(of, &what, &rows_block(from, to, true), "ops/transform.cuh", arch)
    }

    /// The source of an append to a pool of the KV formats of a variant that is no union, through its transforms.
    ///
    /// # Errors
    ///
    /// The errors of [`OpSource::transform`].
    pub fn encode(of: &Variant, from: Dtype, arch: Arch) -> Result<Self, SpliceError> {
        let what = format!("appends {from} to rows of KV formats");
        Self::of_rows(of, &what, &rows_block(from, Dtype::U8, true), "ops/encode.cuh", arch)
    }

    /// The source of a gather from a pool of the KV formats of a variant that is no union.
    ///
    /// # Errors
    ///
    /// The errors of [`OpSource::transform`].
    pub fn gather_packed(of: &Variant, to: Dtype, arch: Arch) -> Result<Self, SpliceError> {
        let what = format!("gathers rows of KV formats into {to}");
        Self::of_rows(of, &what, &rows_block(Dtype::U8, to, false), "ops/gather_packed.cuh", arch)
    }

    /// A unit over rows of the KV formats of a variant, or over numbers.
    fn of_rows(of: &Variant, what: &str, block: &str, template: &str, arch: Arch) -> Result<Self, SpliceError> {
        let name = format!("{}: {what} {arch}", variant::outline(of));
        let mut unit = match of.kv_formats() {
            Some(_) => Inliner::of_packed_unit(&name)?,
            None => Inliner::of_unit(&name, &LANGUAGE)?,
        };
        unit.push(&format!("\n#line 1 \"op\"\n{block}"));
        unit.push(&variant::variant_source(of)?);
        unit.include(template)?;
        unit.push(&checks(false));
        Ok(OpSource { text: unit.finish(), name, arch })
    }

    /// The source of an append through the transforms and to the KV formats of a variant that is no union, which
    /// transforms queries too and rounds them to `queries`. With formats `to` is [`Dtype::U8`].
    ///
    /// # Errors
    ///
    /// The errors of [`OpSource::transform`].
    pub fn rotate_append(of: &Variant, [from, to, queries]: [Dtype; 3], arch: Arch) -> Result<Self, SpliceError> {
        let chunk = |to: Dtype| 16 / from.size().min(to.size());
        let formats = of.kv_formats().is_some();
        let block = format!(
            "{}using QueryElem = {};\nconstexpr int KV_CHUNK = {};\nconstexpr int QUERY_CHUNK = {};\n",
            rows_block(from, to, true),
            elem(queries),
            chunk(if formats { from } else { to }),
            chunk(queries),
        );
        let what = format!("appends {from} to {to}, and transforms queries into {queries}");
        Self::of_rows(of, &what, &block, "ops/rotate_append.cuh", arch)
    }

    /// The source of kernels of the caller: CUDA C++ with `extern "C"` entries. The text includes no header. It finds
    /// the element types of tensors (`f16`, `bf16`) and their conversions (`to_float`, `from_float`, `pack2`,
    /// `unpack2`) of `cuda/arch/element.cuh`. Messages of the compiler count the lines of the text, and call it `name`.
    ///
    /// # Errors
    ///
    /// A mistake in the templates.
    pub fn custom(name: &str, text: &str, arch: Arch) -> Result<Self, SpliceError> {
        let name = format!("{name} {arch}");
        let mut unit = Inliner::of_unit(&name, &["arch/element.cuh"])?;
        unit.push(&format!("\n#line 1 \"{}\"\n{text}", name.replace(['"', '\\', '\n'], "_")));
        Ok(OpSource { text: unit.finish(), name, arch })
    }
}

fn rows_block(from: Dtype, to: Dtype, to_pool: bool) -> String {
    let (from, to) = (elem(from), elem(to));
    format!("using FromElem = {from};\nusing ToElem = {to};\nconstexpr bool ROWS_TO_POOL = {to_pool};\n")
}

fn sample_block(from: Dtype, source: Source, cluster: bool) -> String {
    let (ctas, [few, many, large]) = (if cluster { SAMPLE_CLUSTER } else { 1 }, SAMPLE_THREADS);
    format!(
        "#define CLUSTER_SIZE {ctas}\nconstexpr int CLUSTER_CTAS = CLUSTER_SIZE;\nconstexpr int SAMPLE_FEW = {few};\n\
         constexpr int SAMPLE_MANY = {many};\nconstexpr int SAMPLE_LARGE = {large};\n\
         constexpr int SAMPLE_SHARED_BYTES = {};\nconstexpr int BLOCK_TOKENS = {BLOCK_TOKENS};\n\
         constexpr int CANDIDATES = {CANDIDATES};\nconstexpr unsigned DRAWS_OF_CANDIDATE = {DRAWS_OF_CANDIDATE};\n\
         constexpr bool FROM_PROBS = {};\nusing SampleElem = {};\n",
        sample_shared_bytes(ctas),
        source == Source::Probs,
        elem(from)
    )
}

/// Before sm_80 no instruction multiplies matrices of both types with 16 terms.
fn index_block(op: Op, arch: Arch) -> String {
    let Op::IndexScores { of, heads, dim, blocks } = op else { return String::new() };
    format!(
        "#define INDEX_MMA {}\nconstexpr int INDEX_HEADS = {heads};\nconstexpr int INDEX_DIM = {dim};\n\
         constexpr bool INDEX_BLOCKS = {blocks};\nconstexpr bool ROWS_TO_POOL = false;\nusing IndexElem = {};\n",
        i32::from(arch.major() >= 8),
        elem(of)
    )
}

/// Radix select is that of sampling, over logits.
fn select_block(cluster: bool) -> String {
    let ctas = if cluster { SAMPLE_CLUSTER } else { 1 };
    format!(
        "#define CLUSTER_SIZE {ctas}\nconstexpr int CLUSTER_CTAS = CLUSTER_SIZE;\n\
         constexpr int SELECT_THREADS = {SELECT_THREADS};\nconstexpr int SAMPLE_SHARED_BYTES = {};\n\
         constexpr int BLOCK_TOKENS = {BLOCK_TOKENS};\nconstexpr int CANDIDATES = {CANDIDATES};\n\
         constexpr bool FROM_PROBS = false;\nusing SampleElem = float;\n",
        sample_shared_bytes(ctas),
    )
}

fn verify_block(cluster: bool, shared_bytes: u32) -> String {
    let ctas = if cluster { VERIFY_CLUSTER } else { 1 };
    format!(
        "#define CLUSTER_SIZE {ctas}\nconstexpr int CLUSTER_CTAS = CLUSTER_SIZE;\n\
         constexpr int VERIFY_THREADS = {VERIFY_THREADS};\nconstexpr int VERIFY_SHARED_BYTES = {shared_bytes};\n\
         constexpr int TREE_ARRAYS = {TREE_ARRAYS};\n"
    )
}

fn in_clusters(cluster: bool) -> &'static str {
    if cluster { " in clusters" } else { "" }
}

/// Assertions that the host and the template agree on constants.
fn checks(list: bool) -> String {
    let mut text = format!(
        "\n#line 1 \"checks\"\nstatic_assert(OP_THREADS == {OP_THREADS}, \"op_abi.rs and the template agree\");\n"
    );
    if list {
        text += &format!("static_assert(COPY_INLINE == {COPY_INLINE}, \"op_abi.rs and the template agree\");\n");
    }
    text
}

impl Unit for OpSource {
    fn text(&self) -> &str {
        &self.text
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn arch(&self) -> Arch {
        self.arch
    }
}
