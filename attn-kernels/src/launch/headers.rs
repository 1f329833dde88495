//! The CUDA headers with the structs that are parameters of kernels.

use std::sync::LazyLock;

use attn_core::batch::KvSegment;
use attn_core::headers::CudaStruct;
use attn_core::plan::{MergeItem, WorkItem, WorkerStart};

use super::{
    BitsParams, CascadePlanParams, CopyParams, CopyPart, FastDiv, IndexScoresParams, KernelParams, KvSides,
    LevelTables, MergeParams, MergeStates, MixedParams, MixedPlanParams, PackedMixedParams, PackedParams,
    PackedRowsParams, PlanParams, PlanStatus, RotateAppendParams, RowTiling, RowsParams, RowsPart, SampleParams,
    ScaleLseParams, SelectParams, Sm90Params, Strided, TensorMap, TensorRowsParams, VerifyChainParams,
    VerifyTreeParams, XPackedParams, XPackedPart,
};

/// A struct, and what kernels and host must agree on.
pub(crate) struct Struct {
    name: &'static str,
    text: &'static str,
    size: usize,
    #[cfg(test)]
    fields: &'static [(&'static str, usize)],
}

const fn of<T: CudaStruct>() -> Struct {
    Struct {
        name: T::NAME,
        text: T::TEXT,
        size: size_of::<T>(),
        #[cfg(test)]
        fields: T::FIELDS,
    }
}

/// The name of each header in `#include`, and its structs in order.
const STRUCTS: &[(&str, &[Struct])] = &[
    (
        "abi/structs.cuh",
        &[
            of::<WorkItem>(),
            of::<MergeItem>(),
            of::<WorkerStart>(),
            of::<KvSegment>(),
            of::<Strided>(),
            of::<FastDiv>(),
            of::<KernelParams>(),
            of::<MixedParams>(),
            of::<TensorMap>(),
            of::<Sm90Params>(),
        ],
    ),
    ("abi/packed_params.cuh", &[of::<KvSides>(), of::<PackedParams>(), of::<PackedMixedParams>()]),
    ("planner/structs.cuh", &[of::<PlanStatus>(), of::<PlanParams>(), of::<MixedPlanParams>()]),
    ("planner/cascade_structs.cuh", &[of::<LevelTables>(), of::<CascadePlanParams>()]),
    ("ops/row_tiling.cuh", &[of::<RowTiling>()]),
    ("ops/merge_params.cuh", &[of::<MergeStates>(), of::<MergeParams>()]),
    ("ops/lse_params.cuh", &[of::<ScaleLseParams>()]),
    ("ops/rows_params.cuh", &[of::<RowsPart>(), of::<RowsParams>()]),
    ("ops/packed_rows_params.cuh", &[of::<PackedRowsParams>()]),
    ("ops/rotate_append_params.cuh", &[of::<RotateAppendParams>()]),
    ("ops/copy_params.cuh", &[of::<CopyPart>(), of::<CopyParams>()]),
    ("ops/x_packed_params.cuh", &[of::<XPackedPart>(), of::<XPackedParams>()]),
    ("ops/bits_params.cuh", &[of::<BitsParams>()]),
    ("ops/tensor_rows_params.cuh", &[of::<TensorRowsParams>()]),
    ("select/scores_params.cuh", &[of::<IndexScoresParams>()]),
    ("select/params.cuh", &[of::<SelectParams>()]),
    ("sampling/params.cuh", &[of::<SampleParams>()]),
    ("sampling/verify_params.cuh", &[of::<VerifyChainParams>(), of::<VerifyTreeParams>()]),
];

/// The name and the text of each header. Sizes are asserted.
pub(crate) static HEADERS: LazyLock<Vec<(&str, String)>> = LazyLock::new(|| {
    let text = |structs: &[Struct]| -> String {
        let each = structs.iter().map(|Struct { name, text, size, .. }| {
            format!("\n{text}static_assert(sizeof({name}) == {size}, \"host and device agree\");\n")
        });
        each.collect()
    };
    STRUCTS.iter().map(|(name, structs)| (*name, format!("\n#line 1 \"{name}\"{}", text(structs)))).collect()
});

#[cfg(test)]
mod tests {
    use attn_needs::{Need, needed};

    use super::*;

    /// Compiles assertions about every offset, with the headers themselves.
    #[cfg(feature = "jit")]
    #[test]
    fn offsets_are_those_of_the_host() {
        let Some(nvrtc) = needed(Need::Nvrtc, crate::compile::nvrtc::Nvrtc::find()) else { return };
        let mut unit: String = HEADERS.iter().map(|(_, text)| text.as_str()).collect();
        for Struct { name, fields, .. } in STRUCTS.iter().flat_map(|(_, structs)| *structs) {
            for (field, offset) in *fields {
                let at = format!("__INTADDR__(&(({name}*)0)->{field})");
                unit += &format!("static_assert({at} == {offset}, \"{name}::{field}\");\n");
            }
        }
        let compiler = crate::compile::Compiler::Nvrtc(nvrtc);
        let arch = crate::compile::Arch::new(8, 0);
        compiler.compile("abi", &unit, arch).expect("the structs have the offsets of the host");
        let wrong = unit + "static_assert(sizeof(KernelParams) == 1, \"\");";
        compiler.compile("abi", &wrong, arch).expect_err("assertions are compiled");
    }
}
