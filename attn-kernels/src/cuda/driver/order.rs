//! Launches in the order of other work on the memory of their tensors and arrays.

use std::any::Any;

use attn_core::tensor::{DeviceMemory, Kv, KvSides, Out, Scale, TensorMut, TensorRef};

use super::{use_tracker::BufferUses, uses::Access};
use crate::cuda::{CudaError, CudaStream};

/// Memory that a launch uses: its name in errors, and its owner.
pub(in crate::cuda) type Used<'a> = (&'static str, Option<&'a dyn DeviceMemory>);

/// Orders the next work of the stream after conflicting work of other streams on each memory, and records it.
///
/// # Errors
///
/// [`CudaError::OtherDevice`] for memory of another device; those of [`UseTracker::order`].
///
/// [`UseTracker::order`]: super::use_tracker::UseTracker::order
pub(in crate::cuda) fn order<'a>(
    stream: &CudaStream,
    access: Access,
    memory: impl IntoIterator<Item = Used<'a>>,
) -> Result<(), CudaError> {
    for (what, owner) in memory {
        let Some(owner) = owner else { continue };
        check_device(what, owner, stream.device().ordinal())?;
        let owner: &dyn Any = owner;
        if let Some(BufferUses(uses)) = owner.downcast_ref::<BufferUses>() {
            uses.order(stream.state(), access)?;
        }
    }
    Ok(())
}

/// Orders a run.
pub(in crate::cuda) fn order_run(
    stream: &CudaStream,
    q: &TensorRef<'_>,
    kv: &Kv<'_>,
    out: &Out<'_>,
) -> Result<(), CudaError> {
    let scales =
        [("k_scales", &kv.scales.k), ("v_scales", &kv.scales.v), ("q_scales", &kv.q_scale), ("o_scales", &out.scale)]
            .map(of_scale);
    let inputs = [("q", q.owner()), ("k", kv.k.owner()), ("v", kv.v.owner())];
    order(stream, Access::Read, inputs.into_iter().chain(sides(&kv.sides)).chain(scales))?;
    order(stream, Access::Write, outputs(out))
}

/// The memory of a scale, if it has any.
fn of_scale<'a>((name, scale): (&'static str, &Scale<'a>)) -> Used<'a> {
    (name, scale.heads.as_ref().and_then(TensorRef::owner))
}

/// The memory of the side data of keys and values, if there are any.
pub(in crate::cuda) fn sides<'a>(of: &KvSides<'a>) -> [Used<'a>; 2] {
    [("k side", of.k), ("v side", of.v)].map(|(name, side)| (name, side.and_then(|side| side.owner())))
}

/// The memory of O and LSE.
pub(in crate::cuda) fn outputs<'a>(out: &Out<'a>) -> [Used<'a>; 2] {
    [("o", out.o.owner()), ("lse", out.lse.as_ref().and_then(TensorMut::owner))]
}

fn check_device(what: &'static str, owner: &dyn DeviceMemory, want: u32) -> Result<(), CudaError> {
    let got = owner.device();
    if got == want { Ok(()) } else { Err(CudaError::OtherDevice { what, got, want }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct BufferOf(u32);

    impl DeviceMemory for BufferOf {
        fn device(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn memory_of_another_device_is_named_with_both() {
        assert!(check_device("q", &BufferOf(1), 1).is_ok());
        let error = check_device("k", &BufferOf(2), 1).expect_err("another device");
        assert!(matches!(error, CudaError::OtherDevice { what: "k", got: 2, want: 1 }), "{error}");
        let text = error.to_string();
        assert!(text.contains('k') && text.contains("device 2") && text.contains("device 1"), "{text}");
    }
}
