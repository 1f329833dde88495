//! Compiles generated C++ with a host compiler and calls its hooks, for comparison with the Rust of a variant.

use std::{ffi::c_void, path::Path, sync::Arc};

use attn_core::Variant;
use attn_core::lang::{Dims, KvIndex, LogitIndex, RowIndex, RowState, Tile, TileClass, VariantDesc};
use attn_kernels::splice::variant::{Pointee, variant_args, variant_source};
use libloading::Library;

use crate::compiler::shared_library;
use crate::mutant::{mutated, progress};
use crate::sanitizers;

/// C++ that exports every hook of `struct Variant` through a C interface.
pub const HARNESS: &str = include_str!("harness.cpp");

/// The generated C++ of a variant, compiled and loaded.
#[derive(Clone, Debug)]
pub struct HostText {
    library: Arc<Library>,
}

/// The generated C++ of a variant with its parameters.
#[derive(Debug)]
pub struct HostVariant {
    library: Arc<Library>,
    args: HostArgs,
    /// The owner of output tensors.
    _variant: Variant,
}

/// The parameters of a variant in memory.
#[derive(Debug)]
pub struct HostArgs {
    /// `struct Variant`, aligned for pointers.
    words: Vec<u64>,
    /// The parameter tensors that it points to, aligned for their elements. Output tensors belong to the variant.
    _tables: Vec<Vec<u64>>,
}

impl HostArgs {
    /// The parameters of a bound variant, which must outlive uses of its output tensors.
    pub fn of(variant: &Variant) -> HostArgs {
        let mut tables = Vec::new();
        let bytes = variant_args(variant, |pointee| {
            let address = match pointee {
                Pointee::Table(bytes) => {
                    tables.push(words(bytes));
                    tables.last().map_or(0, |table: &Vec<u64>| table.as_ptr() as u64)
                }
                Pointee::Out(out) => out.as_ptr() as u64,
            };
            Ok::<_, std::convert::Infallible>(address)
        });
        HostArgs { words: words(&bytes.unwrap_or_else(|never| match never {})), _tables: tables }
    }

    /// `struct Variant`.
    pub fn as_ptr(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }
}

/// The CUDA headers of the language in one text.
///
/// # Panics
/// A header is missing.
pub fn lang() -> String {
    templates(&["lang/lang.cuh"])
}

/// The named headers and everything that they include, each once, in one text.
///
/// # Panics
/// A header is missing.
pub fn templates(names: &[&str]) -> String {
    attn_kernels::splice::inlined(names).expect("every header is there")
}

/// Compiles a C++ text for the host with `ATTN_HOST` in `folder`, and loads the library.
///
/// # Panics
/// The text does not compile.
pub fn library(folder: &Path, text: &str) -> Library {
    library_with(folder, text, &[])
}

/// [`library`] of random text, whose warnings are no errors: some conditions are constant, and not every such warning
/// has a name.
///
/// # Panics
/// The text does not compile.
pub fn library_of_random_text(folder: &Path, text: &str) -> Library {
    library_with(folder, text, &["-Wno-error"])
}

fn library_with(folder: &Path, text: &str, options: &[&str]) -> Library {
    let options = [&OPTIONS[..], options, sanitizers::options()].concat();
    let library = shared_library(folder, &format!("#define ATTN_HOST\n{}", mutated(text)), &options);
    progress();
    let library = library.unwrap_or_else(|errors| panic!("{errors}"));
    // SAFETY: the library was built from our own text and has no constructors.
    unsafe { Library::new(&library) }.expect("a library")
}

/// The options for all texts. To optimise them further takes longer than most run.
const OPTIONS: [&str; 20] = [
    "-std=c++17",
    "-Og",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-fast-math",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-unused-variable",
    "-Wno-psabi",
    "-Wno-unused-but-set-variable",
    "-Wno-overflow",
    "-Wno-type-limits",
    "-Wno-unknown-pragmas",
    "-Wno-sign-compare",
    "-Wno-tautological-compare",
    "-Wno-bool-operation",
    "-Wno-int-in-bool-context",
];

impl HostText {
    /// Compiles the text of a variant in `folder`.
    ///
    /// # Panics
    /// The text does not compile.
    pub fn compile(variant: &Variant, folder: &Path) -> HostText {
        let text = variant_source(variant).expect("the parts go together");
        let library = library(folder, &format!("{}\n{text}\n#line 1 \"harness\"\n{HARNESS}", lang()));
        HostText { library: Arc::new(library) }
    }

    /// Combines the text with the parameters of a bound variant of the same parts.
    pub fn with(&self, variant: &Variant) -> HostVariant {
        HostVariant { library: self.library.clone(), args: HostArgs::of(variant), _variant: variant.clone() }
    }
}

impl HostVariant {
    /// Compiles a bound variant in `folder`.
    ///
    /// # Panics
    /// The text does not compile.
    pub fn compile(variant: &Variant, folder: &Path) -> HostVariant {
        HostText::compile(variant, folder).with(variant)
    }

    /// Compiles a bound expression over stock variants and `own` variants.
    ///
    /// # Panics
    /// The expression is invalid, or the text does not compile.
    pub fn of_expr(expr: &str, own: &[&'static VariantDesc], dims: &Dims) -> HostVariant {
        attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
        attn_core::registry::register(own).expect("no two share a name");
        let variant = Variant::parse(expr).expect(expr).bind(dims).expect(expr);
        let folder = tempfile::tempdir().expect("a temporary folder");
        HostVariant::compile(&variant, folder.path())
    }

    fn call<F: Copy>(&self, name: &str) -> (F, *const c_void) {
        // SAFETY: the harness defines every name with the signature that the caller gives; see harness.cpp.
        let function = unsafe { self.library.get::<F>(name.as_bytes()) }.expect("the harness has it");
        (*function, self.args.as_ptr())
    }

    /// `query_transform`.
    pub fn query_row(&self, q: &mut [f32], at: RowIndex) {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *mut f32, i32, *const i32)>("query");
        // SAFETY: the row is `len` values, the index eight words; the variant's tables live as long as it.
        unsafe { f(v, q.as_mut_ptr(), q.len() as i32, row(at).as_ptr()) }
    }

    /// `key_transform`.
    pub fn key_row(&self, k: &mut [f32], at: KvIndex) {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *mut f32, i32, *const i32)>("key");
        let at = [at.batch, at.kv_pos, at.kv_token, at.kv_head, at.kv_len];
        // SAFETY: the row is `len` values, the index five words; the variant's tables live as long as it.
        unsafe { f(v, k.as_mut_ptr(), k.len() as i32, at.as_ptr()) }
    }

    /// `value_transform`.
    pub fn value_row(&self, x: &mut [f32], at: KvIndex) {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *mut f32, i32, *const i32)>("value");
        let at = [at.batch, at.kv_pos, at.kv_token, at.kv_head, at.kv_len];
        // SAFETY: the row is `len` values, the index five words; the variant's tables live as long as it.
        unsafe { f(v, x.as_mut_ptr(), x.len() as i32, at.as_ptr()) }
    }

    /// `output_transform`.
    pub fn output_row(&self, o: &mut [f32], state: RowState, at: RowIndex) {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *mut f32, i32, *const f32, *const i32)>("output");
        let state = [state.row_max, state.denominator, state.lse];
        // SAFETY: the row is `len` values, the state three words, the index eight.
        unsafe { f(v, o.as_mut_ptr(), o.len() as i32, state.as_ptr(), row(at).as_ptr()) }
    }

    /// `logits_transform`.
    pub fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, f32, *const i32) -> f32>("logits_transform");
        // SAFETY: the index is eleven words.
        unsafe { f(v, logit, logit_index(at).as_ptr()) }
    }

    /// The bias that `logits_transform` adds, if it only adds one; else 0.
    pub fn logits_bias(&self, at: LogitIndex) -> f32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32) -> f32>("logits_bias");
        // SAFETY: the index is eleven words.
        unsafe { f(v, logit_index(at).as_ptr()) }
    }

    /// The increase of the bias from one key to the next, if it is known to be affine in the key.
    pub fn logits_slope(&self, at: LogitIndex) -> Option<f32> {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32, *mut f32) -> i32>("logits_slope");
        let mut slope = 0.0;
        // SAFETY: the index is eleven words, the slope one.
        let known = unsafe { f(v, logit_index(at).as_ptr(), &raw mut slope) != 0 };
        known.then_some(slope)
    }

    /// The tensor element that is added, if the bias is known to be a row of a tensor.
    pub fn logits_bias_row(&self, at: LogitIndex) -> Option<f32> {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32, *mut f32) -> i32>("logits_bias_row");
        let mut element = 0.0;
        // SAFETY: the index is eleven words, the element one.
        let known = unsafe { f(v, logit_index(at).as_ptr(), &raw mut element) != 0 };
        known.then_some(element)
    }

    /// The bound of transformed logits, if it is known.
    pub fn logits_bound(&self) -> Option<f32> {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *mut f32) -> i32>("logits_bound");
        let mut bound = 0.0;
        // SAFETY: the bound is one word.
        let known = unsafe { f(v, &raw mut bound) != 0 };
        known.then_some(bound)
    }

    /// `logits_mask`.
    pub fn logits_mask(&self, at: LogitIndex) -> bool {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32) -> i32>("logits_mask");
        // SAFETY: the index is eleven words.
        unsafe { f(v, logit_index(at).as_ptr()) != 0 }
    }

    /// `weight`.
    pub fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, f32, f32, *const i32) -> f32>("weight");
        // SAFETY: the index is eleven words.
        unsafe { f(v, logit, row_max, logit_index(at).as_ptr()) }
    }

    /// `denominator`.
    pub fn denominator(&self, logit: f32, row_max: f32, weight: f32, at: LogitIndex) -> f32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, f32, f32, f32, *const i32) -> f32>("denominator");
        // SAFETY: the index is eleven words.
        unsafe { f(v, logit, row_max, weight, logit_index(at).as_ptr()) }
    }

    /// `kv_list_len`.
    pub fn kv_list_len(&self, at: RowIndex) -> i32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32) -> i32>("kv_list_len");
        // SAFETY: the index is eight words.
        unsafe { f(v, row(at).as_ptr()) }
    }

    /// `kv_list_block`.
    pub fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32, i32) -> i32>("kv_list_block");
        // SAFETY: the index is eight words.
        unsafe { f(v, row(at).as_ptr(), n) }
    }

    /// The keys of a row as an interval, if the mask is one.
    pub fn kv_bounds(&self, at: RowIndex) -> Option<std::ops::Range<i32>> {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32, *mut i32) -> i32>("kv_bounds");
        let mut keys = [0; 2];
        // SAFETY: the index is eight words, the bounds two.
        let known = unsafe { f(v, row(at).as_ptr(), keys.as_mut_ptr()) != 0 };
        known.then_some(keys[0]..keys[1])
    }

    /// `sink_logit`.
    pub fn sink_logit(&self, at: RowIndex) -> f32 {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32) -> f32>("sink_logit");
        // SAFETY: the index is eight words.
        unsafe { f(v, row(at).as_ptr()) }
    }

    /// `tile_class`.
    pub fn tile_class(&self, t: Tile) -> TileClass {
        let (f, v) = self.call::<unsafe extern "C" fn(*const c_void, *const i32) -> i32>("tile_class");
        let tile = tile(t);
        // SAFETY: the tile is seventeen words.
        match unsafe { f(v, tile.as_ptr()) } {
            0 => TileClass::Skip,
            1 => TileClass::Partial,
            _ => TileClass::Full,
        }
    }
}

/// Bytes, aligned for pointers.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0; bytes.len().div_ceil(8)];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

fn row(at: RowIndex) -> [i32; 8] {
    [at.batch, at.qo_row, at.qo_pos, at.qo_token, at.qo_head, at.kv_head, at.qo_len, at.kv_len]
}

fn logit_index(at: LogitIndex) -> [i32; 11] {
    let [a, b, c, d, e, f, g, h] = row(at.row);
    [a, b, c, d, e, f, g, h, at.kv_pos, at.kv_token, at.kv_slot]
}

fn tile(t: Tile) -> [i32; 17] {
    let rows = [t.batch, t.qo_row_min, t.qo_row_max, t.qo_pos_min, t.qo_pos_max, t.qo_token_min, t.qo_token_max];
    let heads = [t.qo_head_min, t.qo_head_max, t.kv_head_min, t.kv_head_max, t.qo_len, t.kv_len];
    let keys = [t.kv_pos_min, t.kv_pos_max, t.kv_token_min, t.kv_token_max];
    let mut words = [0; 17];
    for (word, x) in words.iter_mut().zip(rows.into_iter().chain(heads).chain(keys)) {
        *word = x;
    }
    words
}
