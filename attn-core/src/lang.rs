//! The variant language: the traits and types that a user writes a variant with, and their CPU semantics.
//!
//! The hooks of [`variant::AttentionVariant`] take [`coordinates`] and [`row`]s. Fields of a variant are [`params`]:
//! [`field`] has their types, [`param_tensor`] the parameter tensors, [`derive_support`] what the derive calls.
//! [`desc`] and [`device_type`] are what the macros generate for kernels: CUDA text and tables. [`interval`] is the
//! abstract interpreter that classifies tiles. [`erased_variant`] is the object-safe form that compositions run on the
//! CPU. [`kv_format`] says how keys and values are stored.

pub mod approx;
pub mod bits;
mod compose_error;
pub mod coordinates;
#[doc(hidden)]
pub mod derive_support;
pub mod desc;
pub mod device_type;
#[doc(hidden)]
pub mod divide;
pub mod erased_variant;
pub mod field;
pub mod interval;
pub(crate) mod keywords;
pub mod kv_format;
#[doc(hidden)]
pub mod lints;
pub mod math;
pub mod param_tensor;
pub mod params;
pub mod random;
pub mod row;
pub mod scalar;
pub mod space;
pub mod tile;
pub mod variant;

pub use compose_error::ComposeError;
pub use coordinates::{KvIndex, LogitIndex, RowIndex};
pub use desc::{ConstValue, DeviceFn, FieldDesc, FieldType, Hook, HookText};
pub use device_type::DeviceType;
pub use erased_variant::{Described, ErasedVariant, VariantDesc};
pub use kv_format::{EncodeRow, KvFormat, KvFormats, Packed, PackedMut};
pub use param_tensor::{
    Bits, F8E4M3, F8E5M2, OutTensor, OutTensor1, OutTensor2, OutTensor3, OutTensor4, Tensor, Tensor0, Tensor1, Tensor2,
    Tensor3, Tensor4,
};
pub use params::{BindError, Dims, ParamError, ParamValue, ParamValues, VariantParams};
pub use row::{Row, RowState};
pub use tile::{QueryTile, Tile, TileClass, Tristate};
pub use variant::{AttentionVariant, Normalizer};
