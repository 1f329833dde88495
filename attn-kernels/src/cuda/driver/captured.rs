//! What launches use that another library captured: memory and kernels that its graph replays, also when their owners
//! are gone. All of it is kept until it is released by name: that of a plan, or that of the device.
//!
//! Launches that [`CudaStream::capture`](super::stream::CudaStream::capture) records are replayed by an unsafe call of
//! this library, whose caller promises that all of it lives.

use std::any::Any;
use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Something that captured launches use.
pub(in crate::cuda) type Kept = Arc<dyn Any + Send + Sync>;

/// A name under which things are kept: the ordinal of a device, and the number of a plan; 0 for what has no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cuda) struct Name {
    device: u32,
    plan: u64,
}

/// What is kept, by name.
type ByName = BTreeMap<Name, Vec<Kept>>;

static KEPT: Mutex<ByName> = Mutex::new(BTreeMap::new());

impl Name {
    /// The name of a new plan.
    pub(in crate::cuda) fn of_plan(device: u32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Name { device, plan: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// The name of what has no plan.
    pub(in crate::cuda) fn of_device(device: u32) -> Self {
        Name { device, plan: 0 }
    }

    /// Keeps things under this name, each once.
    pub(super) fn keep(self, all: impl IntoIterator<Item = Kept>) {
        let mut kept = lock();
        let of_name = kept.entry(self).or_default();
        for one in all {
            if !of_name.iter().any(|known| is_same(known, &one)) {
                of_name.push(one);
            }
        }
    }

    /// Keeps nothing under this name any more.
    pub(in crate::cuda) fn release(self) {
        // dropped after the lock: what frees memory waits for the device
        let released = lock().remove(&self);
        drop(released);
    }
}

/// Keeps nothing of a device any more.
pub(super) fn release_device(device: u32) {
    let mut kept = lock();
    let (released, others): (ByName, ByName) = mem::take(&mut *kept).into_iter().partition(|of| of.0.device == device);
    *kept = others;
    drop(kept);
    drop(released);
}

/// Whether something is kept under any name.
pub(in crate::cuda) fn is_kept<T: Any + Send + Sync>(one: &Arc<T>) -> bool {
    let one: Kept = one.clone();
    lock().values().flatten().any(|known| is_same(known, &one))
}

fn is_same(a: &Kept, b: &Kept) -> bool {
    Arc::as_ptr(a).cast::<()>() == Arc::as_ptr(b).cast::<()>()
}

fn lock() -> MutexGuard<'static, ByName> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_capture_uses_stays_until_its_name_is_released() {
        // a device that no other test has
        let (plan, other) = (Name::of_plan(1001), Name::of_plan(1001));
        let (memory, shared) = (Arc::new(1u8), Arc::new(2u8));
        plan.keep([memory.clone() as Kept, shared.clone()]);
        plan.keep([memory.clone() as Kept]);
        other.keep([shared.clone() as Kept]);
        assert_eq!((Arc::strong_count(&memory), Arc::strong_count(&shared)), (2, 3), "each once under a name");
        let weak = Arc::downgrade(&memory);
        drop(memory); // the plan is gone
        assert!(weak.upgrade().is_some_and(|memory| is_kept(&memory)));
        plan.release();
        assert!(weak.upgrade().is_none());
        assert!(is_kept(&shared), "under the name of the other plan");
        plan.release(); // again
        other.release();
        assert!(!is_kept(&shared) && Arc::strong_count(&shared) == 1);
    }

    #[test]
    fn a_device_releases_all_of_its_plans_and_no_other() {
        let names = [Name::of_plan(1002), Name::of_device(1002), Name::of_device(1003)];
        let [first, second, third] = [3u8, 4, 5].map(Arc::new);
        for (name, one) in names.into_iter().zip([&first, &second, &third]) {
            name.keep([one.clone() as Kept]);
        }
        release_device(1002);
        assert!(!is_kept(&first) && !is_kept(&second) && is_kept(&third));
        release_device(1003);
        assert!(!is_kept(&third));
    }
}
