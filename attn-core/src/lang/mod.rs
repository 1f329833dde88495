//! The variant language: what a user writes and what it means.
//!
//! Flow: [`index`] words and [`row`]s go into the hooks of [`variant::AttentionVariant`]; [`params`] are the
//! variant's fields ([`field`] their types, [`table`] the captured tensors, [`bind`] what the derive calls); [`desc`] is what the macros make of it (CUDA text and tables), [`device_type`] what they make of structs and enums in hooks; [`erased`] is the form
//! that run-time composition uses on the CPU; [`compose`] refuses parts that do not go together.

pub mod approx;
#[doc(hidden)]
pub mod bind;
pub mod compose;
pub mod desc;
pub mod device_type;
pub mod erased;
pub mod field;
pub mod index;
#[doc(hidden)]
pub mod notes;
pub mod params;
pub mod random;
pub mod range;
pub mod row;
pub mod table;
pub mod tile;
pub mod variant;

pub use compose::ComposeError;
pub use desc::{ConstValue, DeviceFn, FieldDesc, FieldType, Hook, HookText, VariantDesc};
pub use device_type::DeviceType;
pub use erased::{Described, ErasedVariant};
pub use index::{KvIndex, LogitIndex, RowIndex};
pub use params::{BindError, Dims, ParamError, ParamValue, ParamValues, VariantParams};
pub use row::{Row, RowState};
pub use table::{
    Bits, F8E4M3, F8E5M2, OutTensor, OutTensor1, OutTensor2, OutTensor3, OutTensor4, Tensor, Tensor0, Tensor1, Tensor2,
    Tensor3, Tensor4,
};
pub use tile::{QueryTile, Tile, TileClass, Tri};
pub use variant::{AttentionVariant, Normalizer};
