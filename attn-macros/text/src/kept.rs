//! The memory of descriptors. A descriptor lives as long as the program, with all that it names; what was made for a
//! text that is then refused is freed.

use std::cell::RefCell;

thread_local! {
    /// What was made on this thread, which reads one text.
    static MADE: RefCell<Vec<Made>> = const { RefCell::new(Vec::new()) };
}

/// A value, and what frees it.
struct Made {
    at: *mut (),
    free: unsafe fn(*mut ()),
}

/// A value for the rest of the program, unless [`discard`] frees it.
pub(crate) fn kept<T>(value: T) -> &'static T {
    unsafe fn free<T>(at: *mut ()) {
        // SAFETY: the caller gives what `kept` made of a box of this type
        drop(unsafe { Box::from_raw(at.cast::<T>()) });
    }
    let at = Box::into_raw(Box::new(value));
    MADE.with_borrow_mut(|made| made.push(Made { at: at.cast(), free: free::<T> }));
    // SAFETY: it is valid and not changed until `discard`, whose caller has no reference left
    unsafe { &*at }
}

/// A text for the rest of the program.
pub(crate) fn kept_str(text: impl Into<Box<str>>) -> &'static str {
    kept(text.into())
}

/// A list for the rest of the program.
pub(crate) fn kept_list<T>(values: Vec<T>) -> &'static [T] {
    kept(values.into_boxed_slice())
}

/// Keeps all that was made on this thread.
pub(crate) fn keep() {
    MADE.with_borrow_mut(Vec::clear);
}

/// Frees all that was made on this thread since [`keep`].
///
/// # Safety
/// No reference to it is used afterwards.
pub(crate) unsafe fn discard() {
    for made in MADE.take() {
        // SAFETY: it was made by `kept`, and is freed once; the caller uses no reference to it
        unsafe { (made.free)(made.at) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_discarded_is_freed_and_what_is_kept_stays() {
        let [first, second] = [0, 1].map(|_| Arc::new(()));
        let (list, _) = (kept_list(vec![first.clone()]), kept_str("text"));
        keep();
        kept(second.clone());
        assert_eq!(Arc::strong_count(&second), 2);
        // SAFETY: the reference to `second` was dropped
        unsafe { discard() };
        assert_eq!((Arc::strong_count(&list[0]), Arc::strong_count(&second)), (2, 1));
    }
}
