//! Extents of KV formats: what binding refuses, in words, and that nothing it accepts touches memory around a row.

mod accepted;
mod doors;
mod probe;
mod random;
mod refused;

use attn_core::lang::kv_format::{DescribedKvFormat, KvFormats};
use attn_core::lang::{Dims, KvFormat};

/// The error of binding a format to `dim` elements and three KV heads, without lines.
fn bound(format: impl KvFormat + DescribedKvFormat, dim: i64) -> Result<(), String> {
    let dims = Dims { head_dim: Some(dim), kv_heads: Some(3), ..Dims::default() };
    KvFormats::both(format).bind(&dims).map_err(|error| without_lines(&error.to_string()))
}

/// `(`codes.u8`, ..rs:12)` without the line.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(".rs:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ".rs" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Declares a format without parameters: its sizes, `encode` and `decode`.
macro_rules! declare {
    (
        $name:ident, $codes:expr, $side:expr,
        |$x:ident, $c:ident, $s:ident, $h:ident| { $($encode:tt)* },
        |$rc:ident, $rs:ident, $rh:ident, $d:ident| { $($decode:tt)* } $(,)?
    ) => {
        #[derive(Clone, attn_core::VariantParams)]
        struct $name;
        #[attn_core::kv_format]
        impl attn_core::lang::KvFormat for $name {
            fn code_bytes(&self, dim: i32) -> i32 {
                let bytes: fn(i32) -> i32 = $codes;
                bytes(dim)
            }
            fn side_bytes(&self, dim: i32) -> i32 {
                let bytes: fn(i32) -> i32 = $side;
                bytes(dim)
            }
            fn encode<R: attn_core::lang::EncodeRow>(
                &self,
                $x: &R,
                $c: &mut attn_core::lang::PackedMut<'_>,
                $s: &mut attn_core::lang::PackedMut<'_>,
                $h: i32,
            ) {
                $($encode)*
            }
            fn decode(
                &self,
                $rc: attn_core::lang::Packed<'_>,
                $rs: attn_core::lang::Packed<'_>,
                $rh: i32,
                $d: i32,
            ) -> [f32; 8] {
                $($decode)*
            }
        }
    };
}
use declare;
