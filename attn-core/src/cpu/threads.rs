//! The threads of the CPU backend: those of rayon's pool, which do not outlive a fork. In a child of one, a run has the
//! thread that calls it.

use std::{process, sync::OnceLock};

use rayon::prelude::*;

/// Whether this is the process whose pool this module first saw, and not a child of it, which has no threads of a pool.
fn is_process_of_pool() -> bool {
    static FIRST: OnceLock<u32> = OnceLock::new();
    *FIRST.get_or_init(process::id) == process::id()
}

/// The threads of the current pool, which plans are made for. A child has the plans of its parent.
pub(super) fn count() -> u32 {
    let _seen = is_process_of_pool();
    rayon::current_num_threads() as u32
}

/// Does the tasks numbered below `tasks`, each with buffers, which a task before it on the same thread may have used.
pub(super) fn for_each<T>(
    tasks: usize,
    buffers: impl Fn() -> T + Send + Sync,
    task: impl Fn(&mut T, usize) + Send + Sync,
) {
    if is_process_of_pool() {
        // tasks differ in length, so idle threads may take them one by one
        (0..tasks).into_par_iter().with_max_len(1).for_each_init(buffers, task);
    } else {
        let mut buffers = buffers();
        (0..tasks).for_each(|index| task(&mut buffers, index));
    }
}
