//! Scales of stored keys and values: numbers, or arrays beside the tensors.

use attn::Scale;
use pyo3::{intern, prelude::*, types::PyFloat};

use crate::argument::{Arg, NUMBER};
use crate::{error::Failure, tensor::View};

/// What stored elements are multiplied by, as the caller gives it.
pub(crate) struct GivenScale {
    all: f32,
    /// float32 of each KV head.
    pub(crate) heads: Option<View>,
}

impl GivenScale {
    /// A number, or an array that `read` reads; 1 if none is given.
    pub(crate) fn new(
        object: Option<&Bound<'_, PyAny>>,
        name: &str,
        read: impl FnOnce(&Bound<'_, PyAny>, &str) -> Result<View, Failure>,
    ) -> Result<Self, Failure> {
        let Some(object) = object else { return Ok(GivenScale { all: 1.0, heads: None }) };
        // a tensor of one element is a number to Python too, which would wait for its device
        if !object.is_instance_of::<PyFloat>() && object.hasattr(intern!(object.py(), "__dlpack__"))? {
            return Ok(GivenScale { all: 1.0, heads: Some(read(object, name)?) });
        }
        let all = object.extract::<Arg<f32>>()?.get(object.py(), name, NUMBER)?;
        Ok(GivenScale { all, heads: None })
    }

    /// The scale.
    ///
    /// # Safety
    ///
    /// The conditions of [`View::read`].
    pub(crate) unsafe fn scale<'a>(&self, name: &str) -> Result<Scale<'a>, Failure> {
        // SAFETY: the caller guarantees it
        let heads = self.heads.as_ref().map(|heads| unsafe { heads.read(name) }).transpose()?;
        Ok(Scale { all: self.all, heads })
    }
}
