//! Kernel traits: the compile-time constants of one kernel, tile sizes among them.

mod common;
mod error;
mod facts;
mod kernels;
mod mixed;
mod request;
mod worker_tiles;

use attn_core::spec::{ComputeType, KernelKind};

use crate::cost::CostKey;
use mixed::Parts;

pub(crate) use common::row_lanes;
pub use common::{CommonTraits, PackedRow};
pub use error::KernelTraitsError;
pub use facts::Facts;
pub use kernels::prefill_sm90_resident::{RESIDENT_Q_TILES, resident_tile_rows};
pub use request::{DTYPES, KernelTraitsRequest, head_dims_are_supported};

/// The compile-time constants of a kernel. They are spliced in front of its template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTraits {
    /// What all kernels have.
    pub common: CommonTraits,
    facts: Facts,
    /// Of a mixed kernel.
    parts: Option<Parts>,
}

impl KernelTraits {
    /// Chooses the kernel for a problem, with the tiles that measured best on an H200, or smaller ones that fit.
    ///
    /// # Errors
    ///
    /// [`KernelTraitsError`] names the unsupported sizes or types, and the supported ones.
    pub fn choose(request: &KernelTraitsRequest) -> Result<Self, KernelTraitsError> {
        let common = request.common()?;
        let &KernelTraitsRequest { kind, head_dim, dtypes, prefill, compute_type, arch, .. } = request;
        let chosen = match kind {
            KernelKind::Mixed => Parts::choose(request, &common).map(|parts| (parts.facts(), Some(parts))),
            KernelKind::Decode | KernelKind::Prefill => kernels::choose(request, &common).map(|facts| (facts, None)),
        };
        let computes = chosen.and_then(|(facts, _)| facts.wgmma).unwrap_or_default();
        if kind != KernelKind::Decode && compute_type == ComputeType::E4m3 && computes != compute_type {
            return Err(KernelTraitsError::ComputeType { kind, prefill, head_dim, dtypes, arch });
        }
        // the other families run what the check lets through
        let (facts, parts) = chosen.ok_or(KernelTraitsError::Mixed { head_dim, kv: dtypes.kv, arch })?;
        let traits = KernelTraits { common, facts, parts };
        let (bytes, available) = (traits.smem_bytes() + common::STATIC_BYTES, arch.min_smem());
        if bytes > available {
            let value_dim = common.value_dim;
            return Err(KernelTraitsError::SharedMemory { kind, head_dim, value_dim, arch, bytes, available });
        }
        Ok(traits)
    }

    /// Rows of the largest decode Q tile of a mixed kernel for a problem, whatever its kind and group; those of the
    /// largest decode tile where there is no mixed kernel.
    pub fn max_mixed_rows(request: &KernelTraitsRequest) -> u32 {
        let max = request.max_decode_rows();
        let exists =
            |group| KernelTraits::choose(&KernelTraitsRequest { kind: KernelKind::Mixed, group, ..*request }).is_ok();
        if max > 8 && !exists(max) && exists(8) { 8 } else { max }
    }

    /// What the kernel states of itself; a mixed one mostly of its prefill part.
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// The kernel family.
    pub fn kind(&self) -> KernelKind {
        self.facts.kind
    }

    /// The traits of the decode part of a mixed kernel, with one CTA per SM; for other kernels the traits themselves.
    #[must_use]
    pub fn decode_part(&self) -> Self {
        self.parts.map_or(*self, |parts| KernelTraits { facts: parts.decode, parts: None, ..*self })
    }

    /// The traits of the prefill part of a mixed kernel; for other kernels the traits themselves.
    #[must_use]
    pub fn prefill_part(&self) -> Self {
        self.parts.map_or(*self, |parts| KernelTraits { facts: parts.prefill, parts: None, ..*self })
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        32 * (self.facts.warps + self.facts.producer_warps)
    }

    /// Dynamic shared memory of a CTA, in bytes (`SMEM_BYTES` in CUDA).
    pub fn smem_bytes(&self) -> u32 {
        self.facts.smem_bytes
    }

    /// Keys of one mainloop step, of decode in a mixed kernel. KV splits are best cut at multiples of it.
    pub fn step_keys(&self) -> u32 {
        self.decode_part().facts().step_keys()
    }

    /// Whether this is an sm90 prefill kernel, or a mixed kernel with it.
    pub fn is_sm90_prefill(&self) -> bool {
        self.facts.wgmma.is_some()
    }

    /// Mixed: whether a work item may have rows of several requests that share a prefix, and keys are in segments.
    pub fn shared_rows(&self) -> bool {
        self.parts.is_some_and(|parts| parts.shared_rows)
    }

    /// What its measured costs depend on.
    pub fn cost_key(&self) -> CostKey {
        let (common, facts) = (self.common, self.facts);
        let CommonTraits { head_dim, value_dim, dtypes, packed, arch, .. } = common;
        let stored_bits = (8 * common.key_bytes()).div_ceil(head_dim);
        let (kv_bits, kv_bytes) = if self.decodes_keys() {
            (16, 2 * head_dim) // multiplied as f16
        } else if common.values_share_keys && facts.cost.is_decode() {
            // elements of shared rows are operands twice; lanes decode those of KV formats
            let element = if packed.is_some() { 4 } else { dtypes.kv.size() as u32 };
            (stored_bits, element * (head_dim + value_dim))
        } else {
            (stored_bits, common.key_bytes() + common.value_bytes())
        };
        CostKey {
            kernel: facts.cost,
            arch,
            rows: facts.cta_rows(),
            kv_bits,
            head_dim: (head_dim + value_dim) / 2,
            kv_bytes,
            // on mma.sync each of the warps that share rows multiplies Q with all keys
            row_products: head_dim * if facts.wgmma.is_some() { 1 } else { facts.column_warps } + value_dim,
            ctas_per_sm: facts.ctas_per_sm,
        }
    }
}

#[cfg(test)]
mod tests;
