//! Kernel traits as CUDA constants.

use attn_core::dtype::Dtype;
use attn_core::lang::kv_format::{CodeValues, LinearCodes};

use crate::kernel_traits::{KV_PREPROCESS_THREADS, KernelTraits, MERGE_THREADS, PackedRow};

/// All constants of a kernel of one family.
pub(super) fn text(traits: &KernelTraits) -> String {
    format!("\n#line 1 \"traits\"\n{}{}\n", common(traits), family(traits))
}

/// The constants that all kernel families have.
pub(super) fn common(traits: &KernelTraits) -> String {
    let &KernelTraits { head_dim, value_dim, values_share_keys, dtypes, paged, shared_rows, row_invariant, .. } =
        traits;
    let launch = if traits.mixed.is_some() {
        format!("constexpr bool MIXED = true;\nconstexpr bool SHARED_ROWS = {shared_rows};\n")
    } else {
        FLAT.to_owned()
    };
    let rows = traits.packed.map_or(String::new(), |[keys, values]| {
        let row = |of: char, row: PackedRow, dim: u32| {
            let PackedRow { codes, side, linear } = row;
            let LinearCodes { bits, values, group } =
                linear.unwrap_or(LinearCodes { bits: 0, values: CodeValues::Unsigned, group: 0 });
            let group = if group == 0 { dim } else { group.unsigned_abs() };
            format!(
                "constexpr int {of}_CODE_BYTES = {codes};\n\
                constexpr int {of}_SIDE_BYTES = {side};\n\
                constexpr int {of}_CODE_BITS = {bits};\n\
                constexpr CodeValues {of}_CODE_VALUES = CodeValues::{};\n\
                constexpr int {of}_SCALE_GROUP = {group};\n",
                code_values(values),
            )
        };
        CODE_VALUES.to_owned() + &row('K', keys, head_dim) + &row('V', values, value_dim)
    });
    // in a mixed kernel with sm90 prefill each part has its own
    let sm90 = if traits.mixed.is_some() && traits.is_sm90_prefill() { String::new() } else { sm90_prefill(traits) };
    let named =
        |name: &str, of: Option<Dtype>| of.map_or(String::new(), |of| format!("using {name} = {};\n", elem(of)));
    let (output, queries) = (named("OutputElem", dtypes.o), named("StoredQElem", dtypes.q));
    format!(
        "using QoElem = {};\n\
        using KvElem = {};\n\
        {output}{queries}\
        constexpr int HEAD_DIM_QK = {head_dim};\n\
        constexpr int HEAD_DIM_VO = {value_dim};\n\
        constexpr bool V_SHARES_K = {values_share_keys};\n\
        constexpr bool KV_PAGED = {paged};\n\
        {sm90}\
        constexpr bool ROW_INVARIANT = {row_invariant};\n\
        {launch}{rows}",
        elem(dtypes.qo),
        elem(dtypes.kv),
    )
}

/// What codes of KV formats may stand for.
const CODE_VALUES: &str = "enum class CodeValues { UNSIGNED, SIGNED, E2M1, E4M3, LEVELS };\n";

fn code_values(values: CodeValues) -> &'static str {
    match values {
        CodeValues::Unsigned => "UNSIGNED",
        CodeValues::Signed => "SIGNED",
        CodeValues::E2m1 => "E2M1",
        CodeValues::E4m3 => "E4M3",
        CodeValues::Levels => "LEVELS",
    }
}

/// Whether the kernel, or the part of a mixed kernel, is sm90 prefill.
pub(super) fn sm90_prefill(traits: &KernelTraits) -> String {
    format!("constexpr bool SM90_PREFILL = {};\n", traits.is_sm90_prefill())
}

/// The constants of every kernel that is not mixed.
pub(super) const FLAT: &str = "constexpr bool MIXED = false;\nconstexpr bool SHARED_ROWS = false;\n";

/// The constants that depend on the kernel family.
pub(super) fn family(traits: &KernelTraits) -> String {
    let &KernelTraits { preprocess_keys, preprocess_values, .. } = traits;
    let &KernelTraits {
        tile_rows,
        tile_keys,
        warps,
        producer_warps,
        column_warps,
        row_warps,
        stages,
        warp_keys,
        ctas_per_sm,
        ..
    } = traits;
    let rows = traits.packed.map_or(String::new(), |rows| {
        let dims = [traits.head_dim, traits.value_dim];
        let widened = [preprocess_keys || traits.widened_keys, preprocess_values || traits.widened_values];
        let operands = |part: usize, of| {
            let in_registers = !traits.cuda_cores && !traits.values_share_keys && !widened[part];
            let linear = in_registers && rows[part].multiplies_codes(dims[part], tile_rows);
            let fragment = in_registers && !linear;
            format!("constexpr bool LINEAR_{of} = {linear};\nconstexpr bool FRAGMENT_{of} = {fragment};\n")
        };
        operands(0, "KEYS") + &operands(1, "VALUES")
    });
    let (producer_warps, first_producer_thread) =
        if traits.is_sm90_prefill() { (producer_warps, 32 * warps) } else { (warps, 0) };
    let outputs = if traits.is_sm90_prefill() {
        format!(
            "constexpr int SMEM_O_BYTES = {};\nconstexpr int Q_STAGES = {};\n",
            traits.output_bytes(),
            // of a warpgroup each where keys stay
            traits.query_stages() * if traits.resident { traits.warps / 4 } else { 1 }
        )
    } else {
        String::new()
    };
    format!(
        "constexpr int TILE_ROWS = {tile_rows};\n\
        constexpr int TILE_KEYS = {tile_keys};\n\
        constexpr int WARPS = {warps};\n\
        constexpr int PRODUCER_WARPS = {producer_warps};\n\
        constexpr int FIRST_PRODUCER_THREAD = {first_producer_thread};\n\
        constexpr int COLUMN_WARPS = {column_warps};\n\
        constexpr int ROW_WARPS = {row_warps};\n\
        constexpr int STAGES = {stages};\n\
        constexpr int WARP_KEYS = {warp_keys};\n\
        constexpr int CTAS_PER_SM = {ctas_per_sm};\n\
        constexpr int STEP_KEYS = {};\n\
        constexpr bool K_PREPROCESSED = {preprocess_keys};\n\
        constexpr bool V_PREPROCESSED = {preprocess_values};\n\
        {outputs}{rows}",
        traits.step_keys(),
    )
}

/// Assertions that the host and the template compute the same sizes.
pub(super) fn checks(traits: &KernelTraits) -> String {
    let mut checks = String::from("\n#line 1 \"checks\"\n");
    let mut check = |what: &str, value: u32| {
        checks += &format!("static_assert({what} == {value}, \"kernel_traits.rs and the template agree\");\n");
    };
    check("SMEM_BYTES", traits.smem_bytes());
    let part = if traits.mixed.is_some() { "prefill::" } else { "" };
    if !traits.merges_in_kernel() {
        check(&format!("{part}MERGE_THREADS"), MERGE_THREADS);
    }
    if traits.has_kv_preprocess() {
        check(&format!("{part}KV_PREPROCESS_KEYS"), traits.kv_preprocess_keys());
        check(&format!("{part}KV_PREPROCESS_HEADS"), traits.kv_preprocess_heads());
        check(&format!("{part}KV_PREPROCESS_THREADS"), KV_PREPROCESS_THREADS);
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
        Dtype::U8 => "packed_byte",
    }
}
