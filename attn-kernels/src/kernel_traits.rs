//! Kernel traits: the compile-time constants of one kernel, tile sizes among them.

mod choose;
mod cuda_cores;
mod decode_tiles;
mod error;
mod merging;
mod preprocessing;
mod smem;

use attn_core::{
    dtype::{Dtype, Dtypes},
    expr::Variant,
    lang::{
        Hook,
        kv_format::{CodeValues, LinearCodes},
    },
    spec::{ComputeType, DecodeBackend, HeadDimVo, Heads, KernelKind, PrefillBackend},
};

pub use cuda_cores::cuda_cores_support;
pub use decode_tiles::DecodeTiles;
pub use error::KernelTraitsError;
pub use merging::{MERGE_THREADS, mixed_merge_grid};

use crate::compile::Arch;

/// Whether tensor cores have kernels for these head dimensions of keys and of values. Both may be multiples of 16 up
/// to 256. Keys may also have 512 elements, or 576 (latent attention); values may have 512 where keys are at least as
/// long.
pub fn head_dims_are_supported(head_dim: u32, value_dim: u32) -> bool {
    let known = |dim: u32| dim.is_multiple_of(16) && (16..=256).contains(&dim) || dim == 512;
    known(value_dim) && (known(head_dim) || head_dim == 576) && (value_dim <= 256 || head_dim >= value_dim)
}

/// Element types of queries and outputs that tensor cores have kernels for.
pub const DTYPES: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];

/// Whether kernels that have the type of queries read keys and values: of the same type, fp8, or in a KV format.
fn reads_kv_of(dtypes: Dtypes) -> bool {
    dtypes.kv == dtypes.qo || dtypes.kv.is_fp8() || dtypes.format.is_some()
}

/// Rows of a warpgroup of sm90 prefill.
pub const WARPGROUP_ROWS: u32 = 64;
/// The most Q tiles of a work item of [`KernelTraits::resident`].
pub const RESIDENT_Q_TILES: u32 = 12;

/// Rows of a Q tile of [`KernelTraits::resident`], for a group of query heads: the whole tokens that fit a warpgroup,
/// since TMA loads these. Larger groups have all rows, which TMA does not load.
pub fn resident_tile_rows(group: u32) -> u32 {
    match WARPGROUP_ROWS.checked_rem(group) {
        Some(rest) if rest < WARPGROUP_ROWS => WARPGROUP_ROWS - rest,
        _ => WARPGROUP_ROWS,
    }
}

/// Threads of a CTA of the K/V preprocessing kernel.
pub const KV_PREPROCESS_THREADS: u32 = 128;

/// The problem that a kernel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelTraitsRequest {
    /// Kernel family.
    pub kind: KernelKind,
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// Elements of a value, and whether values are stored in the keys.
    pub head_dim_vo: HeadDimVo,
    /// Element types.
    pub dtypes: Dtypes,
    /// Whether keys and values are in pages.
    pub paged: bool,
    /// Query heads per KV head, or PackGQA rows that share a KV list. A decode tile holds up to 16 of them.
    pub group: u32,
    /// Whether the variant has a `key_transform`.
    pub key_hooks: bool,
    /// Whether the variant has a `value_transform`.
    pub value_hooks: bool,
    /// Whether the variant reads keys through a KV list.
    pub key_lists: bool,
    /// Mixed: as [`KernelTraits::shared_rows`].
    pub shared_rows: bool,
    /// The prefill backend, if it supports the problem; otherwise the next one that does: [`PrefillBackend::Sm80`], and
    /// [`PrefillBackend::CudaCores`].
    pub prefill: PrefillBackend,
    /// The decode backend. By default tensor cores where they support the problem, else CUDA cores.
    pub decode: Option<DecodeBackend>,
    /// The element type of prefill's MMA operands. Decode and mixed kernels have [`ComputeType::Exact`] alone.
    pub compute_type: ComputeType,
    /// Whether the bits of a row depend on the row alone, and not on the rows of its Q tile: O is then rescaled
    /// whenever a max grows.
    pub row_invariant: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl KernelTraitsRequest {
    /// Attention over pages with one query head per KV head, values as long as keys, no hook on keys or values, and the
    /// default prefill backend.
    #[must_use]
    pub fn new(kind: KernelKind, head_dim: u32, dtypes: Dtypes, arch: Arch) -> Self {
        KernelTraitsRequest {
            kind,
            head_dim,
            head_dim_vo: HeadDimVo::Same,
            dtypes,
            paged: true,
            group: 1,
            key_hooks: false,
            value_hooks: false,
            key_lists: false,
            shared_rows: false,
            prefill: PrefillBackend::default(),
            decode: None,
            compute_type: ComputeType::Exact,
            row_invariant: false,
            arch,
        }
    }

    /// Elements of a value, and of an output.
    pub fn value_dim(&self) -> u32 {
        self.head_dim_vo.dim(Heads { qo: 1, kv: 1, head_dim: self.head_dim })
    }

    /// The rows of keys and of values, if they are stored in KV formats.
    pub fn packed(&self) -> Option<[PackedRow; 2]> {
        let formats = self.dtypes.format?;
        let row = |part, dim| {
            let bytes = formats.row_bytes(part, dim);
            let [codes, side] = [bytes.codes, bytes.side].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            PackedRow { codes, side, linear: formats.part(part).linear() }
        };
        let keys = row(0, self.head_dim);
        // values that are the first elements of keys lie in the rows of keys
        Some([keys, if self.head_dim_vo.shares_keys() { keys } else { row(1, self.value_dim()) }])
    }

    /// The Q tiles that decode has for the problem.
    pub fn decode_tiles(&self) -> DecodeTiles {
        DecodeTiles { backend: self.decode_backend(), head_dim: self.head_dim, value_dim: self.value_dim() }
    }

    /// The same problem, for variants whose hooks one kernel or one selection serves: those that any of them has.
    #[must_use]
    pub fn with_hooks<'a>(self, variants: impl IntoIterator<Item = &'a Variant, IntoIter: Clone>) -> Self {
        let variants = variants.into_iter();
        let any = |hook| variants.clone().any(|variant| variant.has(hook));
        KernelTraitsRequest {
            key_hooks: any(Hook::KeyTransform),
            value_hooks: any(Hook::ValueTransform),
            key_lists: any(Hook::KvListLen),
            ..self
        }
    }

    /// The request of one branch, from that of all branches. They share a work list, and whether it is of KV lists.
    #[must_use]
    pub fn for_branch(self, branch: &Variant) -> Self {
        KernelTraitsRequest { key_lists: self.key_lists, ..self.with_hooks([branch]) }
    }
}

/// Bytes of a stored row of keys or of values of a KV format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PackedRow {
    /// Of its codes.
    pub codes: u32,
    /// Of its side data.
    pub side: u32,
    /// Its codes, if tensor cores can multiply them.
    pub linear: Option<LinearCodes>,
}

impl PackedRow {
    /// Whether decode on tensor cores multiplies codes of rows of `dim` elements, of tiles of `tile_rows` query rows.
    /// Codes are loaded in pairs of 16 bytes. A group is whole 16 bytes, and scales and zeros of few groups fit
    /// registers; or it is less, of whole words, without a zero and an offset, and the scale multiplies codes.
    pub(crate) fn multiplies_codes(self, dim: u32, tile_rows: u32) -> bool {
        let Some(linear @ LinearCodes { bits, values, group }) = self.linear else { return false };
        let group = if group == 0 { dim } else { group.unsigned_abs() };
        let (chunk, word) = (128 / bits, 32 / bits);
        let factors = dim / group * if linear.has_zero() { 2 } else { 1 };
        let of_sums = group.is_multiple_of(chunk) && factors <= 8;
        let plain = !matches!(values, CodeValues::Unsigned | CodeValues::Signed);
        let of_codes = plain && group < chunk && group.is_multiple_of(word) && chunk.is_multiple_of(group);
        let whole = dim.is_multiple_of(2 * chunk) && dim.is_multiple_of(group) && (of_sums || of_codes);
        whole && self.codes == dim * bits / 8 && dim <= 256 && tile_rows <= 16
    }
}

/// The compile-time constants of a kernel. They are spliced in front of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelTraits {
    /// Kernel family.
    pub kind: KernelKind,
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// Elements of a value, and of an output.
    pub value_dim: u32,
    /// Element types.
    pub dtypes: Dtypes,
    /// The rows of keys and of values, if they are stored in KV formats.
    pub packed: Option<[PackedRow; 2]>,
    /// Whether keys and values are in pages.
    pub paged: bool,
    /// Whether values are the first elements of the keys, in the same memory, and no hook rewrites either (MLA).
    pub values_share_keys: bool,
    /// Prefill: a preprocessing kernel writes the keys to the workspace before the main kernel, because a hook
    /// transforms them or because they are fp8.
    pub preprocess_keys: bool,
    /// Prefill: the preprocessing kernel writes the values, for the same reasons.
    pub preprocess_values: bool,
    /// Rows of a Q tile: tokens times query heads of a KV head (PackGQA).
    pub tile_rows: u32,
    /// Prefill: keys of a KV tile.
    pub tile_keys: u32,
    /// MMA warps of a CTA.
    pub warps: u32,
    /// Sm90 prefill: warps of the producer warpgroup. 0 for other kernels, whose MMA warps also load. In a mixed kernel
    /// they decode, too.
    pub producer_warps: u32,
    /// Sm90 prefill: whether a work item is up to [`RESIDENT_Q_TILES`] Q tiles of a request whose keys fit one KV tile,
    /// which stays in shared memory.
    pub resident: bool,
    /// Sm80 prefill: warps that share their rows, each of which computes other columns of the output.
    pub column_warps: u32,
    /// Whether both GEMMs run on CUDA cores, in f32. Otherwise they run on tensor cores.
    pub cuda_cores: bool,
    /// Decode and CUDA cores: warps that share their keys, each of which has rows of its own.
    pub row_warps: u32,
    /// Stages of the K/V pipeline.
    pub stages: u32,
    /// Decode and CUDA cores: keys of a warp in one pipeline stage.
    pub warp_keys: u32,
    /// Decode and CUDA cores: whether keys have a second buffer, of elements as wide as those of queries: where hooks
    /// transform fp8 keys, and for rows of KV formats.
    pub widened_keys: bool,
    /// Decode: the same for values.
    pub widened_values: bool,
    /// CTAs of an SM that registers and shared memory have to suffice for (`__launch_bounds__`).
    pub ctas_per_sm: u32,
    /// Mixed: the decode part. All other fields describe the prefill part.
    pub mixed: Option<DecodePart>,
    /// Mixed: a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub shared_rows: bool,
    /// Sm90 prefill: whether both GEMMs take e4m3 operands. The preprocessing kernel then writes the values transposed.
    pub e4m3_compute: bool,
    /// Whether a row has the same bits whatever rows are beside it ([`KernelTraitsRequest::row_invariant`]).
    pub row_invariant: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

/// The constants of the decode part of a mixed kernel, where they differ from the prefill part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodePart {
    /// Rows of a Q tile.
    pub tile_rows: u32,
    /// Whether both GEMMs run on CUDA cores ([`KernelTraits::cuda_cores`]).
    pub cuda_cores: bool,
    /// Stages of the K/V pipeline.
    pub stages: u32,
    /// Keys of a warp in one pipeline stage.
    pub warp_keys: u32,
    /// Whether keys are widened in shared memory ([`KernelTraits::widened_keys`]).
    pub widened_keys: bool,
    /// Whether values are widened in shared memory ([`KernelTraits::widened_values`]).
    pub widened_values: bool,
}

impl KernelTraits {
    /// Whether this is the sm90 prefill kernel, or a mixed kernel with it: warp-specialised (a producer and consumer
    /// warpgroups) and persistent (no more CTAs than the device holds, each of which takes work tiles from a dynamic
    /// tile scheduler). In such a mixed kernel the CTAs of the decode part decode with all warps, and prefill then.
    pub fn is_sm90_prefill(&self) -> bool {
        self.producer_warps > 0
    }

    /// The traits of the decode part of a mixed kernel, with one CTA per SM; for other kernels the traits themselves.
    #[must_use]
    pub fn decode_part(&self) -> Self {
        let Some(part) = self.mixed else { return *self };
        let DecodePart { tile_rows, cuda_cores, stages, warp_keys, widened_keys, widened_values } = part;
        let decode =
            KernelTraits { kind: KernelKind::Decode, mixed: None, shared_rows: false, ctas_per_sm: 1, ..*self };
        let decode =
            KernelTraits { preprocess_keys: false, preprocess_values: false, widened_keys, widened_values, ..decode };
        let warps = self.warps + self.producer_warps;
        KernelTraits { tile_rows, cuda_cores, warps, producer_warps: 0, row_warps: 1, stages, warp_keys, ..decode }
    }

    /// The traits of the prefill part of a mixed kernel; for other kernels the traits themselves.
    #[must_use]
    pub fn prefill_part(&self) -> Self {
        let kind = if self.kind == KernelKind::Mixed { KernelKind::Prefill } else { self.kind };
        KernelTraits { kind, mixed: None, shared_rows: false, ..*self }
    }

    /// Whether the launch is of persistent workers, each of which runs its part of the work list: decode, and all
    /// kernels on CUDA cores. Other kernels run a work item in each CTA.
    pub fn has_workers(&self) -> bool {
        self.kind == KernelKind::Decode || self.kind == KernelKind::Prefill && self.cuda_cores
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        32 * (self.warps + self.producer_warps)
    }

    /// Whether the main kernel merges partial states (the CTA that decrements the split-KV semaphore last does it).
    /// Other kernels need a launch of the merge kernel.
    pub fn merges_in_kernel(&self) -> bool {
        self.has_workers()
    }

    /// Bytes of a stored key of one head, side data included.
    pub fn key_bytes(&self) -> u32 {
        self.packed.map_or(self.head_dim * self.dtypes.kv.size() as u32, |[keys, _]| keys.codes + keys.side)
    }

    /// Bytes of a stored value of one head, side data included; 0 if it shares the memory of its key.
    pub fn value_bytes(&self) -> u32 {
        let dense = self.value_dim * self.dtypes.kv.size() as u32;
        match (self.values_share_keys, self.packed) {
            (true, _) => 0,
            (false, None) => dense,
            (false, Some([_, values])) => values.codes + values.side,
        }
    }

    /// Keys of one mainloop step. KV splits are best cut at multiples of it.
    pub fn step_keys(&self) -> u32 {
        match self.kind {
            _ if self.has_workers() => self.warp_keys * self.key_warps(),
            KernelKind::Prefill | KernelKind::Decode => self.tile_keys,
            KernelKind::Mixed => self.decode_part().step_keys(),
        }
    }

    /// Decode and CUDA cores: warps, or groups of `row_warps` warps, that have keys of their own.
    pub fn key_warps(&self) -> u32 {
        self.warps / self.row_warps
    }

    /// The traits in one line, such as `prefill head_dim 128 bf16 paged sm_90a`.
    pub fn describe(&self) -> String {
        let &KernelTraits {
            kind, head_dim, value_dim, paged, preprocess_keys, preprocess_values, arch, tile_rows, ..
        } = self;
        let layout = if paged { "paged" } else { "ragged" };
        let keys = if preprocess_keys { " key-preprocess" } else { "" };
        let values = if preprocess_values { " value-preprocess" } else { "" };
        let rows = match self.mixed {
            Some(decode) => {
                let shared = if self.shared_rows { " shared" } else { "" };
                let wgmma = if self.is_sm90_prefill() { " wgmma" } else { "" };
                let cuda_cores = match (self.cuda_cores, decode.cuda_cores) {
                    (false, false) => "",
                    (false, true) => " cuda-cores decode",
                    (true, false) => " cuda-cores prefill",
                    (true, true) => " cuda-cores",
                };
                format!(" rows {}{shared}{cuda_cores}{wgmma}", decode.tile_rows)
            }
            None if self.has_workers() => {
                format!(" rows {tile_rows}{}", if self.cuda_cores { " cuda-cores" } else { "" })
            }
            // records of kernels have this name
            None if self.e4m3_compute => " wgmma e4m3 products".to_owned(),
            None if self.is_sm90_prefill() => if self.resident { " wgmma resident" } else { " wgmma" }.to_owned(),
            None => String::new(),
        };
        let kv = match self.packed {
            Some([keys, values]) => {
                let row = |row: PackedRow| format!("{}+{}", row.codes, row.side);
                format!(" over rows of {} and {} bytes", row(keys), row(values))
            }
            None if self.dtypes.kv == self.dtypes.qo => String::new(),
            None => format!(" over {}", self.dtypes.kv),
        };
        let output = self.dtypes.o.map_or(String::new(), |o| format!(" to {o}"));
        let queries = self.dtypes.q.map_or(String::new(), |q| format!(" from {q}"));
        let of_keys = if self.values_share_keys { " of the keys" } else { "" };
        let widths = if value_dim == head_dim { String::new() } else { format!(" values {value_dim}{of_keys}") };
        let invariant = if self.row_invariant { " row-invariant" } else { "" };
        format!(
            "{kind} head_dim {head_dim}{widths} {}{queries}{kv}{output} {layout}{keys}{values}{rows}{invariant} {arch}",
            self.dtypes.qo
        )
    }
}

/// Lanes that hold one row when hooks transform it; the same as in `memory/row.cuh`.
fn row_lanes(dim: u32) -> u32 {
    let values = match dim {
        ..=256 => 8,
        257..=512 => 16,
        _ => 32,
    };
    dim.div_ceil(values).next_power_of_two()
}

#[cfg(test)]
mod tests;
