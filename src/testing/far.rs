//! Keys beyond what 32 bits count: the same rows in a small tensor and far apart in a large one give the same bits.

use serde::Serialize;

use crate::batch::PageTableBuf;
use crate::spec::KernelKind;
use crate::{AttentionOptions, Batch, Engine, Variant};

use super::inputs::{Host, Inputs};
use super::keys::Keys;
use super::place::Place;
use super::tensors::{Tensors, Written};
use super::weave::{self, Woven};
use super::{Case, LayoutKind, Lens, Order, Pool, TestError};

/// Elements of a tensor of keys and values that 32 bits do not count: 10 GB of bf16.
pub const FAR_ELEMENTS: usize = 5_000_000_000;

/// What runs over far keys: read as they are, and rewritten.
const VARIANTS: [&str; 2] = ["causal", "causal + rope"];

/// A run over far keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FarResult {
    /// Layout, kernel and variant.
    pub name: String,
    /// Elements of the tensor of keys and values.
    pub elements: usize,
    /// Whether output and log-sum-exp have the bits that they have over the same keys in a small tensor.
    pub identical: bool,
}

/// Runs every kernel over keys that lie at the end, in the middle, and around 6/7 of one tensor of `elements` elements that has keys and values, and over
/// the same keys in a small one: paged, by numbers of pages, and ragged, by a stride. Everything else in it is NaN. With [`FAR_ELEMENTS`] offsets are past
/// 2^32, and 6/7 of them is where 2^32 is. Kernels that the engine has not are left out.
///
/// `None` where the engine has no memory for it; it takes as much on the host.
///
/// # Errors
///
/// A run failed.
pub fn far(engine: &Engine, elements: usize) -> Result<Option<Vec<FarResult>>, TestError> {
    let place = Place::of(engine);
    if !place.holds(2 * elements + (2 << 30)) {
        return Ok(None);
    }
    let mut results = Vec::new();
    for kv_layout in [LayoutKind::Paged, LayoutKind::Ragged] {
        let case = Case {
            dtype: "bf16".to_owned(),
            qo_heads: 8,
            kv_heads: 2,
            head_dim: 128,
            qo_lens: Lens::List(vec![1, 5, 40]),
            kv_lens: Lens::List(vec![700, 33, 300]),
            kv_layout,
            pool: Pool::Fused,
            ..Case::new("full")
        };
        over(&case, engine, &place, elements, &mut results)?;
    }
    Ok(Some(results))
}

fn over(
    case: &Case,
    engine: &Engine,
    place: &Place,
    elements: usize,
    results: &mut Vec<FarResult>,
) -> Result<(), TestError> {
    let inputs = Inputs::new(case, false)?;
    let mut small = Tensors::put(place, case, &inputs)?;
    let (woven, shape, table) = spread(&inputs, elements);
    let mut large = Tensors::put(place, case, &inputs)?;
    large.lay(place, woven, &shape)?;
    let near_batch = inputs.batch(&[]);
    let far_batch = match &table {
        Some(table) => Batch::paged(&inputs.qo_indptr, &table.table()),
        None => near_batch,
    };
    for expr in VARIANTS {
        let variant = Variant::parse(expr).map_err(crate::Error::from)?;
        for kernel in ["prefill", "decode", "mixed"] {
            // a kernel that is not known has nothing to be compared
            let Ok(kind) = kernel.parse::<KernelKind>() else { continue };
            let options = AttentionOptions { kernel: Some(kind), ..AttentionOptions::default() };
            let attention = engine.attention_with(&variant, case.heads(), case.dtypes()?, options)?;
            let stream = engine.stream()?;
            let run = |tensors: &mut Tensors, batch: &Batch<'_>| -> Result<Written, TestError> {
                let mut workspace = engine.workspace();
                let plan = attention.plan(batch, &mut workspace)?;
                tensors.poison()?;
                tensors.run(&plan, &stream)?;
                stream.synchronize()?;
                tensors.written()
            };
            let (near, far) = (run(&mut small, &near_batch)?, run(&mut large, &far_batch)?);
            let identical = near.same_bits(&far) && near.lse.iter().any(|x| x.is_finite());
            results.push(FarResult { name: format!("{:?}, {kernel}, {expr}", case.kv_layout), elements, identical });
        }
    }
    Ok(())
}

/// The fused tensor of some inputs with its pages, or tokens, far apart in `elements` elements; its shape as keys have it, and the table of its pages.
fn spread(inputs: &Inputs, elements: usize) -> (Woven, Vec<usize>, Option<PageTableBuf>) {
    let near = weave::keys_and_values(inputs, Order::Nhd, Pool::Fused);
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
        return (Woven { memory: vec![memory], begins: near.begins, strides }, shape, Some(table));
    }
    // the last token ends within the tensor
    let step = (elements - part) / (shape[0] - 1) / 16 * 16;
    for token in 0..shape[0] {
        memory.copy_row(token * step, &near.memory[0], token * part, part);
    }
    strides[0] = step as i64;
    (Woven { memory: vec![memory], begins: near.begins, strides }, shape.clone(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_far_apart_are_the_same_rows() {
        let results = far(&Engine::cpu(), 3_000_000).expect("runs").expect("there is memory");
        assert!(results.len() >= 8, "{results:?}");
        assert!(results.iter().all(|result| result.identical), "{results:?}");
    }

    #[test]
    fn far_rows_are_where_the_table_says() {
        let case = Case { kv_layout: LayoutKind::Paged, pool: Pool::Fused, ..Case::new("full") };
        let inputs = Inputs::new(&case, false).expect("sound");
        let (woven, shape, table) = spread(&inputs, 1_000_000);
        let (memory, table) = (woven.memory[0].to_f32(), table.expect("paged"));
        let numbers = memory.iter().filter(|x| x.is_finite()).count();
        assert_eq!(numbers, 2 * (33 + 70) * 2 * 64, "keys and values");
        assert!(table.indices.iter().any(|&page| page as usize == shape[0] - 1), "the last page is one of them");
    }
}
