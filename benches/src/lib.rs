//! Variants and plan rules of the benches. GPU timings come from `attn bench`, see `results/README.md`.

use attn_core::batch::{Batch, BatchError, Layout, PageTableBuf, indptr};
use attn_core::expr::{ExprError, Variant};
use attn_core::plan::{Cost, PlanRule, Schedule};
use attn_core::spec::Heads;

/// 32 query heads and 8 KV heads.
pub const GROUPED: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };

/// The plan rule of decode over bf16 on a GPU with 132 SMs.
pub const DECODE: PlanRule = PlanRule {
    tile_rows: 8,
    kv_align: 64,
    min_span: 128,
    workers: 33,
    cost: Cost { item: 1000, block: 2000, merge: 100 },
    schedule: Schedule::StreamK,
};

/// Parses an expression of stock variants.
///
/// # Errors
///
/// Those of the expression.
pub fn variant(text: &str) -> Result<Variant, ExprError> {
    // registering twice changes nothing; a static library may have lost what `inventory` collects
    attn_core::registry::register(attn_variants::variants())?;
    Variant::parse(text)
}

/// A ragged batch.
///
/// # Errors
///
/// Lengths past 31 bits.
pub fn ragged(qo_lens: &[u32], kv_lens: &[u32]) -> Result<Layout, BatchError> {
    Batch::ragged(&indptr(qo_lens)?, &indptr(kv_lens)?).validate()
}

/// A paged batch over a pool that was filled in order.
///
/// # Errors
///
/// Lengths past 31 bits.
pub fn paged(qo_lens: &[u32], kv_lens: &[u32], page_size: u32) -> Result<Layout, BatchError> {
    Batch::paged(&indptr(qo_lens)?, &page_table(kv_lens, page_size).table()).validate()
}

/// The page table of these lengths over a pool that is filled in order.
pub fn page_table(kv_lens: &[u32], page_size: u32) -> PageTableBuf {
    let pages = kv_lens.iter().map(|len| len.div_ceil(page_size)).sum();
    let mut next = 0..;
    PageTableBuf::from_lens(kv_lens, page_size, pages, || next.next().unwrap_or(0))
}

/// Lengths of a serving batch: most are short, a few are very long; about `mean` on average, deterministic.
pub fn skewed(requests: u32, mean: u32) -> Vec<u32> {
    let harmonic: f64 = (1..=requests).map(|rank| f64::from(rank).recip()).sum();
    let scale = f64::from(requests) * f64::from(mean) / harmonic;
    // ranks are spread over the batch by a multiplier that is coprime to every power of two
    (0..requests).map(|i| (scale / f64::from(i * 7 % requests + 1)).max(1.0) as u32).collect()
}
