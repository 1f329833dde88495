//! A plan's capacity holds every batch up to its size, and a kernel that is launched for the capacity finds exactly the
//! work of the batch.

use super::*;
use crate::batch::BatchCapacity;

const HEADS: Heads = Heads { qo: 6, kv: 2, head_dim: 8 };

/// A batch with at most as many requests, queries and keys.
fn smaller(lens: &(Vec<u32>, Vec<u32>), keep: usize, over: [u32; 2]) -> Layout {
    let keep = keep.min(lens.0.len());
    let part = |lens: &[u32], over: u32| -> Vec<u32> { lens.iter().take(keep).map(|len| len / over).collect() };
    layout(&part(&lens.0, over[0]), &part(&lens.1, over[1]))
}

/// Asserts that a list fits the capacity.
fn fits(layout: &Layout, list: &WorkList, plan_capacity: &PlanCapacity) {
    plan_capacity.check(layout, list).unwrap_or_else(|e| panic!("{e}: {plan_capacity:?}"));
}

proptest! {
    #[test]
    fn every_batch_within_a_capacity_fits_the_plan(
        lens in requests(), rule in rules(), keep in 0usize..6, over in [1u32..4, 1u32..4]
    ) {
        let whole = layout(&lens.0, &lens.1);
        let capacity = BatchCapacity::of(&whole);
        let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), HEADS, &rule.into()).expect("small");
        let mut blob = PlanBlob::default();
        let mut at = None;
        for layout in [whole, smaller(&lens, keep, over), Layout::default()] {
            capacity.check(&layout).expect("smaller");
            let list = build(&layout, HEADS.group(), &rule).expect("small");
            fits(&layout, &list, &plan_capacity);
            // packed at the same offsets as the batch before
            blob.repack_within(&plan_capacity, &layout, &list).expect("within the capacity");
            let offsets = at.get_or_insert_with(|| blob.offsets.clone());
            prop_assert_eq!(&*offsets, &blob.offsets);
            let bytes = |range: &Range<usize>| &blob.bytes[range.clone()];
            let sums = read::<i32>(bytes(&offsets.kv_indptr));
            prop_assert_eq!(&sums[..=layout.batch()], layout.kv_indptr());
            prop_assert_eq!(sums.len(), plan_capacity.requests + 1);
            prop_assert!(sums[layout.batch()..].iter().all(|&x| x == sums[sums.len() - 1]));
            // every CTA of the capacity finds its work, or none
            let items = read::<WorkItem>(bytes(&offsets.items));
            prop_assert_eq!(&items[..list.items.len()], &list.items[..]);
            prop_assert_eq!(items.len(), plan_capacity.parts[0].items);
            prop_assert!(items[list.items.len()..].iter().all(|item| item.rows == 0));
            let starts = read::<WorkerStart>(bytes(&offsets.workers));
            prop_assert_eq!(starts.len(), plan_capacity.parts[0].workers);
            let has_workers = !list.workers.is_empty();
            let mut next = 0;
            for start in starts.iter().filter(|start| start.first < start.end) {
                prop_assert_eq!((start.first, start.item), (next, items[next as usize]));
                next = start.end;
            }
            prop_assert_eq!(next as usize, if has_workers { list.items.len() } else { 0 });
            let merges = read::<MergeItem>(bytes(&offsets.merges));
            prop_assert_eq!(&merges[..list.merges.len()], &list.merges[..]);
            prop_assert!(merges[list.merges.len()..].iter().all(|merge| merge.count == 0));
        }
    }

    /// The capacity does not know the lengths of requests: it must hold other lengths with the same sums, too.
    #[test]
    fn capacity_holds_for_other_lengths_with_the_same_sums(
        qo in proptest::collection::vec(0u32..40, 1..6), kv in proptest::collection::vec(0u32..900, 6), rule in rules(),
        shift in 0usize..6,
    ) {
        let kv = &kv[..qo.len()];
        let capacity = BatchCapacity::of(&layout(&qo, kv));
        let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), HEADS, &rule.into()).expect("small");
        let mut rotated = kv.to_vec();
        rotated.rotate_left(shift % qo.len());
        let mut in_one = vec![0; qo.len()];
        in_one[shift % qo.len()] = kv.iter().sum();
        for kv in [rotated, in_one] {
            let layout = layout(&qo, &kv);
            fits(&layout, &build(&layout, HEADS.group(), &rule).expect("small"), &plan_capacity);
        }
    }
}

#[test]
fn only_used_pages_are_uploaded() {
    let capacity = BatchCapacity::decode(3, 40).in_pages(4, 99);
    let rule = PlanRule { workers: 8, schedule: Schedule::StreamK, ..RULE };
    let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), HEADS, &rule.into()).expect("small");
    let mut blob = PlanBlob::default();
    let mut last = (0, PlanOffsets::default());
    for lens in [&[1u32, 9][..], &[30, 9, 1]] {
        let mut next = 7..;
        let buf = PageTableBuf::from_lens(lens, 4, 99, || next.next().unwrap_or(0));
        let qo: Vec<i32> = (0..=lens.len() as i32).collect();
        let layout = Batch::paged(&qo, &buf.table()).validate().expect("sound");
        let list = build(&layout, HEADS.group(), &rule).expect("small");
        blob.repack_within(&plan_capacity, &layout, &list).expect("within the capacity");
        let pages = blob.offsets.page_indices.start;
        assert_eq!(read::<i32>(&blob.bytes[pages..])[..buf.indices.len()], buf.indices);
        assert!(blob.bytes.len() > last.0 && blob.bytes.len() <= blob.offsets.total);
        assert!(last.0 == 0 || last.1 == blob.offsets);
        last = (blob.bytes.len(), blob.offsets.clone());
    }
}

#[test]
fn a_list_over_capacity_is_refused() {
    let small = layout(&[1, 1], &[700, 64]);
    let rule = PlanRule { workers: 9, schedule: Schedule::StreamK, ..RULE };
    let capacity = BatchCapacity::of(&small);
    let plan_capacity = PlanCapacity::of(&capacity, &Variant::full(), HEADS, &rule.into()).expect("small");
    let long = layout(&[1; 40], &[64; 40]);
    let list = build(&long, HEADS.group(), &rule).expect("small");
    let mut blob = PlanBlob::pack(&small, &build(&small, HEADS.group(), &rule).expect("small"));
    let before = blob.bytes.clone();
    let error = blob.repack_within(&plan_capacity, &long, &list).expect_err("40 requests");
    assert_eq!(error, PlanError::Capacity { what: "requests", count: 40, capacity: 2 });
    let more = PlanCapacity { requests: 40, ..plan_capacity };
    let error = more.check(&long, &list).expect_err("40 items");
    assert!(matches!(error, PlanError::Capacity { what: "work items", count: 40, .. }), "{error}");
    assert_eq!(blob.bytes, before);
}
