//! The variants that expressions may name.

use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::{Once, OnceLock};

use attn::{ExprError, Registry, Variant};

use crate::input::text;
use crate::status::{AttnStatus, call};

/// Registers the stock variants. They register themselves where a linker keeps what nothing refers to; of a static
/// library it does not.
fn register() {
    static REGISTERED: Once = Once::new();
    // a second variant of one name is the error of each expression
    REGISTERED.call_once(|| drop(attn::registry::register(attn::stock::variants())));
}

/// The variant of an expression.
pub(crate) fn parse(expression: &str) -> Result<Variant, ExprError> {
    register();
    Variant::parse(expression)
}

/// Names and documentation, by name.
fn listed() -> &'static [[CString; 2]] {
    static LISTED: OnceLock<Vec<[CString; 2]>> = OnceLock::new();
    LISTED.get_or_init(|| {
        register();
        let words = |text: &str| CString::new(text.trim()).unwrap_or_default();
        // two variants of one name are an error that each use of an expression tells
        let Ok(registry) = Registry::global() else { return Vec::new() };
        let mut all: Vec<_> = registry.iter().map(|variant| [words(variant.name), words(variant.doc)]).collect();
        all.sort();
        all
    })
}

/// The number of variants: the stock ones, and those of a library of one's own.
#[unsafe(no_mangle)]
pub extern "C" fn attn_variant_count() -> usize {
    listed().len()
}

/// The name of a variant, in the order of names; null past the last.
#[unsafe(no_mangle)]
pub extern "C" fn attn_variant_name(index: usize) -> *const c_char {
    listed().get(index).map_or(ptr::null(), |[name, _]| name.as_ptr())
}

/// What a variant is: a line, and where it comes from; null past the last.
#[unsafe(no_mangle)]
pub extern "C" fn attn_variant_doc(index: usize) -> *const c_char {
    listed().get(index).map_or(ptr::null(), |[_, doc]| doc.as_ptr())
}

/// Whether an expression is a variant, such as `causal + sliding_window(window=1024)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_variant_check(expression: *const c_char) -> AttnStatus {
    // SAFETY: the caller's text.
    call(|| Ok(parse(unsafe { text(expression, "the expression") }?).map(drop)?))
}
