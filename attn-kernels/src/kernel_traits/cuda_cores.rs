//! The choice of tile sizes for kernels on CUDA cores.

use attn_core::dtype::Dtypes;
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};

use super::{DTYPES, KernelTraits, KernelTraitsRequest, head_dims_are_supported, reads_kv_of, smem::STATIC_BYTES};

/// Whether CUDA cores have kernels for a problem: head dimensions that are multiples of 8 up to 512 (of keys also 576),
/// and q and o of 16 bits or f32, with k and v of the same type or fp8.
pub fn cuda_cores_support(head_dim: u32, value_dim: u32, dtypes: Dtypes) -> bool {
    let known = |dim: u32| dim.is_multiple_of(8) && (8..=512).contains(&dim);
    known(value_dim) && (known(head_dim) || head_dim == 576) && reads_kv_of(dtypes) && !dtypes.qo.is_fp8()
}

impl KernelTraitsRequest {
    /// Whether tensor cores have kernels for the problem.
    pub fn tensor_cores_support(&self) -> bool {
        let types = DTYPES.contains(&self.dtypes.qo) && reads_kv_of(self.dtypes);
        types && self.arch.has_mma() && head_dims_are_supported(self.head_dim, self.value_dim())
    }

    /// The decode backend of the problem.
    pub fn decode_backend(&self) -> DecodeBackend {
        let fallback = || match self.tensor_cores_support() {
            false if cuda_cores_support(self.head_dim, self.value_dim(), self.dtypes) => DecodeBackend::CudaCores,
            _ => DecodeBackend::TensorCores,
        };
        self.decode.unwrap_or_else(fallback)
    }

    /// Whether the kernel of the problem runs on CUDA cores.
    pub(super) fn runs_on_cuda_cores(&self) -> bool {
        match self.kind {
            KernelKind::Decode => self.decode_backend() == DecodeBackend::CudaCores,
            KernelKind::Prefill | KernelKind::Mixed => {
                let possible = cuda_cores_support(self.head_dim, self.value_dim(), self.dtypes);
                self.prefill == PrefillBackend::CudaCores || !self.tensor_cores_support() && possible
            }
        }
    }
}

/// Bytes of a warp's stage that keep enough loads in flight with eight to twelve warps an SM.
const STAGE_BYTES: u32 = 8 << 10;

/// Decode on CUDA cores: every warp has keys of its own, as many as fill a stage.
pub(super) fn cuda_core_decode(traits: KernelTraits, tile_rows: u32, rewrites: bool) -> KernelTraits {
    let traits = KernelTraits { cuda_cores: true, tile_rows, ..traits };
    // the registers of more rows, longer ones, or hooks leave room for two CTAs
    let few = tile_rows <= if rewrites { 1 } else { 4 } && traits.value_dim <= 128;
    let three: &[_] = if few { &[(4, 2, 3)] } else { &[] };
    let two = [(4, 3, 2), (4, 2, 2), (4, 2, 1), (2, 2, 2), (2, 2, 1), (1, 2, 1)];
    first_that_fits(traits, three.iter().chain(&two).copied()).unwrap_or(traits)
}

/// Prefill on CUDA cores: four warps share their keys, and each has eight rows, or as many as fit.
pub(super) fn cuda_core_prefill(traits: KernelTraits) -> KernelTraits {
    let tries = [4, 2, 1].into_iter().find_map(|warps| cuda_core_prefill_of(traits, warps));
    tries.unwrap_or(KernelTraits { cuda_cores: true, ..traits })
}

/// Prefill on CUDA cores with this many warps, if its tiles fit.
pub(super) fn cuda_core_prefill_of(traits: KernelTraits, warps: u32) -> Option<KernelTraits> {
    let rows = warps * if traits.value_dim > 256 { 4 } else { 8 };
    let of = |rows| KernelTraits { cuda_cores: true, tile_rows: rows, row_warps: warps, ..traits };
    let rows = [rows, rows / 2, rows / 4].into_iter().filter(|&rows| rows >= warps);
    rows.map(of).find_map(|traits| first_that_fits(traits, [(warps, 2, 2), (warps, 2, 1)].into_iter()))
}

/// The first of these numbers of warps, stages and CTAs per SM whose tiles fit shared memory.
fn first_that_fits(
    traits: KernelTraits,
    configurations: impl Iterator<Item = (u32, u32, u32)>,
) -> Option<KernelTraits> {
    // the keys of a stage: a power of two, so that lanes can share the dims of a key
    let key_bytes = KernelTraits { warp_keys: 1, ..traits }.stage_bytes();
    let wanted = (STAGE_BYTES * traits.row_warps / key_bytes).clamp(4, 32);
    let wanted = 1 << wanted.ilog2();
    let mut tries = configurations.flat_map(|(warps, stages, ctas_per_sm)| {
        let keys = [wanted, 2 * wanted, wanted / 2, 4 * wanted, wanted / 4].into_iter();
        let keys = keys.filter(|keys| (4..=32).contains(keys));
        keys.map(move |warp_keys| KernelTraits { warps, stages, ctas_per_sm, warp_keys, ..traits })
    });
    tries.find(fits)
}

fn fits(traits: &KernelTraits) -> bool {
    let bytes = traits.smem_bytes() + STATIC_BYTES;
    let (an_sm, most) = (traits.arch.max_smem() + 1024, traits.arch.min_smem());
    traits.holds_partials() && bytes <= most && traits.ctas_per_sm * (bytes + 1024) <= an_sm
}
