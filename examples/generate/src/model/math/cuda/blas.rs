//! cuBLASLt: its handle and descriptors, freed on drop. The library is loaded when it is first used.

use std::{ffi::c_void, ptr::from_ref};

use cudarc::cublaslt::{
    result::{self, CublasError},
    sys,
};

use crate::Error;

/// An object of cuBLASLt.
pub(super) struct Owned<T: Copy> {
    raw: T,
    destroy: unsafe fn(T) -> Result<(), CublasError>,
}

impl<T: Copy> Owned<T> {
    pub(super) fn raw(&self) -> T {
        self.raw
    }
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

impl<T: Copy> std::fmt::Debug for Owned<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of cuBLASLt")
    }
}

// SAFETY: cuBLASLt keeps nothing of a thread in its objects; its owner uses them from one thread at a time.
unsafe impl<T: Copy> Send for Owned<T> {}

pub(super) type Handle = Owned<sys::cublasLtHandle_t>;
pub(super) type Layout = Owned<sys::cublasLtMatrixLayout_t>;
pub(super) type Operation = Owned<sys::cublasLtMatmulDesc_t>;
type Preference = Owned<sys::cublasLtMatmulPreference_t>;

/// The error of a failed call.
pub(super) fn failed(what: &'static str) -> impl Fn(CublasError) -> Error {
    move |error| Error::Cublas { what, status: format!("{:?}", error.0) }
}

/// A handle, in the context that is current.
pub(super) fn handle() -> Result<Handle, Error> {
    // SAFETY: the initialisers of the library have no requirements on the caller.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::NoCublas);
    }
    let raw = result::create_handle().map_err(failed("start"))?;
    Ok(Owned { raw, destroy: result::destroy_handle })
}

/// A matrix whose columns are contiguous.
pub(super) fn layout(of: sys::cudaDataType, rows: usize, columns: usize) -> Result<Layout, Error> {
    let raw = result::create_matrix_layout(of, rows as u64, columns as u64, rows as i64);
    Ok(Owned { raw: raw.map_err(failed("describe a matrix"))?, destroy: result::destroy_matrix_layout })
}

/// The product of the transpose of A with B, with sums in f32.
pub(super) fn transposed_product() -> Result<Operation, Error> {
    let fail = failed("describe a product");
    let (sums, scales) = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
    let raw = result::create_matmul_desc(sums, scales).map_err(&fail)?;
    let operation = Owned { raw, destroy: result::destroy_matmul_desc as _ };
    let transposed = 1u32; // CUBLAS_OP_T
    let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA;
    // SAFETY: the descriptor lives, and the value is of the attribute's type.
    unsafe { result::set_matmul_desc_attribute(raw, attribute, address(&transposed), size_of_val(&transposed)) }
        .map_err(&fail)?;
    Ok(operation)
}

/// What an algorithm may do.
pub(super) fn preference(workspace: usize, splits_sums: bool) -> Result<Preference, Error> {
    use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
    let fail = failed("describe what an algorithm may do");
    let raw = result::create_matmul_pref().map_err(&fail)?;
    let preference = Owned { raw, destroy: result::destroy_matmul_pref as _ };
    let set = |attribute, value: *const c_void, size| {
        // SAFETY: the descriptor lives, and the value is of the attribute's type.
        unsafe { result::set_matmul_pref_attribute(raw, attribute, value, size) }.map_err(&fail)
    };
    set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, address(&workspace), size_of_val(&workspace))?;
    if !splits_sums {
        let none = 0u32; // no reduction of partial sums
        set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, address(&none), size_of_val(&none))?;
    }
    Ok(preference)
}

/// The address of a value.
pub(super) fn address<T>(value: &T) -> *const c_void {
    from_ref(value).cast()
}
