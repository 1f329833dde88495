//! The generated C++ of KV formats, compiled for the host.

use std::{ffi::c_void, fmt::Write as _, path::Path};

use attn_core::lang::kv_format::{ErasedKvFormat, KvFormatDesc};
use attn_kernels::splice::{kv_format_args, kv_format_text, variant::Pointee};
use libloading::Library;

use crate::host;

const HARNESS: &str = include_str!("kv_format_harness.cpp");

/// The generated C++ of some formats, compiled and loaded.
#[derive(Debug)]
pub struct HostFormats {
    library: Library,
}

/// The text of a format's struct, called by its name in capitals.
///
/// # Panics
/// Its parts do not go together.
pub fn text(desc: &KvFormatDesc) -> String {
    kv_format_text(desc, &struct_name(desc)).expect("its parts go together")
}

fn struct_name(desc: &KvFormatDesc) -> String {
    format!("{}_FORMAT", desc.name.to_uppercase())
}

impl HostFormats {
    /// Compiles formats in `folder`.
    ///
    /// # Panics
    /// A text does not compile.
    pub fn compile(formats: &[&KvFormatDesc], folder: &Path) -> HostFormats {
        let mut all = host::templates(&["lang/lang.cuh", "lang/exact.cuh", "lang/bits.cuh"]);
        all += "\nusing namespace lang;\n";
        formats.iter().for_each(|desc| all += &text(desc));
        let _ = write!(all, "\n#line 1 \"harness\"\n{HARNESS}");
        for desc in formats {
            let (name, ty) = (desc.name, struct_name(desc));
            let _ = write!(
                all,
                "extern \"C\" void encode_{name}(const void* f, const float* x, int dim, unsigned char* codes, \
                 unsigned char* side, int kv_head) {{ encode_row<{ty}>(f, x, dim, codes, side, kv_head); }}\n\
                 extern \"C\" void decode_{name}(const void* f, unsigned char* codes, unsigned char* side, \
                 int kv_head, float* x, int dim) {{ decode_row<{ty}>(f, codes, side, kv_head, x, dim); }}\n"
            );
        }
        HostFormats { library: host::library(folder, &all) }
    }

    /// A bound format among those that were compiled.
    pub fn of<'a>(&'a self, format: &'a dyn ErasedKvFormat) -> HostFormat<'a> {
        HostFormat { library: &self.library, name: format.desc().name, args: FormatArgs::of(format) }
    }
}

/// A format's struct in memory, and the tensors that it points to.
#[derive(Debug)]
struct FormatArgs {
    words: Vec<u64>,
    _tables: Vec<Vec<u64>>,
}

impl FormatArgs {
    fn of(format: &dyn ErasedKvFormat) -> FormatArgs {
        let mut tables = Vec::new();
        let bytes = kv_format_args(format, &mut |pointee| {
            let Pointee::Table(bytes) = pointee else { unreachable!("a format stores nothing") };
            tables.push(host::words(bytes));
            Ok::<_, std::convert::Infallible>(tables.last().map_or(0, |table: &Vec<u64>| table.as_ptr() as u64))
        });
        FormatArgs { words: host::words(&bytes.unwrap_or_else(|never| match never {})), _tables: tables }
    }
}

/// A format with its parameters.
#[derive(Debug)]
pub struct HostFormat<'a> {
    library: &'a Library,
    name: &'static str,
    args: FormatArgs,
}

impl HostFormat<'_> {
    fn args(&self) -> *const c_void {
        self.args.words.as_ptr().cast()
    }

    /// Stores a row.
    ///
    /// # Panics
    /// The format was not compiled.
    pub fn encode(&self, x: &[f32], codes: &mut [u8], side: &mut [u8], kv_head: i32) {
        type Encode = unsafe extern "C" fn(*const c_void, *const f32, i32, *mut u8, *mut u8, i32);
        // SAFETY: `compile` defines the name with this signature; the format writes within its bytes of a row.
        unsafe {
            let f = self.library.get::<Encode>(format!("encode_{}", self.name).as_bytes()).expect("compiled");
            f(self.args(), x.as_ptr(), x.len() as i32, codes.as_mut_ptr(), side.as_mut_ptr(), kv_head);
        }
    }

    /// Reads the first elements of a stored row, a multiple of eight.
    ///
    /// # Panics
    /// The format was not compiled.
    pub fn decode(&self, codes: &[u8], side: &[u8], kv_head: i32, x: &mut [f32]) {
        type Decode = unsafe extern "C" fn(*const c_void, *const u8, *const u8, i32, *mut f32, i32);
        assert_eq!(x.len() % 8, 0);
        // SAFETY: `compile` defines the name with this signature; the format reads within its bytes of a row, and
        // writes eight elements at a time.
        unsafe {
            let f = self.library.get::<Decode>(format!("decode_{}", self.name).as_bytes()).expect("compiled");
            f(self.args(), codes.as_ptr(), side.as_ptr(), kv_head, x.as_mut_ptr(), x.len() as i32);
        }
    }
}
