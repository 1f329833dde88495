//! Runs an entry on the CPU backend, through the public interface, and compares it with its formula.

use attn::{Engine, Out, TensorMut, Variant};
use attn_testing::{Case, Inputs};

use super::Entry;
use crate::reference::{Attended, Packed, Shape, attend};

/// Checks an entry on its cases.
///
/// # Panics
/// The entry cannot be run, or differs from its formula. The message names entry, batch and element.
pub fn check(entry: &Entry) {
    for case in (entry.cases)() {
        let shape = Shape::of(&case);
        let made = (entry.make)(&shape);
        let title = format!("row {} {}: {} on {:?}", entry.row, entry.name, short(&made.expr), shape.lens);
        let variant = Variant::parse(&made.expr).unwrap_or_else(|error| panic!("{title}: {error}"));
        let inputs = Inputs::new(&case, false).expect("the cases of the catalogue are valid");
        let got = run(&variant, &case, &inputs).unwrap_or_else(|error| panic!("{title}: {error}"));
        let scale = f64::from(case.heads().default_sm_scale());
        let want = attend(&made.formula, &shape, &tensors(&shape, &inputs), scale);
        compare(&title, &got, &want, entry.tolerance, &shape);
    }
}

/// The first 160 characters of an expression.
fn short(expr: &str) -> String {
    match expr.char_indices().nth(160) {
        Some((at, _)) => format!("{} ..", &expr[..at]),
        None => expr.to_owned(),
    }
}

/// Runs a case on the CPU backend.
///
/// # Errors
/// The CPU backend refuses the variant or the batch.
pub fn run(variant: &Variant, case: &Case, inputs: &Inputs) -> Result<Attended, Box<dyn std::error::Error>> {
    let engine = Engine::cpu();
    let attention = engine.attention(variant, case.heads(), case.dtypes()?)?;
    let mut workspace = engine.workspace();
    let plan = attention.plan(&inputs.batch(&[]), &mut workspace)?;
    let shape = inputs.qo_shape();
    let mut o = vec![f32::NAN; shape.iter().product()];
    let mut lse = vec![f32::NAN; shape[0] * shape[1]];
    let out = Out::with_lse(TensorMut::host(&mut o, &shape)?, TensorMut::host(&mut lse, &shape[..2])?);
    plan.run(&engine.stream()?, inputs.q()?, inputs.kv()?, out)?;
    let wide = |x: Vec<f32>| x.into_iter().map(f64::from).collect();
    Ok(Attended { o: wide(o), lse: wide(lse) })
}

/// Gathers the logical tensors of a case from its pages.
///
/// # Panics
/// The batch is invalid.
pub fn tensors(shape: &Shape, inputs: &Inputs) -> Packed {
    let layout = inputs.batch(&[]).validate().expect("the batches of the catalogue are valid");
    let (k, v) = (inputs.k.to_f32(), inputs.v.to_f32());
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut token = 0;
    for (b, &(_, kv_len)) in shape.lens.iter().enumerate() {
        for j in 0..kv_len as usize {
            let (at, strides) = match layout.pages() {
                None => (token * inputs.kv_strides[0] as usize, &inputs.kv_strides[1..]),
                Some(pages) => {
                    let (page, slot) = pages.locate(b, j);
                    let at = page * inputs.kv_strides[0] as usize + slot * inputs.kv_strides[1] as usize;
                    (at, &inputs.kv_strides[2..])
                }
            };
            token += 1;
            for head in 0..shape.kv_heads as usize {
                let at = at + head * strides[0] as usize;
                let row = at..at + shape.head_dim as usize;
                keys.extend(k[row.clone()].iter().map(|&x| f64::from(x)));
                values.extend(v[row].iter().map(|&x| f64::from(x)));
            }
        }
    }
    Packed { q: inputs.q.to_f32().into_iter().map(f64::from).collect(), k: keys, v: values }
}

fn compare(title: &str, got: &Attended, want: &Attended, tolerance: f64, shape: &Shape) {
    assert_eq!(got.o.len(), want.o.len(), "{title}");
    let largest = want.o.iter().fold(1.0f64, |a, x| a.max(x.abs()));
    let (dim, heads) = (shape.head_dim as usize, shape.qo_heads as usize);
    for (n, (a, b)) in got.o.iter().zip(&want.o).enumerate() {
        let (row, d) = (n / dim, n % dim);
        let close = (a - b).abs() <= tolerance * largest;
        assert!(close, "{title}: token {}, head {}, value {d} is {a}, not {b}", row / heads, row % heads);
    }
    for (n, (a, b)) in got.lse.iter().zip(&want.lse).enumerate() {
        let close = a == b || (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(close, "{title}: LSE of token {}, head {} is {a}, not {b}", n / heads, n % heads);
    }
}
