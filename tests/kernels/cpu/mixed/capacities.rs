//! Batches within a capacity fit the plan, and its blob holds their lists.

use std::ops::Range;

use attn_core::Variant;
use attn_core::batch::{BatchCapacity, KvSegment, Layout, PagePool};
use attn_core::plan::{
    CascadeCosts, CascadePolicy, MergeItem, MixedRule, PlanBlob, PlanCapacity, WorkItem, WorkList, WorkerStart,
};
use attn_core::spec::Heads;
use proptest::prelude::*;

use super::super::cascade::{Keys, cascades, crowds};
use super::{Parts as _, rules};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The lists of a cascade, of its batch without levels, and of any other batch within the capacity fit the plan.
    #[test]
    fn every_cascade_within_a_capacity_fits_the_plan(
        cascades in prop::collection::vec(prop_oneof![cascades(), crowds()], 2), group in 1u32..20, rule in rules(),
        over in any::<bool>(),
    ) {
        let heads = Heads { qo: group, kv: 1, head_dim: 1 };
        let keys: Vec<Keys> = cascades.iter().map(|cascade| cascade.keys(heads)).collect();
        let capacities = keys.iter().map(|keys| BatchCapacity::of(&keys.layout));
        // a capacity for the first cascade, or for both
        let capacity = capacities.take(if over { 2 } else { 1 }).reduce(larger).expect("one");
        let capacity = capacity.in_levels(capacity.levels.max(2));
        let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), heads, &rule.into()).expect("small");
        let layouts_of = |keys: &Keys| [Some(keys.layout.clone()), Some(keys.flat.clone()), keys.layout.flattened()];
        let layouts = keys.iter().flat_map(layouts_of);
        let within = layouts.flatten().filter(|layout| capacity.check(layout).is_ok());
        let (mut blob, mut at, mut batches) = (PlanBlob::default(), None, 0);
        for layout in within.chain([Layout::default()]) {
            for policy in [rule.cascade.policy, CascadePolicy::Always] {
                let rule = MixedRule { cascade: CascadeCosts { policy, ..rule.cascade }, ..rule };
                let list = WorkList::build_for(&Variant::full(), &layout, heads, &rule.into()).expect("small");
                prop_assert_eq!(plan_capacity.check(&layout, &list), Ok(()), "{:?} {:?}", capacity, rule);
                blob.repack_within(&plan_capacity, &layout, &list).expect("within the capacity");
                let offsets = at.get_or_insert_with(|| blob.offsets.clone());
                prop_assert_eq!(&*offsets, &blob.offsets);
                packed(&blob, &layout, &list)?;
            }
            batches += 1;
        }
        prop_assert!(batches >= 2, "the first, and nobody");
        prop_assert_eq!(at.map(|at| at.request_of_query.len()), Some(4 * capacity.qo_tokens as usize));
    }
}

/// A capacity that admits the batches of both, with the pages of the first.
fn larger(one: BatchCapacity, two: BatchCapacity) -> BatchCapacity {
    let pool = |pool: Option<PagePool>| pool.map_or(0, |pool| pool.num_pages);
    BatchCapacity {
        requests: one.requests.max(two.requests),
        qo_len: one.qo_len.max(two.qo_len),
        qo_tokens: one.qo_tokens.max(two.qo_tokens),
        kv_tokens: one.kv_tokens.max(two.kv_tokens),
        pages: one.pages.map(|of| PagePool { num_pages: of.num_pages.max(pool(two.pages)), ..of }),
        levels: one.levels.max(two.levels),
        kv_memory_tokens: one.kv_memory_tokens.max(two.kv_memory_tokens),
    }
}

fn read<T: bytemuck::AnyBitPattern>(blob: &PlanBlob, range: &Range<usize>) -> Vec<T> {
    let end = range.end.min(blob.bytes.len());
    blob.bytes[range.start..end].chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// A blob holds the batch and its list; unused entries hold no work.
pub(super) fn packed(blob: &PlanBlob, layout: &Layout, list: &WorkList) -> Result<(), TestCaseError> {
    let at = &blob.offsets;
    fn begins<T: PartialEq + std::fmt::Debug + Copy>(
        got: &[T],
        want: &[T],
        rest: impl Fn(T) -> bool,
    ) -> Result<(), TestCaseError> {
        prop_assert_eq!(&got[..want.len()], want);
        prop_assert!(got[want.len()..].iter().all(|&x| rest(x)));
        Ok(())
    }
    let sums = |range: &Range<usize>, want: &[i32]| {
        begins(&read::<i32>(blob, range), want, |end| end == *want.last().expect("one"))
    };
    sums(&at.qo_indptr, layout.qo_indptr())?;
    sums(&at.kv_indptr, layout.kv_indptr())?;
    let items: Vec<WorkItem> = read(blob, &at.items);
    for (part, entries) in list.parts.iter().zip(&at.parts) {
        begins(&items[entries.items.clone()], &list.items[part.items.clone()], |item| item.rows == 0)?;
    }
    begins(&read(blob, &at.merges), &list.merges, |merge: MergeItem| merge.count == 0)?;
    begins(&read(blob, &at.merge_parts), &list.merge_parts, |part: i32| part == 0)?;
    let starts: Vec<WorkerStart> = read(blob, &at.workers);
    for (worker, ends) in list.workers.windows(2).enumerate() {
        let first = list.decode().get(ends[0] as usize).filter(|_| ends[0] < ends[1]).copied().unwrap_or_default();
        prop_assert_eq!((starts[worker].first, starts[worker].end, starts[worker].item), (ends[0], ends[1], first));
    }
    prop_assert!(starts[list.workers.len().saturating_sub(1)..].iter().all(|start| start.first == start.end));
    if let Some(pages) = layout.pages() {
        prop_assert_eq!(&read::<i32>(blob, &at.page_indices)[..pages.indices().len()], pages.indices());
    }
    let of_query: Vec<i32> = read(blob, &at.request_of_query);
    prop_assert!(!layout.has_levels() || of_query.len() >= layout.qo_tokens());
    if !of_query.is_empty() {
        for request in 0..layout.batch() {
            let queries = layout.qo_indptr()[request] as usize..layout.qo_indptr()[request + 1] as usize;
            prop_assert!(of_query[queries].iter().all(|&of| of as usize == request));
        }
    }
    // the K/V preprocessing kernel finds each key by its index
    let (ends, segments): (Vec<i32>, Vec<KvSegment>) = (read(blob, &at.segment_ends), read(blob, &at.segments));
    prop_assert_eq!(ends.len().saturating_sub(1), segments.len());
    for (ends, segment) in ends.windows(2).zip(&segments) {
        prop_assert_eq!(ends[1] - ends[0], segment.keys);
        prop_assert!(segment.keys == 0 || segment.pass == ends[0]);
        for item in list.items.iter().filter(|item| item.kv_len > 0 && item.pass == segment.pass && item.requests > 0) {
            prop_assert!(segment.keys == 0 || (item.memory, item.kv_first) == (segment.memory, segment.kv_begin));
        }
    }
    Ok(())
}
