//! The shared memory that a kernel's tiles take.

use attn_core::spec::KernelKind;

use super::{KernelTraits, PackedRow, row_lanes};

/// Upper bound of the static shared memory of the templates, in bytes: flags, and the positions of keys under a KV
/// list.
pub(super) const STATIC_BYTES: u32 = 128;

/// Upper bound of the shared memory that sm90 prefill takes beside its tiles, in bytes: mbarriers and work tiles.
pub(super) const PIPELINE_STATE_BYTES: u32 = 512;

/// Elements of a row of prefill's tiles, which consist of panels of 64 elements.
pub(super) fn panels(dim: u32) -> u32 {
    dim.next_multiple_of(64)
}

/// Bytes from row to row of decode's tiles; the same as in `memory/row_tile.cuh`.
fn row_pitch(bytes: u32) -> u32 {
    if bytes > 128 { bytes.next_multiple_of(128) } else { bytes.next_power_of_two().max(16) }
}

impl KernelTraits {
    /// Bytes of the O tile in shared memory, if it has its own; 0 if it reuses the memory of Q.
    pub(crate) fn output_bytes(&self) -> u32 {
        let bytes = 2 * self.tile_rows * panels(self.value_dim);
        if self.fits_beside_tiles(bytes) { bytes } else { 0 }
    }

    /// Q tiles that fit shared memory. With two, the producer loads the Q of the next work tile during the mainloop.
    /// One suffices for e4m3 compute, whose consumers keep Q in registers.
    pub(crate) fn query_stages(&self) -> u32 {
        if self.e4m3_compute {
            return 1;
        }
        let (outputs, queries) = (self.output_bytes(), 2 * self.tile_rows * panels(self.head_dim));
        if outputs > 0 && self.fits_beside_tiles(outputs + queries) { 2 } else { 1 }
    }

    /// Whether `bytes` of shared memory are left beside the tiles of sm90 prefill.
    fn fits_beside_tiles(&self, bytes: u32) -> bool {
        self.is_sm90_prefill() && self.tile_bytes() + bytes + PIPELINE_STATE_BYTES <= self.arch.max_smem()
    }

    /// Bytes of prefill's K/V stages and of one Q tile.
    fn tile_bytes(&self) -> u32 {
        let (keys, values) = (panels(self.head_dim), if self.values_share_keys { 0 } else { panels(self.value_dim) });
        // pairs of e4m3; values are transposed, with eight rows of ones
        let stage = match self.e4m3_compute {
            true => self.tile_keys * panels(self.head_dim / 2) + (self.value_dim + 8) * panels(self.tile_keys / 2),
            false => self.tile_keys * (keys + values),
        };
        // WGMMA operands with a 128-byte swizzle are aligned to 1024 bytes
        let slack = if self.is_sm90_prefill() { 1024 } else { 0 };
        slack + 2 * (self.tile_rows * keys + self.stages * stage)
    }

    /// Decode and CUDA cores: bytes of the keys and values of a warp in one pipeline stage.
    pub(super) fn stage_bytes(&self) -> u32 {
        let size = self.dtypes.kv.size() as u32;
        let dense = |dim: u32| PackedRow { codes: dim * size, side: 0, linear: None };
        let [keys, values] = self.packed.unwrap_or([dense(self.head_dim), dense(self.value_dim)]);
        let bytes = |row: PackedRow| row_pitch(row.codes) + row.side;
        let stage = self.warp_keys * (bytes(keys) + if self.values_share_keys { 0 } else { bytes(values) });
        if self.packed.is_some() { stage.next_multiple_of(128) } else { stage }
    }

    /// Decode and CUDA cores: bytes of the decoded rows of a warp, where rows of fewer bits are decoded or transformed.
    fn widened_bytes(&self) -> u32 {
        let wide = self.dtypes.qo.size() as u32;
        let widened = |widened, dim: u32| if widened { self.warp_keys * row_pitch(dim * wide) } else { 0 };
        widened(self.widened_keys, self.head_dim) + widened(self.widened_values, self.value_dim)
    }

    /// Decode and CUDA cores: whether the partial states of a warp fit the memory that they reuse: a stage, or the
    /// decoded rows of a KV format.
    pub(super) fn holds_partials(&self) -> bool {
        let scratch = self.stage_bytes().max(if self.packed.is_some() { self.widened_bytes() } else { 0 });
        self.tile_rows * self.value_dim.next_multiple_of(32) * 4 <= scratch
    }

    /// Dynamic shared memory of a CTA, in bytes (`SMEM_BYTES` in CUDA).
    pub fn smem_bytes(&self) -> u32 {
        match self.kind {
            _ if self.has_workers() => {
                let merge = self.threads() / row_lanes(self.value_dim) * (self.value_dim * 4 + 8);
                let queries = match self.cuda_cores {
                    // Q in f32, and the probabilities of every warp
                    true => (self.head_dim + self.key_warps() * self.warp_keys) * self.tile_rows * 4,
                    false => self.tile_rows * row_pitch(self.head_dim * 2),
                };
                let pipelines = self.key_warps() * (self.stages * self.stage_bytes() + self.widened_bytes());
                pipelines + queries.max(merge) + self.key_warps() * self.tile_rows * 8
            }
            KernelKind::Prefill | KernelKind::Decode => {
                let second_query_tile = 2 * (self.query_stages() - 1) * self.tile_rows * panels(self.head_dim);
                self.tile_bytes() + self.output_bytes() + second_query_tile
            }
            KernelKind::Mixed => self.decode_part().smem_bytes().max(self.prefill_part().smem_bytes()),
        }
    }
}
