//! Plan rules for tests of plans that are made on the device.

use attn_core::plan::{CascadeCosts, Cost, ListRule, MixedRule, PlanRule, Schedule};

/// The plan rule of decode on an H200 with 8 KV heads.
pub(crate) const DECODE: PlanRule = PlanRule {
    tile_rows: 8,
    kv_align: 64,
    min_span: 128,
    workers: 33,
    cost: Cost { item: 1000, block: 2000, merge: 100 },
    schedule: Schedule::StreamK,
};

/// The rule of prefill beside it, with shorter tiles.
pub(crate) const PREFILL: PlanRule = PlanRule {
    tile_rows: 40,
    kv_align: 128,
    min_span: 256,
    cost: Cost { item: 2400, block: 1550, merge: 100 },
    schedule: Schedule::LongestFirst,
    ..DECODE
};

/// A mixed rule. Devices have as many workers for both parts; here they may differ.
pub(crate) fn mixed(decode: PlanRule, prefill: PlanRule, own_sms: bool, cascade: CascadeCosts) -> ListRule {
    ListRule::Mixed(MixedRule {
        decode: PlanRule { schedule: Schedule::StreamK, ..decode },
        prefill: PlanRule { schedule: Schedule::LongestFirst, ..prefill },
        co_run_workers: decode.workers.div_ceil(2),
        own_sms,
        cascade,
    })
}
