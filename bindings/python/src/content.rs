//! Elements of the caller's tensors, as the content of parameter tensors.

use attn::expr::TensorContent;
use attn::lang::{Bits, ParamElement, ParamField, Tensor1};
use attn::{F8E4M3, F8E5M2, Variant, bf16, f16};
use attn_core::lang::desc::Elem;

use crate::{element::Element, error::Failure, location::Location, tensor::View};

/// The elements of the caller's tensor, as the content of a parameter tensor of `variant`.
///
/// # Safety
///
/// Nothing writes the elements while the result lives, or, on a device, until the work of the call is done.
pub(crate) unsafe fn content<'a>(values: &View, variant: &Variant, name: &str) -> Result<TensorContent<'a>, Failure> {
    let Some(count) = values.dims.count().filter(|_| values.dims.is_row_major()) else {
        return Err(Failure::tensor(format!("{name} has gaps; pass {name}.contiguous()")));
    };
    values.check_aligned(name)?;
    // SAFETY: the caller's tensor has as many elements
    unsafe {
        Ok(match values.element {
            Element::F32 => of::<f32>(values, count),
            Element::F16 => of::<f16>(values, count),
            Element::Bf16 => of::<bf16>(values, count),
            Element::E4m3 => of::<F8E4M3>(values, count),
            Element::E5m2 => of::<F8E5M2>(values, count),
            Element::I32 => of::<i32>(values, count),
            Element::U32 => of::<u32>(values, count),
            Element::Bool => {
                if values.location == Location::Cpu && values.host::<u8>(count).iter().any(|&byte| byte > 1) {
                    return Err(Failure::tensor(format!("{name} has a byte that is no bool")));
                }
                of::<bool>(values, count)
            }
            // arrays have no type of bits
            Element::U8 if variant.tensor_slot(name).is_ok_and(|slot| slot.elem == Elem::Bits) => {
                of::<Bits>(values, count)
            }
            Element::U8 => of::<u8>(values, count),
            Element::U16 | Element::U64 | Element::I8 | Element::I16 | Element::I64 | Element::F64 => {
                let other = values.element.name();
                let types = "float32, float16, bfloat16, float8, int32, uint32, uint8 or bool";
                return Err(Failure::tensor(format!("{name} is of {other}; parameter tensors are of {types}")));
            }
        })
    }
}

/// # Safety
///
/// There are `count` elements of `T`; the conditions of [`content`].
unsafe fn of<'a, T: ParamElement>(values: &View, count: usize) -> TensorContent<'a>
where
    Tensor1<T>: ParamField,
{
    // SAFETY: the caller guarantees it
    unsafe {
        match values.location {
            Location::Cuda(_) => TensorContent::device::<T>(values.data as u64, count),
            Location::Cpu => TensorContent::host(values.host::<T>(count)),
        }
    }
}
