//! Workers of the decode part of a mixed list, where each has a multiprocessor of its own.

use super::*;
use crate::plan::worker_share::own_sm_workers;

/// A rule for a device of this many workers per KV head. The costs do not matter here.
fn rule(workers: u32) -> MixedRule {
    let part = PlanRule { workers, ..RULE };
    MixedRule {
        decode: PlanRule { schedule: Schedule::StreamK, ..part },
        prefill: part,
        co_run_workers: workers,
        own_sms: true,
        cascade: CascadeCosts {
            policy: CascadePolicy::Never,
            state: 0,
            cached_block: 1,
            merge_launch: 0,
            decode_penalty: 0,
        },
    }
}

proptest! {
    #[test]
    fn decode_ends_before_prefill_on_no_more_workers_than_memory_needs(
        workers in 1u32..400, items in 0u64..2000, decode in 1u64..1 << 40, prefill in 1u64..1 << 40,
    ) {
        let own = own_sm_workers(workers, items, decode, prefill);
        let (own, all) = (u64::from(own), u64::from(workers));
        let most = (2 * all).div_ceil(3);
        prop_assert!((1..=all).contains(&own));
        // all that the prefill items leave free
        prop_assert!(own >= all.saturating_sub(items));
        prop_assert!(own <= most.max(all.saturating_sub(items)));
        // if neither bound holds it back, decode takes at most three quarters of the time of both, on all workers
        let (own, all, total) = (u128::from(own), u128::from(all), u128::from(decode) + u128::from(prefill));
        let enough = |own: u128| own * total * 3 >= all * u128::from(decode) * 4;
        prop_assert!(enough(own) || own >= u128::from(most));
        // and no worker is too many
        prop_assert!(own == 1 || !enough(own - 1) || own == all.saturating_sub(items.into()));
    }

    #[test]
    fn without_prefill_items_all_workers_decode(workers in 1u32..400, decode in 0u64..1 << 40) {
        prop_assert_eq!(own_sm_workers(workers, 0, decode, 0), workers);
    }

    #[test]
    fn the_largest_costs_do_not_overflow(workers in 1u32..1 << 31, items in 0u64..1 << 40) {
        let own = own_sm_workers(workers, items, u64::MAX, u64::MAX);
        prop_assert!((1..=workers).contains(&own));
    }
}

/// An H200: 132 multiprocessors, of which each reads 48 GB/s. Costs of a KV head in nanoseconds.
#[test]
fn the_more_bytes_decode_reads_the_more_workers_it_gets() {
    // per KV head: 64 requests of 4096 keys of 512 bytes; 8 chunks of 512 queries, of 128 or 32 tiles of 31 KV tiles
    let decode = 64 * 4096 * 512 / 48;
    let chunks = |tiles: u64| tiles * (31 * 1550 + 2400);
    // of 8 KV heads and of 32
    assert_eq!(own_sm_workers(16, 128, decode, chunks(128)), 7);
    assert_eq!(own_sm_workers(4, 32, decode, chunks(32)), 3);
    // 32 requests of 128k keys in all, beside a prompt of 8192 queries: 256 or 64 tiles of 33 KV tiles on average
    let (skewed, prompt) = (128_000 * 512 / 48, |tiles: u64| tiles * (33 * 1550 + 2400));
    assert_eq!(own_sm_workers(16, 256, skewed, prompt(256)), 2);
    assert_eq!(own_sm_workers(4, 64, skewed, prompt(64)), 2);
}

/// Chunks of 300 queries after prefixes of three lengths, beside decodes.
#[test]
fn prefill_tiles_that_read_the_same_keys_run_together() {
    let (qo, kv) = (vec![1, 300, 300, 1, 300], vec![700, 1000, 4000, 4000, 4000]);
    let rule = ListRule::Mixed(rule(132));
    let list = WorkList::build_for(&Variant::full(), &layout(&qo, &kv), heads(4), &rule).expect("small");
    let items = &list.items[list.parts[1].items.clone()];
    let requests: Vec<i32> = items.iter().map(|item| item.request).collect();
    assert!(requests.is_sorted_by_key(|&request| [2, 4, 1].iter().position(|&at| at == request)), "{requests:?}");
    for tiles in items.chunk_by(|a, b| a.request == b.request) {
        assert!(tiles.len() > 1 && tiles.is_sorted_by_key(|item| item.kv_begin - item.kv_end), "{tiles:?}");
    }
}
