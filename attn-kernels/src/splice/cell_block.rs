//! The constants of a cell, as CUDA.

use attn_core::dtype::Dtype;

use crate::cell::{Cell, KV_PASS_THREADS, MERGE_THREADS};

/// The block of constants that templates read.
pub(super) fn text(cell: &Cell) -> String {
    format!("\n#line 1 \"cell\"\n{}{}\n", common(cell), family(cell))
}

/// Those that no family has to itself.
pub(super) fn common(cell: &Cell) -> String {
    let &Cell { head_dim, value_dim, values_of_keys, dtypes, paged, shared_rows, .. } = cell;
    let launch = if cell.mixed.is_some() {
        format!("constexpr bool MIXED = true;\nconstexpr bool SHARED_ROWS = {shared_rows};\n")
    } else {
        FLAT.to_owned()
    };
    format!(
        "using QoElem = {};\n\
        using KvElem = {};\n\
        constexpr int HEAD_DIM = {head_dim};\n\
        constexpr int VALUE_DIM = {value_dim};\n\
        constexpr bool VALUES_OF_KEYS = {values_of_keys};\n\
        constexpr bool KV_PAGED = {paged};\n\
        constexpr bool IN_WARPGROUPS = {};\n\
        {launch}",
        elem(dtypes.qo),
        elem(dtypes.kv),
        cell.in_warpgroups(),
    )
}

/// Of every launch but a mixed one.
pub(super) const FLAT: &str = "constexpr bool MIXED = false;\nconstexpr bool SHARED_ROWS = false;\n";

/// Those of the kernel family.
pub(super) fn family(cell: &Cell) -> String {
    let &Cell { key_pre_pass, value_pre_pass, .. } = cell;
    let &Cell { tile_rows, tile_keys, warps, copy_warps, column_warps, stages, warp_keys, ctas_per_sm, .. } = cell;
    let (copy_warps, first_copy_thread) = if cell.in_warpgroups() { (copy_warps, 32 * warps) } else { (warps, 0) };
    let outputs = if cell.in_warpgroups() {
        format!(
            "constexpr int OUTPUT_BYTES = {};\nconstexpr int QUERY_STAGES = {};\n",
            cell.output_bytes(),
            cell.query_stages()
        )
    } else {
        String::new()
    };
    format!(
        "constexpr int TILE_ROWS = {tile_rows};\n\
        constexpr int TILE_KEYS = {tile_keys};\n\
        constexpr int WARPS = {warps};\n\
        constexpr int COPY_WARPS = {copy_warps};\n\
        constexpr int FIRST_COPY_THREAD = {first_copy_thread};\n\
        constexpr int COLUMN_WARPS = {column_warps};\n\
        constexpr int STAGES = {stages};\n\
        constexpr int WARP_KEYS = {warp_keys};\n\
        constexpr int CTAS_PER_SM = {ctas_per_sm};\n\
        constexpr int STEP_KEYS = {};\n\
        constexpr bool KEY_PRE_PASS = {key_pre_pass};\n\
        constexpr bool VALUE_PRE_PASS = {value_pre_pass};\n\
        {outputs}",
        cell.step_keys(),
    )
}

/// What host and template must agree on.
pub(super) fn checks(cell: &Cell) -> String {
    let mut checks = String::from("\n#line 1 \"checks\"\n");
    let mut check = |what: &str, value: u32| {
        checks += &format!("static_assert({what} == {value}, \"cell.rs and the template agree\");\n");
    };
    check("SMEM_BYTES", cell.smem_bytes());
    let part = if cell.mixed.is_some() { "prefill::" } else { "" };
    if !cell.merges_within() {
        check(&format!("{part}MERGE_THREADS"), MERGE_THREADS);
    }
    if cell.has_kv_pass() {
        check(&format!("{part}KV_PASS_KEYS"), cell.kv_pass_keys());
        check(&format!("{part}KV_PASS_HEADS"), cell.kv_pass_heads());
        check(&format!("{part}KV_PASS_THREADS"), KV_PASS_THREADS);
    }
    checks
}

pub(super) fn elem(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bf16 => "bf16",
        Dtype::F16 => "f16",
        Dtype::F32 => "float",
        Dtype::E4m3 => "e4m3",
        Dtype::E5m2 => "e5m2",
    }
}
