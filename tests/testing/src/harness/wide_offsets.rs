//! Offsets past 2^32 elements: rows that are far apart in a large tensor give the same bits as in a small one.

use serde::Serialize;

use attn::{AttentionOptions, Batch, Engine, Variant};
use attn_core::batch::PageTableBuf;
use attn_core::spec::KernelKind;

use crate::engine_memory::holds;
use crate::host::Host;
use crate::inputs::Inputs;
use crate::interleave::{self, Interleaved};
use crate::keys::Keys;
use crate::setup;
use crate::tensors::Tensors;
use crate::{Case, LayoutKind, Lens, Order, Pool, TestError};

/// The elements of a KV tensor past 32 bits: 10 GB of bf16.
pub const WIDE_OFFSET_ELEMENTS: usize = 5_000_000_000;

/// Variants that read keys as stored, and transformed.
const VARIANTS: [&str; 2] = ["causal", "causal + rope"];
const KERNELS: [&str; 3] = ["prefill", "decode", "mixed"];

/// A run over keys with wide offsets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WideOffsetsResult {
    /// Layout, kernel and variant.
    pub name: String,
    /// The elements of the KV tensor.
    pub elements: usize,
    /// Whether output and log-sum-exp have the same bits as over the same keys in a small tensor.
    pub passed: bool,
    /// The key of the main kernel's source; none on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key of what a GPU executes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Runs every kernel over keys at the end, in the middle, and around 6/7 of one KV tensor of `elements` elements, and
/// over the same keys in a small one. Paged keys are spread by page numbers, ragged ones by a stride. Everything else
/// is NaN. With [`WIDE_OFFSET_ELEMENTS`] offsets are past 2^32, which is at about 6/7. Kernels that the engine does not
/// have are skipped.
///
/// `None` if the engine has too little memory. The host needs the same amount.
///
/// # Errors
///
/// A run failed.
pub fn wide_offsets(engine: &Engine, elements: usize) -> Result<Option<Vec<WideOffsetsResult>>, TestError> {
    if !holds(engine, 2 * elements + (2 << 30)) {
        return Ok(None);
    }
    let mut results = Vec::new();
    for kv_layout in [LayoutKind::Paged, LayoutKind::Ragged] {
        over(&case("full", kv_layout), engine, elements, &mut results)?;
    }
    Ok(Some(results))
}

/// The cases that [`wide_offsets()`] lays over a large tensor.
#[must_use]
pub fn wide_offset_cases() -> Vec<Case> {
    let kernels = |case: Case| KERNELS.map(|kernel| Case { kernel: kernel.to_owned(), ..case.clone() });
    let layouts = |variant| [LayoutKind::Paged, LayoutKind::Ragged].map(|kv_layout| case(variant, kv_layout));
    VARIANTS.into_iter().flat_map(layouts).flat_map(kernels).collect()
}

fn case(variant: &str, kv_layout: LayoutKind) -> Case {
    Case {
        dtype: "bf16".to_owned(),
        qo_heads: 8,
        kv_heads: 2,
        head_dim: 128,
        qo_lens: Lens::List(vec![1, 5, 40]),
        kv_lens: Lens::List(vec![700, 33, 300]),
        kv_layout,
        pool: Pool::Fused,
        ..Case::new(variant)
    }
}

fn over(case: &Case, engine: &Engine, elements: usize, results: &mut Vec<WideOffsetsResult>) -> Result<(), TestError> {
    let inputs = Inputs::new(case, false)?;
    let mut small = Tensors::put(engine, case, &inputs)?;
    let (interleaved, shape, table) = spread(&inputs, elements);
    let mut large = Tensors::put(engine, case, &inputs)?;
    large.lay(engine, interleaved, &shape)?;
    let near_batch = inputs.batch(&[]);
    let far_batch = match &table {
        Some(table) => Batch::paged(&inputs.qo_indptr, &table.table()),
        None => near_batch,
    };
    for expr in VARIANTS {
        let variant = Variant::parse(expr).map_err(attn::Error::from)?;
        for kernel in KERNELS {
            // an unknown kernel has nothing to compare
            let Ok(kind) = kernel.parse::<KernelKind>() else { continue };
            let options = AttentionOptions { kernel: Some(kind), ..AttentionOptions::default() };
            let attention = engine.attention_with(&variant, case.heads(), case.dtypes()?, options)?;
            let stream = engine.stream()?;
            let run = |tensors: &mut Tensors, batch: &Batch<'_>| -> Result<_, TestError> {
                let mut workspace = engine.workspace();
                let plan = attention.plan(batch, &mut workspace)?;
                tensors.poison()?;
                tensors.run(&plan, &stream)?;
                stream.synchronize()?;
                Ok((tensors.written()?, setup::keys(&plan)))
            };
            let ((near, _), (far, (key, code))) = (run(&mut small, &near_batch)?, run(&mut large, &far_batch)?);
            let passed = near.same_and_inside(&far) && near.lse.iter().any(|x| x.is_finite());
            results.push(WideOffsetsResult {
                name: format!("{:?}, {kernel}, {expr}", case.kv_layout),
                elements,
                passed,
                key,
                code,
            });
        }
    }
    Ok(())
}

/// The fused KV tensor of some inputs with pages, or tokens, spread over `elements` elements; its shape, and its page
/// table.
fn spread(inputs: &Inputs, elements: usize) -> (Interleaved, Vec<usize>, Option<PageTableBuf>) {
    let near = interleave::keys_and_values(inputs, Order::Nhd, Pool::Fused);
    let (shape, part) = (&inputs.kv_shape, near.strides[0] as usize);
    let mut memory = Host::nan(inputs.k.dtype(), elements);
    let mut strides = near.strides.clone();
    if let Keys::Paged(table) = &inputs.keys {
        let pages = elements / part;
        let mut table = table.clone();
        table.num_pages = pages as u32;
        for (i, page) in table.indices.iter_mut().enumerate() {
            let nth = i / 4;
            let far = [pages - 1 - nth, pages / 7 * 6 + nth, pages / 2 + nth, nth][i % 4];
            memory.copy_row(far * part, &near.memory[0], *page as usize * part, part);
            *page = far as i32;
        }
        let shape = [&[pages][..], &shape[1..]].concat();
        return (Interleaved { memory: vec![memory], begins: near.begins, strides }, shape, Some(table));
    }
    // the last token ends within the tensor
    let step = (elements - part) / (shape[0] - 1) / 16 * 16;
    for token in 0..shape[0] {
        memory.copy_row(token * step, &near.memory[0], token * part, part);
    }
    strides[0] = step as i64;
    (Interleaved { memory: vec![memory], begins: near.begins, strides }, shape.clone(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_far_apart_give_the_same_bits() {
        let results = wide_offsets(&Engine::cpu(), 3_000_000).expect("runs").expect("there is memory");
        assert!(results.len() >= 8, "{results:?}");
        assert!(results.iter().all(|result| result.passed), "{results:?}");
    }

    #[test]
    fn spread_pages_are_where_the_table_says() {
        let case = Case { kv_layout: LayoutKind::Paged, pool: Pool::Fused, ..Case::new("full") };
        let inputs = Inputs::new(&case, false).expect("sound");
        let (interleaved, shape, table) = spread(&inputs, 1_000_000);
        let (memory, table) = (interleaved.memory[0].to_f32(), table.expect("paged"));
        let numbers = memory.iter().filter(|x| x.is_finite()).count();
        assert_eq!(numbers, 2 * (33 + 70) * 2 * 64, "keys and values");
        assert!(table.indices.iter().any(|&page| page as usize == shape[0] - 1), "the last page is one of them");
    }
}
