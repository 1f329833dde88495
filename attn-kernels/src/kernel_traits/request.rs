//! The problem that a kernel is asked for, and what kernels support of it.

use attn_core::dtype::{Dtype, Dtypes};
use attn_core::expr::Variant;
use attn_core::lang::Hook;
use attn_core::spec::{ComputeType, DecodeBackend, HeadDimVo, Heads, KernelKind, PrefillBackend};

use super::common::{CommonTraits, PackedRow};
use super::error::KernelTraitsError;
use crate::compile::Arch;

/// Element types of queries and outputs that tensor cores have kernels for.
pub const DTYPES: [Dtype; 2] = [Dtype::F16, Dtype::Bf16];
/// Bytes of the longest rows of a KV format: offsets within a stage are computed in 32 bits.
const MAX_ROW_BYTES: u32 = 1 << 16;

/// Whether tensor cores have kernels for these head dimensions of keys and of values: multiples of 16 up to 256. Keys
/// may also have 512 elements, or 576 (latent attention); values may have 512 where keys are at least as long.
pub fn head_dims_are_supported(head_dim: u32, value_dim: u32) -> bool {
    let known = |dim: u32| dim.is_multiple_of(16) && (16..=256).contains(&dim) || dim == 512;
    known(value_dim) && (known(head_dim) || head_dim == 576) && (value_dim <= 256 || head_dim >= value_dim)
}

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
    /// Query heads per KV head; of decode also PackGQA rows that share a KV list, of which a tile holds up to 16.
    pub group: u32,
    /// Whether the variant has a `key_transform`.
    pub key_hooks: bool,
    /// Whether the variant has a `value_transform`.
    pub value_hooks: bool,
    /// Whether the variant reads keys through a KV list.
    pub key_lists: bool,
    /// Mixed: whether a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub shared_rows: bool,
    /// The prefill backend, or the next one that supports the problem: [`PrefillBackend::Sm80`], then `CudaCores`.
    pub prefill: PrefillBackend,
    /// The decode backend. By default tensor cores where they support the problem, else CUDA cores.
    pub decode: Option<DecodeBackend>,
    /// The element type of prefill's MMA operands. Decode and mixed kernels have [`ComputeType::Exact`] alone.
    pub compute_type: ComputeType,
    /// Whether the bits of a row depend on the row alone, not on its Q tile: O is then rescaled whenever a max grows.
    pub row_invariant: bool,
    /// Whether KV tiles may be left out ([`skip_softmax`](attn_core::spec::AttentionOptions::skip_softmax)).
    pub skip_softmax: bool,
    /// The architecture to compile for.
    pub arch: Arch,
}

impl KernelTraitsRequest {
    /// Attention over pages with a query head per KV head, values as long as keys, no hooks, and default backends.
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
            skip_softmax: false,
            arch,
        }
    }

    /// Elements of a value, and of an output.
    pub fn value_dim(&self) -> u32 {
        self.head_dim_vo.dim(Heads { qo: 1, kv: 1, head_dim: self.head_dim })
    }

    /// Rows of the decode Q tile for requests of `rows` PackGQA rows. A request with more rows takes several tiles.
    pub fn decode_rows(&self, rows: u32) -> u32 {
        match self.decode_backend() {
            DecodeBackend::TensorCores if rows <= 8 => 8,
            DecodeBackend::TensorCores => self.max_decode_rows(),
            DecodeBackend::CudaCores => rows.max(1).next_power_of_two().min(self.max_decode_rows()),
        }
    }

    /// Rows of the largest decode Q tile.
    pub fn max_decode_rows(&self) -> u32 {
        let (head_dim, value_dim) = (self.head_dim, self.value_dim());
        let sixteen = value_dim > 16 && value_dim <= head_dim && head_dim + 2 * value_dim <= 576;
        match self.decode_backend() {
            // registers hold Q and O; a K/V stage must be able to hold the partial states of all rows
            DecodeBackend::TensorCores if sixteen => 16,
            // registers hold O
            DecodeBackend::CudaCores if value_dim > 256 => 4,
            DecodeBackend::TensorCores | DecodeBackend::CudaCores => 8,
        }
    }

    /// The same problem, for variants whose hooks one kernel or one selection serves: those that any of them has.
    #[must_use]
    pub fn with_hooks<'a>(self, variants: impl IntoIterator<Item = &'a Variant, IntoIter: Clone>) -> Self {
        let variants = variants.into_iter();
        let any = |hook| variants.clone().any(|variant| variant.has(hook));
        let [key_hooks, value_hooks] = [Hook::KeyTransform, Hook::ValueTransform].map(any);
        KernelTraitsRequest { key_hooks, value_hooks, key_lists: any(Hook::KvListLen), ..self }
    }

    /// The request of one branch, from that of all branches. They share a work list, and whether it is of KV lists.
    #[must_use]
    pub fn for_branch(self, branch: &Variant) -> Self {
        KernelTraitsRequest { key_lists: self.key_lists, ..self.with_hooks([branch]) }
    }

    /// Refuses head dimensions, element types and architectures that CUDA cores, or tensor cores, have no kernels for.
    /// The types of k and v are that of q and o, fp8, or of a KV format. CUDA cores have dimensions that are multiples
    /// of 8 up to 512 (of keys also 576), and q and o of 16 bits or f32.
    fn check(&self, cuda_cores: bool) -> Result<(), KernelTraitsError> {
        let &KernelTraitsRequest { kind, head_dim, dtypes, arch, .. } = self;
        let (value_dim, Dtypes { qo, kv, format, .. }) = (self.value_dim(), dtypes);
        let known = |dim: u32| dim.is_multiple_of(8) && (8..=512).contains(&dim);
        let (dims, types) = match cuda_cores {
            true => (known(value_dim) && (known(head_dim) || head_dim == 576), !qo.is_fp8()),
            false => (head_dims_are_supported(head_dim, value_dim), DTYPES.contains(&qo)),
        };
        let types = types && (kv == qo || kv.is_fp8() || format.is_some());
        let on_cuda_cores = !cuda_cores && self.check(true).is_ok();
        match (dims, types) {
            (false, _) => Err(KernelTraitsError::HeadDim { kind, head_dim, value_dim, on_cuda_cores }),
            (_, false) => Err(KernelTraitsError::Dtypes { kind, dtypes, on_cuda_cores }),
            _ if !cuda_cores && !arch.has_mma() => Err(KernelTraitsError::NoMma { kind, arch }),
            _ => Ok(()),
        }
    }

    /// Whether CUDA cores have a kernel for the problem, and tensor cores have none.
    fn needs_cuda_cores(&self) -> bool {
        self.check(false).is_err() && self.check(true).is_ok()
    }

    /// The decode backend of the problem.
    pub fn decode_backend(&self) -> DecodeBackend {
        let needed = || if self.needs_cuda_cores() { DecodeBackend::CudaCores } else { DecodeBackend::TensorCores };
        self.decode.unwrap_or_else(needed)
    }

    /// Whether the kernel of the problem runs on CUDA cores.
    pub(super) fn runs_on_cuda_cores(&self) -> bool {
        match self.kind {
            KernelKind::Decode => self.decode_backend() == DecodeBackend::CudaCores,
            _ => self.prefill == PrefillBackend::CudaCores || self.needs_cuda_cores(),
        }
    }

    /// Whether hooks or decoding change rows between memory and MMAs.
    pub(super) fn rewrites(&self) -> bool {
        self.key_hooks || self.value_hooks || self.dtypes.format.is_some()
    }

    /// What prefill on tensor cores has preprocessed. Rows of KV formats are widened to 16 bits, as those of fp8 are.
    pub(super) fn preprocessed(&self, common: &CommonTraits) -> [bool; 2] {
        let narrow = self.dtypes.kv.is_fp8() || self.dtypes.format.is_some();
        [self.key_hooks || narrow, self.value_hooks || narrow && !common.values_share_keys]
    }

    /// Whether decode, or kernels on CUDA cores, have a second buffer for keys and for values: they transform rows of
    /// fp8, and decode rows of KV formats. Decode on tensor cores does not decode rows that no hook changes: MMAs take
    /// linear codes, and lanes decode other operands in registers, of whole blocks of dims.
    pub(super) fn widened(&self, common: &CommonTraits, cuda_cores: bool) -> [bool; 2] {
        let hooks = [self.key_hooks, self.value_hooks];
        let Some(rows) = common.packed else { return hooks.map(|hooks| hooks && self.dtypes.kv.is_fp8()) };
        let of = |part: usize, dim: u32, block: u32| {
            let in_registers =
                rows[part].multiplies_codes(dim, self.decode_rows(self.group)) || dim.is_multiple_of(block);
            cuda_cores || hooks[part] || !in_registers
        };
        let shares = common.values_share_keys;
        [shares || of(0, common.head_dim, 32), !shares && of(1, common.value_dim, 64)]
    }

    /// What all kernels for the problem have in common. Refuses what no kernel supports.
    pub(super) fn common(&self) -> Result<CommonTraits, KernelTraitsError> {
        self.check(self.runs_on_cuda_cores())?;
        let &KernelTraitsRequest { head_dim, dtypes, paged, row_invariant, arch, .. } = self;
        let (value_dim, shares_keys) = (self.value_dim(), self.head_dim_vo.shares_keys());
        let row = |(of, part, dim)| {
            let Some(formats) = dtypes.format else { return Ok(None) };
            let bytes = formats.row_bytes(part, dim);
            let [codes, side] = [bytes.codes, bytes.side].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let copied = codes.is_multiple_of(8) && side.is_multiple_of(4) && codes.max(side) <= MAX_ROW_BYTES;
            let row = PackedRow { codes, side, linear: formats.part(part).linear() };
            if copied { Ok(Some(row)) } else { Err(KernelTraitsError::Row { of, codes, side }) }
        };
        let keys = ("keys", 0, head_dim);
        // values that are the first elements of keys lie in the rows of keys
        let values = if shares_keys { keys } else { ("values", 1, value_dim) };
        let packed = row(keys)?.zip(row(values)?).map(<[_; 2]>::from);
        let values_share_keys = shares_keys && !self.key_hooks && !self.value_hooks;
        Ok(CommonTraits { head_dim, value_dim, dtypes, packed, paged, values_share_keys, row_invariant, arch })
    }
}
