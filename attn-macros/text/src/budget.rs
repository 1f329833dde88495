//! What a text may cost. It may come from anyone: a text that costs more is refused, with the budget's name, its limit
//! and the way out. What one item may cost is [`attn_codegen::budget`].

use proc_macro2::{TokenStream, TokenTree};

use crate::error::TextError;

/// The most files of a text.
pub(crate) const FILES: usize = 1024;
/// The most bytes of the name of a file: each mistake says it.
pub(crate) const NAME_OF_FILE: usize = 1024;
/// The most bytes of all files of a text.
pub(crate) const BYTES: usize = 1 << 20;
/// The most tokens of all files of a text.
pub(crate) const TOKENS: usize = 1 << 17;
/// The most steps of the macros over all items of a text. The stock variants together take less than half.
pub(crate) const STEPS: u64 = 400_000;
/// The most tokens of a variant or a helper once the helpers that it calls are written in their places, as compilers
/// of CUDA do it.
pub(crate) const INLINED: u64 = 1 << 16;
/// The most helpers that call each other in a row, and types inside each other.
pub(crate) const NESTED: usize = 32;
/// The most operations of a mask over one tile. Beyond, nothing is known of the tile.
pub(crate) const OF_TILE: u32 = 1 << 14;
/// The most mistakes that are told.
pub(crate) const MISTAKES: usize = 100;
/// The bytes of stack that reading a text may take.
pub(crate) const STACK: usize = 32 << 20;

/// Refuses files that are too many, or too long.
pub(crate) fn check_files(files: &[(&str, &str)]) -> Result<(), TextError> {
    let check = |budget, found, most, way_out| match found <= most {
        true => Ok(()),
        false => Err(TextError::Budget { budget, found, most, way_out }),
    };
    check("files", files.len(), FILES, PARTS)?;
    let names = files.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    check("bytes in the name of a file", names, NAME_OF_FILE, "give the file a shorter name")?;
    check("bytes", files.iter().map(|(_, text)| text.len()).sum(), BYTES, PARTS)
}

pub(crate) const PARTS: &str = "load the variants in several calls";

/// The number of tokens, those inside of brackets included.
pub(crate) fn tokens(stream: &TokenStream) -> usize {
    let of = |token: TokenTree| match token {
        TokenTree::Group(group) => 1 + tokens(&group.stream()),
        _ => 1,
    };
    stream.clone().into_iter().map(of).sum()
}
