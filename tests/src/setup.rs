//! Set-up that several tests share: variants from expressions, attention on the CPU, page tables and parameter lists.

use attn::{batch::PageTableBuf, lang::ParamValue};
use facade::{Attention, AttentionOptions, Dtypes, Engine, Heads, Variant};

/// Parses an expression over stock variants.
///
/// # Panics
/// The expression is invalid.
#[must_use]
pub fn stock_variant(expr: &str) -> Variant {
    attn::registry::register(attn_variants::variants()).expect("no two share a name");
    Variant::parse(expr).expect(expr)
}

/// Binds an expression over stock variants on the CPU, in f32.
///
/// # Panics
/// The expression is invalid or does not bind.
#[must_use]
pub fn cpu_attention(expr: &str, heads: Heads, options: AttentionOptions) -> Attention {
    Engine::cpu().attention_with(&stock_variant(expr), heads, Dtypes::f32(), options).expect("bound")
}

/// A page table that takes the pages of the pool in descending order, so that page order differs from token order.
#[must_use]
pub fn descending_pages(kv_lens: &[u32], page_size: u32, num_pages: u32) -> PageTableBuf {
    let mut next = num_pages as i32;
    PageTableBuf::from_lens(kv_lens, page_size, num_pages, || {
        next -= 1;
        next
    })
}

/// The values of a parameter tensor as nested lists.
pub fn nested_list(shape: &[i64], values: &mut impl Iterator<Item = ParamValue>) -> ParamValue {
    match shape.split_first() {
        Some((&n, inner)) => ParamValue::List((0..n).map(|_| nested_list(inner, values)).collect()),
        None => values.next().unwrap_or(ParamValue::Int(0)),
    }
}
