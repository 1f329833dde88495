//! The transforms that appends apply to keys and values.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use attn_core::dtype::Dtype;
use attn_core::expr::{TensorContent, Variant};
use attn_core::ops::TensorRows;
use attn_core::ops::append::Transform;
use attn_core::spec::{HeadDimVo, Heads};
use cudarc::driver::sys::CUfunction;

use super::{module, tensor_rows::write_rows};
use crate::compile::Arch;
use crate::cuda::driver::captured::{Kept, Name};
use crate::cuda::driver::op_module::{OpModule, not_loaded};
use crate::cuda::driver::release::Released;
use crate::cuda::memory::args::Args;
use crate::cuda::{CudaError, CudaStream, Device};
use crate::jit;
use crate::splice::{ENCODE_KERNELS, GATHER_PACKED_KERNELS, OpSource, ROTATE_APPEND_KERNELS, TRANSFORM_KERNELS};

/// The types of source and target, and of queries that are written beside them.
type Types = (Dtype, Dtype, Option<Dtype>);

/// The key and value transforms of a variant on a device, which an append applies before it writes to a cache, and its
/// KV formats. The kernels are compiled and loaded at their first use.
pub struct CudaKvTransform {
    device: Device,
    transform: Transform,
    args: Args,
    modules: Mutex<HashMap<Types, OpModule>>,
}

impl CudaKvTransform {
    /// Binds a variant, and uploads its tensors.
    ///
    /// # Errors
    ///
    /// The errors of [`Transform::new`], and a failure of the driver.
    pub fn new(device: &Device, variant: &Variant, heads: Heads, head_dim_vo: HeadDimVo) -> Result<Self, CudaError> {
        let transform = Transform::with_values(variant, heads, head_dim_vo)?;
        let args = Args::upload(device, transform.variant())?;
        Ok(CudaKvTransform { device: device.clone(), transform, args, modules: Mutex::default() })
    }

    /// The transform.
    #[must_use]
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Whether rows are stored in KV formats.
    pub(super) fn has_formats(&self) -> bool {
        self.transform.formats().is_some()
    }

    /// Keeps the transform, if another library captures what is about to be launched.
    fn keep_captured(self: &Arc<Self>, stream: &CudaStream) -> Result<(), CudaError> {
        stream.keep_captured(Name::of_device(self.device.ordinal()), || [self.clone() as Kept])
    }

    /// The device.
    pub(in crate::cuda) fn device(&self) -> &Device {
        &self.device
    }

    /// The arguments of the variant.
    pub(super) fn args(&self) -> &Args {
        &self.args
    }

    /// Compiles and loads the kernel for a pair of element types, so that an append may be captured; with KV formats
    /// from [`Dtype::U8`] that of a gather.
    ///
    /// # Errors
    ///
    /// No cubin, or one that does not load.
    pub fn prepare(&self, from: Dtype, to: Dtype) -> Result<(), CudaError> {
        self.prepare_types((from, to, None))
    }

    /// Compiles and loads the kernel of an append that writes queries too, as [`CudaKvTransform::prepare`].
    ///
    /// # Errors
    ///
    /// The errors of [`CudaKvTransform::prepare`].
    pub fn prepare_with_queries(&self, from: Dtype, to: Dtype, queries: Dtype) -> Result<(), CudaError> {
        self.prepare_types((from, to, Some(queries)))
    }

    fn prepare_types(&self, types: Types) -> Result<(), CudaError> {
        if self.modules.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&types) {
            return Ok(());
        }
        let (from, to, queries) = types;
        let ready = jit::obtain_for_device(self.device.capability(), |arch| match queries {
            Some(queries) => Ok(OpSource::rotate_append(self.transform.variant(), [from, to, queries], arch)?),
            None => self.source(from, to, arch),
        })?;
        let kernels = match (self.transform.formats(), from) {
            _ if queries.is_some() => &ROTATE_APPEND_KERNELS,
            (None, _) => &TRANSFORM_KERNELS,
            (Some(_), Dtype::U8) => &GATHER_PACKED_KERNELS,
            (Some(_), _) => &ENCODE_KERNELS,
        };
        let loaded = module::load(&self.device, &ready, kernels)?;
        let _current = self.device.make_current()?;
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        match modules.entry(types) {
            Entry::Occupied(_) => loaded.unload(),
            Entry::Vacant(vacant) => {
                vacant.insert(loaded);
            }
        }
        Ok(())
    }

    /// The source for a pair of element types; with KV formats one of both is [`Dtype::U8`].
    pub(in crate::cuda) fn source(&self, from: Dtype, to: Dtype, arch: Arch) -> Result<OpSource, CudaError> {
        let variant = self.transform.variant();
        Ok(match (self.transform.formats(), from) {
            (None, _) => OpSource::transform(variant, from, to, arch)?,
            (Some(_), Dtype::U8) => OpSource::gather_packed(variant, to, arch)?,
            (Some(_), _) => OpSource::encode(variant, from, arch)?,
        })
    }

    /// Replaces a tensor for later appends through the transform, as [`CudaAttention::set_tensor`] does for later runs.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaAttention::set_tensor`].
    ///
    /// [`CudaAttention::set_tensor`]: crate::cuda::CudaAttention::set_tensor
    pub fn set_tensor(
        self: &Arc<Self>,
        stream: &CudaStream,
        name: &str,
        content: &TensorContent<'_>,
    ) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.keep_captured(stream)?;
        let variant = self.transform.variant();
        let slot = variant.tensor_slot(name)?;
        slot.check(content)?;
        self.args.replace(stream, self.args.tensor(variant, &slot)?, content)
    }

    /// Replaces rows of a tensor for later appends through the transform, as [`CudaAttention::set_tensor_rows`] does
    /// for later runs.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaAttention::set_tensor_rows`].
    ///
    /// [`CudaAttention::set_tensor_rows`]: crate::cuda::CudaAttention::set_tensor_rows
    pub fn set_tensor_rows(
        self: &Arc<Self>,
        stream: &CudaStream,
        name: &str,
        rows: &TensorRows<'_>,
    ) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.keep_captured(stream)?;
        let variant = self.transform.variant();
        let slot = variant.tensor_slot(name)?;
        let buffer = self.args.tensor(variant, &slot)?;
        self.args.replace_content(|| write_rows(stream, buffer, &slot, rows))
    }

    /// The kernel for element types, by its number.
    pub(super) fn kernel(
        self: &Arc<Self>,
        stream: &CudaStream,
        types: Types,
        number: usize,
    ) -> Result<CUfunction, CudaError> {
        self.device.check_same("stream", stream.device())?;
        self.keep_captured(stream)?;
        let find = || {
            let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
            modules.get(&types).map(|module| module.get(number))
        };
        if let Some(function) = find() {
            return function;
        }
        stream.refuse_capture("load the kernel of an append")?;
        self.prepare_types(types)?;
        find().unwrap_or_else(|| Err(not_loaded(number)))
    }
}

impl fmt::Debug for CudaKvTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvTransform").field("transform", &self.transform).finish_non_exhaustive()
    }
}

impl Drop for CudaKvTransform {
    fn drop(&mut self) {
        let modules = self.modules.get_mut().unwrap_or_else(PoisonError::into_inner);
        modules.values().for_each(|op| self.device.release(Released::Module(op.module)));
    }
}
