//! How the kernels with workers merge the split-KV partials of a tile: in one step or, of many, in two.
//!
//! The last CTA of a tile merges partials one after the other. Of many partials it therefore merges groups alone: each
//! group of neighbours is merged by the last of its own CTAs. The order is that of keys in either case, and the groups
//! depend on the number of partials alone, so neither changes with the CTA that is last.

pub(crate) use device::CUDA;
use device::partials_of_group;

/// The groups, for the host and for the kernels.
#[allow(unreachable_pub)] // private to the plan
#[attn_macros::device_mod(namespace = "lang::merge_groups", include = "lang/types.cuh")]
mod device {
    /// The partials of a group, where `count` partials merge: about the square root of `count`. 0 without groups.
    pub fn partials_of_group(count: i32) -> i32 {
        if count <= 16 {
            0
        } else if count <= 64 {
            8
        } else {
            16
        }
    }
}

/// The steps of a merge of `count` partials, and the partials that its CTAs merge one after the other, in all steps.
pub fn merge_steps(count: u64) -> (u64, u64) {
    match i32::try_from(count).map_or(16, partials_of_group) {
        0 => (1, count),
        group => (2, u64::from(group.unsigned_abs()) + count.div_ceil(u64::from(group.unsigned_abs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_leave_few_partials_to_each_step() {
        assert_eq!([1, 2, 16].map(partials_of_group), [0; 3]);
        assert_eq!(merge_steps(16), (1, 16));
        assert_eq!(merge_steps(17), (2, 8 + 3));
        assert_eq!(merge_steps(64), (2, 8 + 8));
        assert_eq!(merge_steps(97), (2, 16 + 7));
        assert_eq!(merge_steps(396), (2, 16 + 25));
        assert_eq!(merge_steps(1 << 40), (2, 16 + (1 << 36)));
    }

    #[test]
    fn a_group_is_no_longer_than_its_merge() {
        for count in 1..=4096 {
            let group = partials_of_group(count);
            assert!(group == 0 || (2..count).contains(&group), "{count}: the semaphores of both steps differ");
        }
    }
}
