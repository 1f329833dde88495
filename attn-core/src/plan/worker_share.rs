//! How many workers each part of a mixed list gets.

pub(crate) use device::CUDA;
pub(super) use device::{co_run_workers, own_sm_workers, worker_share};

/// The workers of the parts of a mixed list, for the host and for the planner kernel.
#[allow(unreachable_pub)] // private to the plan
#[attn_macros::device_mod(namespace = "lang::worker_share", include = "lang/int_fn.cuh")]
mod device {
    /// A quotient, rounded down, and whether it was.
    #[derive(Clone, Copy)]
    pub struct Quotient {
        pub whole: u64,
        pub rounded: bool,
    }

    /// n * own / all, for n < 2^34 and own <= all < 2^63, where all > 0. A product of more than 64 bits is divided bit
    /// by bit.
    #[call]
    pub fn scaled(n: u64, own: u64, all: u64) -> Quotient {
        if own < 1 << 30 {
            let whole = n * own / all;
            return Quotient { whole, rounded: whole * all < n * own };
        }
        let mut whole = 0u64;
        let mut rest = 0u64;
        #[unroll(1)]
        for bit in 0..34u32 {
            whole *= 2;
            rest *= 2;
            if rest >= all {
                whole += 1;
                rest -= all;
            }
            if (n >> (33 - bit)) & 1 == 1 {
                rest += own;
                if rest >= all {
                    whole += 1;
                    rest -= all;
                }
            }
        }
        Quotient { whole, rounded: rest > 0 }
    }

    /// The bits that costs are shifted by, so that three times their sum is less than 2^63.
    pub fn excess_bits(own: u64, other: u64) -> u32 {
        if (own | other) >> 60 > 0 { 4 } else { 0 }
    }

    /// The workers of a device that a part gets by its share of the cost, rounded down, but at least one.
    pub fn worker_share(workers: u32, own: u64, other: u64) -> u32 {
        if other == 0 {
            return workers;
        }
        let bits = excess_bits(own, other);
        let cost = own >> bits;
        (scaled(workers as u64, cost, cost + (other >> bits)).whole as u32).clamp(1, workers)
    }

    /// The workers that items of the prefill part leave free, if each takes one.
    pub fn free_workers(workers: u32, items: u64) -> u32 {
        (workers as u64).saturating_sub(items) as u32
    }

    /// The workers of the decode part, which costs `decode`, in one launch with `items` items of the prefill part,
    /// which cost `prefill`.
    ///
    /// If the workers that the prefill items leave free are at least the decode part's share, the part gets all of
    /// them. Otherwise it gets `co_run` (MixedRule::co_run_workers): every decode worker then starts at once, on an SM
    /// that also runs a prefill item. A share above three quarters of the device is kept as it is.
    pub fn co_run_workers(workers: u32, co_run: u32, items: u64, decode: u64, prefill: u64) -> u32 {
        let share = worker_share(workers, decode, prefill);
        let left = free_workers(workers, items);
        let nearly_all = share as u64 * 4 > workers as u64 * 3;
        if left >= share || nearly_all { left.max(share) } else { left.max(co_run).clamp(1, workers) }
    }

    /// The workers of the decode part as of co_run_workers, where each has a multiprocessor of its own and joins the
    /// prefill part at its end (MixedRule::own_sms).
    ///
    /// They are as many as decode within three quarters of the time of the launch. The rest of the launch is prefill
    /// alone, so an estimate that is wrong by a third does not make decode end last. Two thirds of the multiprocessors
    /// saturate the memory: more of them decode no faster. Without prefill items, and where these leave more workers
    /// free, the part gets all that are free.
    pub fn own_sm_workers(workers: u32, items: u64, decode: u64, prefill: u64) -> u32 {
        let bits = excess_bits(decode, prefill);
        let all = (decode >> bits) + (prefill >> bits);
        let of_time = scaled(workers as u64 * 4, decode >> bits, (all * 3).max(1));
        let most = (workers as u64 * 2).div_ceil(3);
        let share = if of_time.rounded { of_time.whole + 1 } else { of_time.whole };
        (share.min(most) as u32).max(free_workers(workers, items)).clamp(1, workers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Also of costs whose products take more than 64 bits.
        #[test]
        fn a_share_is_exact(workers in 1u32.., own in 1u64..1 << 60, bits in 0u32..60, other in 1u64..1 << 60) {
            let (own, other) = ((own >> bits).max(1), (other >> (59 - bits)).max(1));
            let share = u128::from(workers) * u128::from(own) / (u128::from(own) + u128::from(other));
            prop_assert_eq!(u128::from(worker_share(workers, own, other)), share.max(1));
            let (time, all) = (u128::from(workers) * u128::from(own) * 4, (u128::from(own) + u128::from(other)) * 3);
            let most = (u128::from(workers) * 2).div_ceil(3);
            let of_sms = own_sm_workers(workers, u64::MAX, own, other);
            prop_assert_eq!(u128::from(of_sms), time.div_ceil(all).min(most).max(1));
        }
    }
}
