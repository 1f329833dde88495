//! The prediction for mixed launches, whose decode and prefill parts run concurrently.

use attn_core::batch::Layout;

use super::predict::{BatchSize, Candidate};
use crate::kernel_traits::KernelTraits;

/// The share of the shorter part of a mixed launch that does not overlap with the longer part: SMs issue for both, and
/// the parts do not end together. Measured on an H200: 0.50 to 0.62 (`book/src/performance/notes/mixed.md`).
const OVERLAP_PENALTY: [u64; 2] = [9, 16];

/// The mixed launches of an attention.
#[derive(Clone, Debug)]
pub(super) struct MixedLaunches {
    /// The decode part of each mixed kernel alone, by ascending rows of its tile.
    pub(super) decode: Vec<Candidate>,
    /// The prefill part alone.
    pub(super) prefill: Candidate,
    /// Whether batches without a mixed launch run the same prefill.
    pub(super) same_prefill: bool,
    /// The device and its heads, if each decode CTA has an SM of its own.
    pub(super) own_sms: Option<OwnSms>,
}

/// A device on which decode CTAs have SMs of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSms {
    pub(super) multiprocessors: u64,
    pub(super) kv_heads: u64,
    /// The time of decode there (`own_sm_time`).
    pub(super) time: [u64; 2],
}

/// The prediction for a mixed launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoRun {
    /// Nanoseconds of the launch.
    pub(super) time: u64,
    /// Nanoseconds of the prefill tiles that a launch without decode would have too.
    pub(super) prefill: u64,
    /// Rows of the decode tile.
    pub(super) rows: u32,
}

impl MixedLaunches {
    /// Those of mixed kernels, each with its decode part alone; `prefills` are the usual kernel and sm80 prefill.
    /// `None` if no kernel is faster than two launches.
    pub(super) fn of(
        kernels: &[(Option<KernelTraits>, Candidate)],
        [usual, sm80]: [Candidate; 2],
        [multiprocessors, kv_heads]: [u64; 2],
        time: [u32; 2],
    ) -> Option<Self> {
        let all = |are: fn(&KernelTraits) -> bool| kernels.iter().all(|(traits, _)| traits.as_ref().is_some_and(are));
        let have_own_sms = all(KernelTraits::is_sm90_prefill);
        let own_sms = have_own_sms.then_some(OwnSms { multiprocessors, kv_heads, time: time.map(u64::from) });
        // with one CTA per SM and a role for each CTA the parts do not overlap, and two launches are as good
        let overlaps = |traits: &KernelTraits| traits.facts().ctas_per_sm > 1 || traits.is_sm90_prefill();
        let overlapping = kernels.iter().filter(|(traits, _)| traits.as_ref().is_some_and(overlaps));
        let decode: Vec<_> = overlapping.map(|(_, decode)| *decode).collect();
        let same_prefill = have_own_sms || usual.costs == sm80.costs;
        let prefill = if same_prefill { usual } else { sm80 };
        (!decode.is_empty()).then_some(MixedLaunches { decode, prefill, same_prefill, own_sms })
    }

    /// The prediction for a batch that has requests for both parts, whose requests have `group` rows a query.
    pub(super) fn predict(&self, layout: &Layout, group: u64) -> Option<CoRun> {
        let (smallest, largest, prefill) = (self.decode.first()?, self.decode.last()?, &self.prefill);
        // requests that fit a decode tile, and those that do not
        let [mut few, mut many] = [BatchSize::default(); 2];
        let mut few_rows = 0;
        for (qo, kv) in layout.qo_indptr().windows(2).zip(layout.kv_indptr().windows(2)) {
            let (packed, keys) = ((qo[1] - qo[0]) as u64 * group, (kv[1] - kv[0]) as u64);
            if packed > largest.tile_rows {
                many.add(packed.div_ceil(prefill.tile_rows), keys);
            } else if packed > 0 {
                few.add(1, keys);
                few_rows = few_rows.max(packed);
            }
        }
        let decode = if few_rows > smallest.tile_rows { largest } else { smallest };
        if few.tiles == 0 || many.tiles == 0 {
            return None;
        }
        let alone =
            [(decode, &few), (prefill, &many)].map(|(part, size)| part.time(size) - u64::from(part.costs.launch));
        let launch = u64::from(decode.costs.launch.max(prefill.costs.launch));
        let both = match self.own_sms {
            None => {
                let (longer, shorter) = (alone[0].max(alone[1]), alone[0].min(alone[1]));
                longer.saturating_add(shorter / OVERLAP_PENALTY[1] * OVERLAP_PENALTY[0])
            }
            // all SMs are busy until the last prefill tiles, but decode takes no less than what memory allows
            Some(OwnSms { multiprocessors, kv_heads, time: [time, of_all] }) => {
                let of_head = (decode.busy(&few) / of_all * time).saturating_add(prefill.busy(&many));
                let shared = (u128::from(of_head) * u128::from(kv_heads) / u128::from(multiprocessors.max(1))) as u64;
                let last = prefill.tile(many.longest) / 2;
                shared.saturating_add(last).max(alone[0]).saturating_add(prefill.costs.merge_launch.into())
            }
        };
        let prefill = if self.same_prefill { alone[1] } else { 0 };
        Some(CoRun { time: launch.saturating_add(both), prefill, rows: decode.kernel.rows })
    }
}
