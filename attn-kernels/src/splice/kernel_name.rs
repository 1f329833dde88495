//! The name of a kernel's unit in messages.

use attn_core::spec::KernelKind;

use crate::kernel_traits::{CommonTraits, Facts, KernelTraits, PackedRow};

impl KernelTraits {
    /// The traits in one line, such as `prefill head_dim 128 bf16 paged sm_90a`.
    pub fn describe(&self) -> String {
        let CommonTraits { head_dim, value_dim, dtypes, paged, arch, .. } = self.common;
        let (name, Facts { kind, preprocessed: [keys, values], skips_tiles, .. }) = (self.words(), self.facts());
        let layout = if paged { "paged" } else { "ragged" };
        let named = |has: bool, word: &'static str| if has { word } else { "" };
        let keys = named(keys, " key-preprocess");
        let values = named(values, " value-preprocess");
        let kv = match self.common.packed {
            Some([keys, values]) => {
                let row = |row: PackedRow| format!("{}+{}", row.codes, row.side);
                format!(" over rows of {} and {} bytes", row(keys), row(values))
            }
            None if dtypes.kv == dtypes.qo => String::new(),
            None => format!(" over {}", dtypes.kv),
        };
        let output = dtypes.o.map_or(String::new(), |o| format!(" to {o}"));
        let queries = dtypes.q.map_or(String::new(), |q| format!(" from {q}"));
        let of_keys = named(self.common.values_share_keys, " of the keys");
        let widths = if value_dim == head_dim { String::new() } else { format!(" values {value_dim}{of_keys}") };
        let invariant = named(self.common.row_invariant, " row-invariant");
        let skips = named(skips_tiles, " skip-softmax");
        let rows = format!("{kind} head_dim {head_dim}{widths} {}{queries}{kv}{output} {layout}", dtypes.qo);
        format!("{rows}{keys}{values}{name}{invariant}{skips} {arch}")
    }

    /// What tells the kernel from the others of its family, each word after a space.
    pub(crate) fn words(&self) -> String {
        let Facts { kind, has_workers, tile_rows, name, .. } = self.facts();
        if kind != KernelKind::Mixed {
            return if has_workers { format!(" rows {tile_rows}{name}") } else { name.to_owned() };
        }
        let (decode, prefill) = (self.decode_part().facts(), self.prefill_part().facts());
        let shared = if self.shared_rows() { " shared" } else { "" };
        let cuda_cores = match (prefill.on_cuda_cores, decode.on_cuda_cores) {
            (false, false) => "",
            (false, true) => " cuda-cores decode",
            (true, false) => " cuda-cores prefill",
            (true, true) => " cuda-cores",
        };
        let wgmma = if self.is_sm90_prefill() { " wgmma" } else { "" };
        format!(" rows {}{shared}{cuda_cores}{wgmma}", decode.tile_rows)
    }
}
