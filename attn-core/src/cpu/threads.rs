//! The threads of the CPU backend: those of rayon's pool, which do not outlive a fork. In a child of one, a run has the
//! thread that calls it.

use std::{process, sync::OnceLock};

use rayon::prelude::*;

/// Whether the pool that this module first saw is of this process.
fn has_pool() -> bool {
    static FIRST: OnceLock<u32> = OnceLock::new();
    *FIRST.get_or_init(process::id) == process::id()
}

/// The threads of the current pool, which plans are made for. A child has the plans of its parent.
pub(super) fn count() -> u32 {
    let _seen = has_pool();
    rayon::current_num_threads() as u32
}

/// Does tasks 0 to `count`, each with the buffers of its thread.
pub(super) fn for_each<T>(
    count: usize,
    buffers: impl Fn() -> T + Send + Sync,
    task: impl Fn(&mut T, usize) + Send + Sync,
) {
    if has_pool() {
        (0..count).into_par_iter().with_max_len(1).for_each_init(buffers, task);
    } else {
        let mut buffers = buffers();
        (0..count).for_each(|index| task(&mut buffers, index));
    }
}
