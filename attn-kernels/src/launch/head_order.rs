//! How many KV heads the tile scheduler of sm90 prefill interleaves.

use attn_core::plan::{WorkItem, WorkList};
use attn_core::spec::ComputeType;

use crate::kernel_traits::KernelTraits;

/// What the order of KV heads depends on, of the work items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOrder {
    /// Whether items have about the same length: the longest is at most a quarter longer than the average.
    even: bool,
    /// The most KV heads, up to [`UNEVEN_HEADS`], whose items at work at a time share keys or read few.
    sharing: u32,
}

/// KV heads that items of uneven lengths interleave.
const UNEVEN_HEADS: u32 = 4;
/// Items at work at a time that should read the same keys, unless L2 holds the keys of all of them. With fewer, uneven
/// items read the same keys from memory again and again: the longest items of all requests run first, then the next
/// shorter ones.
const ITEMS_OF_KEYS: usize = 4;
/// Bytes of K and V that stay in L2 from an item to the next.
const L2_HOLDS: u64 = 20 << 20;
/// Bytes of K and V of the heads that even items interleave; they stay in L2.
const L2_BUDGET: u64 = 8 << 20;

impl HeadOrder {
    /// Of a work list, on a device that holds `resident_ctas` CTAs of a kernel; of a mixed list its prefill part.
    #[must_use]
    pub fn of(work: &WorkList, traits: &KernelTraits, resident_ctas: u32) -> Self {
        if !traits.is_sm90_prefill() {
            return HeadOrder { even: false, sharing: UNEVEN_HEADS };
        }
        let items = match &work.parts[..] {
            [_, prefill] if work.is_mixed() => &work.items[prefill.items.clone()],
            _ => &work.items,
        };
        HeadOrder { even: is_even(items), sharing: sharing_heads(items, key_bytes(traits), resident_ctas) }
    }

    /// KV heads that the tile scheduler interleaves. If all items have about the same length, these are as many heads
    /// as fit L2 with K and V of `tokens` tokens. Uneven items interleave more heads: the longest items of all of them
    /// run first, and short items finish last. Some kernels interleave all heads.
    pub fn interleaved_heads(self, traits: &KernelTraits, tokens: u32) -> u32 {
        if traits.facts().interleaves_all_heads {
            return u32::MAX;
        }
        let each = u64::from(tokens) * key_bytes(traits);
        let fit = u32::try_from(L2_BUDGET / each.max(1)).unwrap_or(u32::MAX).max(1);
        if self.even { fit } else { fit.max(self.sharing) }
    }
}

fn is_even(items: &[WorkItem]) -> bool {
    let keys = || items.iter().map(|item| (item.kv_end - item.kv_begin).max(0) as u64);
    items.len() as u64 * keys().max().unwrap_or(0) / 5 * 4 <= keys().sum()
}

/// Bytes of a key and its value.
fn key_bytes(traits: &KernelTraits) -> u64 {
    let bytes = if traits.facts().wgmma == Some(ComputeType::E4m3) { 1 } else { 2 };
    u64::from(traits.common.head_dim + traits.common.value_dim) * bytes
}

/// The most heads for which the items at work share keys [`ITEMS_OF_KEYS`] times, or as often as those of one head do,
/// or for which L2 holds their keys. `items`: of one head, in the order in which they run.
fn sharing_heads(items: &[WorkItem], key_bytes: u64, ctas: u32) -> u32 {
    // items at work per request, and the bytes of their keys, with this many heads
    let at_work = |heads: u32| {
        let at_work = &items[..items.len().min((ctas / heads) as usize)];
        let mut requests: Vec<_> = at_work.iter().map(|item| (item.request, item.kv_len)).collect();
        requests.sort_unstable();
        requests.dedup();
        let keys: u64 = requests.iter().map(|&(_, keys)| keys.max(0) as u64).sum();
        (at_work.len() / requests.len().max(1), u64::from(heads) * keys * key_bytes)
    };
    let enough = at_work(1).0.min(ITEMS_OF_KEYS);
    let share = |&heads: &u32| matches!(at_work(heads), (items, bytes) if items >= enough || bytes <= L2_HOLDS);
    [UNEVEN_HEADS, 2].into_iter().find(share).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of requests of these lengths, longest first, each of as many rows, under a causal mask.
    fn causal(lens: &[i32], rows: i32) -> Vec<WorkItem> {
        let of_request = |(request, &len): (usize, &i32)| {
            let ends = (rows..len + rows).step_by(rows as usize).map(move |end| end.min(len));
            ends.map(move |kv_end| WorkItem { request: request as i32, kv_end, kv_len: len, ..WorkItem::default() })
        };
        let mut items: Vec<_> = lens.iter().enumerate().flat_map(of_request).collect();
        items.sort_by_key(|item| -item.kv_end);
        items
    }

    #[test]
    fn items_at_work_share_keys() {
        let of = |lens: &[i32], bytes| sharing_heads(&causal(lens, 128), bytes, 132);
        let heads = |lens: &[i32]| of(lens, 1024);
        // with four heads the 33 longest items of a head are the last two of each request
        assert_eq!(heads(&[1024; 16]), 2);
        assert_eq!([of(&[1024; 16], 512), of(&[1024; 16], 256)], [2, 4], "L2 holds 16 MiB");
        assert_eq!([heads(&[4096; 4]), heads(&[16384]), heads(&[1024; 8])], [4; 3], "items of few requests");
        assert_eq!(heads(&[1024; 32]), 1);
        let mut one_long = [256; 64];
        one_long[7] = 16384;
        assert_eq!(heads(&one_long), 4, "its items run first");
        assert_eq!([heads(&[128; 64]), heads(&[64; 8]), heads(&[])], [4; 3], "no keys are shared anyway");
        assert_eq!(heads(&[512; 64]), 1, "two items of each request are at work");
    }

    #[test]
    fn causal_items_are_uneven() {
        assert!(!is_even(&causal(&[1024; 16], 128)));
        assert!(is_even(&[WorkItem { kv_end: 1024, ..WorkItem::default() }; 3]) && is_even(&[]));
    }
}
