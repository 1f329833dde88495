//! The C library with variants of one's own. C programs link `downstream_c` in place of `attn_c`, with the same header,
//! and name the variants of [`downstream_variants`] beside the stock ones.

pub use attn_c::*;
// a crate that is linked registers its variants
pub use downstream_variants as variants;
