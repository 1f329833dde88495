//! What filters keep of rows, on any engine: a softmax, normalised probabilities, or masked logits.

use attn::sampling::{FilterOrder, SamplingParams, mask_logits, renorm_probs, softmax};
use attn::{DeviceBuffer, Engine, TensorRef};

use attn_core::dtype::Dtype;

/// Which of the ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Filtering {
    Softmax,
    Renorm,
    Mask,
}

/// Filters of all rows.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Filters {
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub order: FilterOrder,
}

/// Filters f32 rows with a gap behind each, which results have too and in which they keep -7.
///
/// # Panics
/// It fails, or writes to a gap.
pub fn filtered(
    engine: &Engine,
    what: Filtering,
    values: &[f32],
    [rows, vocab, stride]: [usize; 3],
    of: Filters,
) -> Vec<f32> {
    let stream = engine.stream().expect("a stream");
    let from = engine.upload(values).expect("memory");
    let mut to = engine.upload(&vec![-7.0f32; rows * stride]).expect("memory");
    let params = SamplingParams {
        temperature: if what == Filtering::Renorm { 1.0.into() } else { of.temperature.into() },
        top_k: of.top_k.into(),
        top_p: of.top_p.into(),
        min_p: of.min_p.into(),
        order: of.order,
        ..SamplingParams::default()
    };
    let from = rows_of(&from, [rows, vocab, stride]);
    let out = to.tensor_mut(&[rows, stride]).expect("fits").narrow(1, 0..vocab).expect("fits");
    match what {
        Filtering::Softmax => softmax(&stream, &from, &params, out),
        Filtering::Renorm => renorm_probs(&stream, &from, &params, out),
        Filtering::Mask => mask_logits(&stream, &from, &params, out),
    }
    .expect("sound");
    stream.synchronize().expect("it ran");
    let all = engine.download::<f32>(&to).expect("read");
    all.chunks(stride).for_each(|row| assert!(row[vocab..].iter().all(|&x| x == -7.0), "it writes to gaps"));
    all.chunks(stride).flat_map(|row| row[..vocab].to_vec()).collect()
}

fn rows_of(values: &DeviceBuffer, [rows, vocab, stride]: [usize; 3]) -> TensorRef<'_> {
    let all = values.tensor(&[rows, stride]).expect("fits").narrow(1, 0..vocab).expect("fits");
    assert_eq!(all.dtype(), Dtype::F32);
    all
}
