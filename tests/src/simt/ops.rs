//! The kernels of ops, compiled for the host.

use std::{ffi::c_void, path::Path};

use attn_core::{dtype::Dtype, expr::Variant};
use attn_kernels::{
    launch::SELECT_THREADS,
    splice::{ENCODE_KERNELS, GATHER_PACKED_KERNELS, Op, OpSource, ROTATE_APPEND_KERNELS, TRANSFORM_KERNELS},
};
use libloading::Library;

use super::host_text::HostText;
use crate::host::{HostArgs, library};

/// The kernels of an op.
#[derive(Debug)]
pub struct HostOp {
    library: Library,
}

impl HostOp {
    /// Compiles an op, whose kernels take a struct of this name, in `folder`.
    ///
    /// # Panics
    /// Its text does not compile.
    #[must_use]
    pub fn compile(op: Op, params: &str, folder: &Path) -> HostOp {
        HostOp::compile_for("80", op, params, folder)
    }

    /// Compiles an op for an architecture by its number; [`HostOp::compile`] takes 80.
    ///
    /// # Panics
    /// Its text does not compile, or there is no such architecture.
    #[must_use]
    pub fn compile_for(arch: &str, op: Op, params: &str, folder: &Path) -> HostOp {
        let source = OpSource::build(op, arch.parse().expect("an architecture")).expect("a template").text;
        if !matches!(op, Op::Select { .. }) {
            return HostOp::of(&source, "LAUNCH_OP", op.kernels(), params, folder);
        }
        // few threads, so that each has many scores
        let threads = format!("SELECT_THREADS = {SELECT_THREADS};");
        assert!(source.contains(&threads));
        let source = source.replace(&threads, "SELECT_THREADS = 96;");
        HostOp::of(&source, "LAUNCH_SELECT", op.kernels(), params, folder)
    }

    /// Compiles appends through the transforms of a variant in `folder`.
    ///
    /// # Panics
    /// The text does not compile.
    #[must_use]
    pub fn transform(variant: &Variant, from: Dtype, to: Dtype, folder: &Path) -> HostOp {
        let arch = "80".parse().expect("an architecture");
        let source = OpSource::transform(variant, from, to, arch).expect("a template").text;
        HostOp::of(&source, "LAUNCH_TRANSFORM", &TRANSFORM_KERNELS, "RowsParams", folder)
    }

    /// Compiles appends through the transforms of a variant that write queries too, in `folder`. The types are those of
    /// the rows, the pools and the queries that are written.
    ///
    /// # Panics
    /// The text does not compile.
    #[must_use]
    pub fn rotate_append(variant: &Variant, types: [Dtype; 3], folder: &Path) -> HostOp {
        let arch = "80".parse().expect("an architecture");
        let source = OpSource::rotate_append(variant, types, arch).expect("a template").text;
        HostOp::of(&source, "LAUNCH_TRANSFORM", &ROTATE_APPEND_KERNELS, "RotateAppendParams", folder)
    }

    /// Compiles appends to pools of the KV formats of a variant, through its transforms, in `folder`.
    ///
    /// # Panics
    /// The text does not compile.
    #[must_use]
    pub fn encode(variant: &Variant, from: Dtype, folder: &Path) -> HostOp {
        let source = OpSource::encode(variant, from, "80".parse().expect("an architecture")).expect("a template").text;
        HostOp::of(&source, "LAUNCH_TRANSFORM", &ENCODE_KERNELS, "PackedRowsParams", folder)
    }

    /// Compiles gathers from pools of the KV formats of a variant in `folder`.
    ///
    /// # Panics
    /// The text does not compile.
    #[must_use]
    pub fn gather_packed(variant: &Variant, to: Dtype, folder: &Path) -> HostOp {
        let arch = "80".parse().expect("an architecture");
        let source = OpSource::gather_packed(variant, to, arch).expect("a template").text;
        HostOp::of(&source, "LAUNCH_TRANSFORM", &GATHER_PACKED_KERNELS, "PackedRowsParams", folder)
    }

    fn of(source: &str, launch: &str, kernels: &[&str], params: &str, folder: &Path) -> HostOp {
        let launches: String = kernels.iter().map(|kernel| format!("{launch}({kernel}, {params})\n")).collect();
        HostOp { library: library(folder, &HostText::of(source).with_launches(&launches)) }
    }

    /// Runs a kernel of the op on a grid, with `bytes` bytes of dynamic shared memory and threads in random order.
    ///
    /// # Safety
    /// The parameters are those of the kernel, and every address in them is that of an array which is long enough.
    ///
    /// # Panics
    /// There is no such kernel.
    pub unsafe fn run<P>(&self, kernel: &str, params: &P, variant: Option<&Variant>, grid: [u32; 2], bytes: u32) {
        type Launch<P> = unsafe extern "C" fn(*const P, *const c_void, i32, i32, u32, u32);
        let arguments = variant.map(HostArgs::of);
        let arguments = arguments.as_ref().map_or(std::ptr::null(), HostArgs::as_ptr);
        // SAFETY: launch.cpp defines it with this type.
        let function = unsafe { self.library.get::<Launch<P>>(format!("launch_{kernel}").as_bytes()) };
        let function = function.expect("a kernel of the op");
        // SAFETY: the caller promised what the kernel reads and writes.
        unsafe { function(params, arguments, grid[0] as i32, grid[1] as i32, bytes, grid[0]) }
    }
}
