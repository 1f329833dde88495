//! The Q tiles of decode.

use attn_core::spec::DecodeBackend;

/// The rows that a decode Q tile may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeTiles {
    /// The backend.
    pub backend: DecodeBackend,
    /// Elements of a query or key of a head.
    pub head_dim: u32,
    /// Elements of a value.
    pub value_dim: u32,
}

impl DecodeTiles {
    /// Rows of the Q tile for requests of `rows` PackGQA rows. A request with more rows takes several tiles.
    pub fn rows_for(self, rows: u32) -> u32 {
        match self.backend {
            DecodeBackend::TensorCores if rows <= 8 => 8,
            DecodeBackend::TensorCores => self.max_rows(),
            DecodeBackend::CudaCores => rows.max(1).next_power_of_two().min(self.max_rows()),
        }
    }

    /// Rows of the Q tiles that a batch with groups of `group` query heads may run: that for one query, and on CUDA
    /// cores also all smaller ones, for smaller groups.
    pub fn up_to(self, group: u32) -> Vec<u32> {
        match self.backend {
            DecodeBackend::TensorCores => vec![self.rows_for(group)],
            DecodeBackend::CudaCores => (0..4).map(|n| 1 << n).filter(|&rows| rows <= self.rows_for(group)).collect(),
        }
    }

    /// Rows of the largest Q tile.
    pub fn max_rows(self) -> u32 {
        let DecodeTiles { backend, head_dim, value_dim } = self;
        let sixteen = value_dim > 16 && value_dim <= head_dim && head_dim + 2 * value_dim <= 576;
        match backend {
            // registers hold Q and O; a K/V stage must be able to hold the partial states of all rows
            DecodeBackend::TensorCores if sixteen => 16,
            // registers hold O
            DecodeBackend::CudaCores if value_dim > 256 => 4,
            DecodeBackend::TensorCores | DecodeBackend::CudaCores => 8,
        }
    }
}
