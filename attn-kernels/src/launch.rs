//! The ABI between host and kernels, structs that are kernel parameters; grids.

mod abi;
mod cascade_plan_abi;
mod fast_div;
mod head_order;
mod headers;
mod indexer_abi;
mod kv_boxes;
mod merging;
mod mixed_plan_abi;
mod op_abi;
mod plan_abi;
mod planner_scratch;
mod preprocessing;
mod sampling_abi;
mod verify_abi;
mod waves;

pub use abi::{KernelParams, KvSides, MixedParams, PackedMixedParams, PackedParams, Sm90Params, Strided, TensorMap};
pub use cascade_plan_abi::{CascadePlanParams, LevelTables, MAX_DEVICE_LEVELS};
pub use fast_div::FastDiv;
pub use head_order::HeadOrder;
pub(crate) use headers::HEADERS;
pub use indexer_abi::{IndexScoresParams, SCORE_UNIT, SELECT_THREADS, SelectParams};
pub use kv_boxes::box_rows;
pub use merging::{MERGE_THREADS, merge_grid};
pub use mixed_plan_abi::MixedPlanParams;
pub use op_abi::{
    BitsParams, COPY_INLINE, CopyParams, CopyPart, MergeParams, MergeStates, OP_THREADS, PackedRowsParams,
    RotateAppendParams, RowTiling, RowsParams, RowsPart, ScaleLseParams, TensorRowsParams, XPackedParams, XPackedPart,
};
pub use plan_abi::{PLAN_STATUS_BYTES, PlanParams, PlanStatus};
pub use planner_scratch::{PLAN_SHARED_BYTES, PlannerScratch};
pub use preprocessing::KV_PREPROCESS_THREADS;
pub use sampling_abi::{SAMPLE_CLUSTER, SAMPLE_THREADS, SampleParams, sample_shared_bytes, sample_smem};
pub use verify_abi::{
    CHAIN_SHARED_BYTES, TREE_ARRAYS, VERIFY_CLUSTER, VERIFY_THREADS, VerifyChainParams, VerifyTreeParams,
    tree_shared_bytes,
};
pub use waves::Waves;
