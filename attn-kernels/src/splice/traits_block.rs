//! Kernel traits as CUDA constants.

use attn_core::dtype::Dtype;
use attn_core::lang::kv_format::{CodeValues, LinearCodes};
use attn_core::spec::{ComputeType, KernelKind};

use crate::kernel_traits::{CommonTraits, Facts, KernelTraits, PackedRow};
use crate::launch::{KV_PREPROCESS_THREADS, MERGE_THREADS};

/// All constants of a kernel of one family.
pub(super) fn text(traits: &KernelTraits) -> String {
    format!("\n#line 1 \"traits\"\n{}{}\n", common(traits), family(traits, traits.facts().tile_keys))
}

/// The constants that all kernel families have.
pub(super) fn common(traits: &KernelTraits) -> String {
    let &CommonTraits { head_dim, value_dim, values_share_keys, dtypes, paged, row_invariant, packed, .. } =
        &traits.common;
    let (is_mixed, shared_rows) = (traits.kind() == KernelKind::Mixed, traits.shared_rows());
    let launch = if is_mixed {
        let decode_rows = traits.decode_part().facts().cta_rows();
        format!(
            "constexpr bool MIXED = true;\nconstexpr bool SHARED_ROWS = {shared_rows};\n\
            constexpr int DECODE_ROWS = {decode_rows};\n"
        )
    } else {
        FLAT.to_owned()
    };
    let rows = packed.map_or(String::new(), |[keys, values]| {
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
    let sm90 = if is_mixed && traits.is_sm90_prefill() { String::new() } else { sm90_prefill(traits) };
    let named =
        |name: &str, of: Option<Dtype>| of.map_or(String::new(), |of| format!("using {name} = {};\n", elem(of)));
    // the number of a Q tile's partials depends on its rows, and the order of a row's partials must not
    let row_invariant_merge = row_invariant && traits.kind() == KernelKind::Prefill;
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
        constexpr bool ROW_INVARIANT_MERGE = {row_invariant_merge};\n\
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

/// Whether the kernel, or the part of a mixed kernel, is sm90 prefill, and leaves KV tiles out.
pub(super) fn sm90_prefill(traits: &KernelTraits) -> String {
    let (is_sm90, skips) = (traits.is_sm90_prefill(), traits.facts().skips_tiles);
    format!("constexpr bool SM90_PREFILL = {is_sm90};\nconstexpr bool SKIP_SOFTMAX = {skips};\n")
}

/// The constants of every kernel that is not mixed.
pub(super) const FLAT: &str =
    "constexpr bool MIXED = false;\nconstexpr bool SHARED_ROWS = false;\nconstexpr int DECODE_ROWS = 0;\n";

/// The constants that depend on the kernel family. A mixed kernel names the keys of its KV tile in both parts.
pub(super) fn family(traits: &KernelTraits, tile_keys: u32) -> String {
    let (common, facts) = (&traits.common, traits.facts());
    let Facts { cluster_ctas, warps, column_warps, row_warps, stages, warp_keys, ctas_per_sm, .. } = facts;
    let (tile_rows, [keys, values]) = (facts.cta_rows(), facts.preprocessed);
    let rows = common.packed.map_or(String::new(), |rows| {
        let dims = [common.head_dim, common.value_dim];
        let decodes = facts.has_workers && !facts.on_cuda_cores && !common.values_share_keys;
        let operands = |part: usize, of| {
            // whether rows become MMA operands in registers, and not in shared memory
            let in_registers = decodes && !facts.widened[part];
            let linear = in_registers && rows[part].multiplies_codes(dims[part], tile_rows);
            let fragment = in_registers && !linear;
            format!("constexpr bool LINEAR_{of} = {linear};\nconstexpr bool FRAGMENT_{of} = {fragment};\n")
        };
        operands(0, "KEYS") + &operands(1, "VALUES")
    });
    let (producer_warps, first_producer_thread) =
        if facts.producer_warps > 0 { (facts.producer_warps, 32 * warps) } else { (warps, 0) };
    let e4m3_compute = facts.wgmma == Some(ComputeType::E4m3);
    let own = if facts.wgmma.is_some() { of_sm90(&facts) } else { String::new() };
    format!(
        "constexpr int TILE_ROWS = {tile_rows};\n\
        constexpr int CLUSTER_CTAS = {cluster_ctas};\n\
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
        constexpr bool K_PREPROCESSED = {keys};\n\
        constexpr bool V_PREPROCESSED = {values};\n\
        constexpr bool E4M3_COMPUTE = {e4m3_compute};\n\
        {own}{rows}",
        facts.step_keys(),
    )
}

/// Where O and Q of sm90 prefill are.
fn of_sm90(facts: &Facts) -> String {
    let &Facts { smem_o_bytes, q_stages, special, cluster_ctas, .. } = facts;
    format!(
        "#define CLUSTER_SIZE {cluster_ctas}\n\
        constexpr int SMEM_O_BYTES = {smem_o_bytes};\n\
        constexpr int Q_STAGES = {q_stages};\n\
        constexpr bool RESIDENT_KEYS = {};\n",
        special.is_some()
    )
}

/// Assertions that the host and the template compute the same sizes.
pub(super) fn checks(traits: &KernelTraits) -> String {
    let mut checks = String::from("\n#line 1 \"checks\"\n");
    let mut check = |what: &str, value: u32| {
        checks += &format!("static_assert({what} == {value}, \"kernel_traits.rs and the template agree\");\n");
    };
    check("SMEM_BYTES", traits.smem_bytes());
    let part = if traits.kind() == KernelKind::Mixed { "prefill::" } else { "" };
    if !traits.facts().has_workers {
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
