//! The device buffers of output handles (`OutTensor`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use attn_core::lang::param_tensor::OutBuffer;

use crate::cuda::{CudaBuffer, CudaError, Device};

/// The device buffer of an output handle. All branches, plans and attentions that store to the handle share it. It
/// starts with the handle's values.
pub(super) fn output_buffer(device: &Device, out: &OutBuffer) -> Result<Arc<CudaBuffer>, CudaError> {
    /// By device and handle.
    static OUTPUTS: Shared<(u32, u64), CudaBuffer> = Shared(Mutex::new(BTreeMap::new()));
    let upload = || CudaBuffer::upload(device, bytemuck::cast_slice(&out.to_vec()));
    OUTPUTS.get_or_make((device.ordinal(), out.id()), upload)
}

/// Values that are kept as long as somebody holds them.
struct Shared<K, V>(Mutex<BTreeMap<K, Weak<V>>>);

impl<K: Ord + Copy, V> Shared<K, V> {
    /// The value of a key. `make` makes it the first time.
    ///
    /// No lock is held by then: an upload waits for captures, and a thread that captures may come here too. Of two
    /// threads that make a value at once, the second drops its own.
    fn get_or_make<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let known = self.lock().get(&key).and_then(Weak::upgrade);
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(make()?);
        let mut values = self.lock();
        if let Some(known) = values.get(&key).and_then(Weak::upgrade) {
            drop(values); // a value may wait when it is dropped
            return Ok(known);
        }
        values.retain(|_, value| value.strong_count() > 0);
        values.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Weak<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_value_is_shared_as_long_as_somebody_holds_it() {
        let shared = Shared(Mutex::default());
        let get = |key: u32, value: u32| {
            let Ok(found) = shared.get_or_make(key, || Ok::<_, Infallible>(value));
            found
        };
        let first = get(1, 10);
        assert_eq!((*get(1, 11), *get(2, 20)), (10, 20));
        drop(first);
        assert_eq!(*get(1, 12), 12);
        assert!(shared.get_or_make(3, || Err::<u32, _>("no memory")).is_err());
        assert_eq!(*get(3, 30), 30, "a failure leaves nothing behind");
    }

    #[test]
    fn others_get_values_while_one_is_made() {
        let shared = &Shared(Mutex::default());
        let (mut within, mut other) = (None, None);
        let made = shared.get_or_make(1, || {
            // on another thread while this one waits
            std::thread::scope(|scope| {
                let get =
                    |key: u32, value: u32| scope.spawn(move || shared.get_or_make(key, || Ok::<_, Infallible>(value)));
                within = get(1, 10).join().expect("it returns").ok();
                other = get(2, 20).join().expect("it returns").ok();
            });
            Ok::<u32, Infallible>(11)
        });
        assert_eq!((made.ok().as_deref(), within.as_deref(), other.as_deref()), (Some(&10), Some(&10), Some(&20)));
    }
}
