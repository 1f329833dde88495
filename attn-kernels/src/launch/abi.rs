//! The structs of `cuda/abi/kernel_params.cuh`, field by field. Work items and merges are in [`attn_core::plan`].

use bytemuck::{Pod, Zeroable};

use super::FastDiv;

/// A strided tensor of shape (token or slot, head, dim) on the device, with contiguous dim, or a pool of pages that
/// each hold such a tensor. Strides count elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs)] // as in abi/kernel_params.cuh
pub struct Strided {
    pub data: u64,
    pub token: i64,
    pub head: i64,
    pub page: i64,
}

/// The first parameter of every attention kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs)] // as in abi/kernel_params.cuh
pub struct KernelParams {
    pub q: Strided,
    pub k: Strided,
    pub v: Strided,
    pub o: Strided,
    pub k_pre: Strided,
    pub v_pre: Strided,
    pub lse: u64,
    pub lse_token: i64,
    pub lse_head: i64,
    pub k_scales: u64,
    pub v_scales: u64,
    pub qo_indptr: u64,
    pub kv_indptr: u64,
    pub page_indptr: u64,
    pub page_indices: u64,
    pub items: u64,
    pub merges: u64,
    pub workers: u64,
    pub split_semaphores: u64,
    pub partial_o: u64,
    pub partial_md: u64,
    pub group: FastDiv,
    pub page_size: FastDiv,
    pub list_block: FastDiv,
    pub batch: i32,
    pub kv_heads: i32,
    pub read_once: i32,
    pub sm_scale: f32,
    pub k_scale: f32,
    pub v_scale: f32,
    pub partial_output: i32,
}

/// The first parameter of the kernels of a mixed launch. Its `items` are those of the decode part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs)] // as in abi/kernel_params.cuh
pub struct MixedParams {
    pub base: KernelParams,
    pub prefill: u64,
    pub merge_parts: u64,
    pub request_of_query: u64,
    pub segment_ends: u64,
    pub segments: u64,
    pub decode_ctas: i32,
    pub prefill_items: i32,
    pub segment_count: i32,
    pub wave: i32,
    pub wave_decodes: i32,
    pub pad: i32,
}

/// A TMA tensor map (`CUtensorMap`), which the driver encodes.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub struct TensorMap {
    /// Opaque.
    pub words: [u64; 16],
}

/// The third parameter of sm90 prefill.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs)] // as in abi/kernel_params.cuh
pub struct Sm90Params {
    pub k: TensorMap,
    pub v: TensorMap,
    pub q: TensorMap,
    pub o: TensorMap,
    pub box_rows: i32,
    pub items: i32,
    pub heads: i32,
    pub use_tma_q: i32,
    pub use_tma_o: i32,
    pub pad: [i32; 11],
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use std::mem::offset_of;

    use attn_core::plan::{KvSegment, MergeItem, WorkItem, WorkerStart};

    use super::*;

    /// Compiles assertions about every size and offset, with the header itself.
    #[cfg(feature = "jit")]
    #[test]
    fn the_mirror_is_exact() {
        let Ok(nvrtc) = crate::compile::nvrtc::Nvrtc::find() else {
            eprintln!("SKIPPED: no NVRTC found (cargo xtask test fetches it)");
            return;
        };
        let mut checks = String::new();
        macro_rules! mirror {
            ($cuda:literal, $rust:ty { $($field:ident),* }) => {
                checks += &format!("static_assert(sizeof({}) == {}, \"size\");\n", $cuda, size_of::<$rust>());
                $(
                    checks += &format!(
                        "static_assert(__INTADDR__(&(({}*)0)->{}) == {}, \"offset\");\n",
                        $cuda, stringify!($field), offset_of!($rust, $field)
                    );
                )*
            };
        }
        mirror!("Strided", Strided { data, token, head, page });
        mirror!("FastDiv", FastDiv { divisor, magic, shift });
        mirror!(
            "WorkItem",
            WorkItem {
                request,
                requests,
                first_row,
                rows,
                kv_begin,
                kv_end,
                kv_first,
                memory,
                pass,
                full,
                partial,
                merge,
                qo_token,
                qo_len,
                kv_token,
                kv_len
            }
        );
        mirror!("WorkerStart", WorkerStart { first, end, item });
        mirror!("KvSegment", KvSegment { request, kv_begin, keys, memory, pass, kv_token, kv_len });
        mirror!(
            "MixedParams",
            MixedParams {
                prefill,
                merge_parts,
                request_of_query,
                segment_ends,
                segments,
                decode_ctas,
                prefill_items,
                segment_count,
                wave,
                wave_decodes,
                pad
            }
        );
        mirror!("TensorMap", TensorMap { words });
        mirror!("Sm90Params", Sm90Params { k, v, q, o, box_rows, items, heads, use_tma_q, use_tma_o });
        mirror!("MergeItem", MergeItem { request, first_row, rows, first, count, qo_token, qo_len, kv_len });
        mirror!(
            "KernelParams",
            KernelParams {
                q,
                k,
                v,
                o,
                k_pre,
                v_pre,
                lse,
                lse_token,
                lse_head,
                k_scales,
                v_scales,
                qo_indptr,
                kv_indptr,
                page_indptr,
                page_indices,
                items,
                merges,
                workers,
                split_semaphores,
                partial_o,
                partial_md,
                group,
                page_size,
                list_block,
                batch,
                kv_heads,
                read_once,
                sm_scale,
                k_scale,
                v_scale,
                partial_output
            }
        );
        let unit = include_str!("../../cuda/abi/kernel_params.cuh").replace("#pragma once", "") + &checks;
        let compiler = crate::compile::Compiler::Nvrtc(nvrtc);
        compiler.compile("abi", &unit, crate::compile::Arch::new(8, 0)).expect("abi.rs mirrors abi/kernel_params.cuh");
        let wrong = unit + "static_assert(sizeof(KernelParams) == 1, \"\");";
        compiler.compile("abi", &wrong, crate::compile::Arch::new(8, 0)).expect_err("assertions are compiled");
    }
}
