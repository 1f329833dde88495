//! The reference against outputs that numpy computed in f64, for tensors of three layers of SmolLM2-135M-Instruct.
//! `cpu.rs` beside it compares it with the oracle.

use attn_tests::reference::{Formula, Packed, Shape, attend, causal};
use half::f16;
use safetensors::SafeTensors;

/// One text, and the heads of the model.
fn shape(tokens: i64) -> Shape {
    Shape { lens: vec![(tokens, tokens)], qo_heads: 9, kv_heads: 3, head_dim: 64, value_dim: 64 }
}

/// Rotates the pairs `(2 i, 2 i + 1)` of a row by its position over `100000^(i / 32)`.
fn rope(row: &mut [f64], position: i64) {
    for (i, pair) in row.chunks_exact_mut(2).enumerate() {
        let (sin, cos) = (position as f64 * 100_000f64.powf(-(i as f64) / 32.0)).sin_cos();
        (pair[0], pair[1]) = (pair[0] * cos - pair[1] * sin, pair[1] * cos + pair[0] * sin);
    }
}

fn rotated(formula: Formula) -> Formula {
    formula.query(|q, at| rope(q, at.i)).key(|k, at| rope(k, at.j))
}

#[test]
fn the_reference_equals_numpy() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/smollm2_qkv.safetensors");
    let file = std::fs::read(path).expect("in the repository");
    let file = SafeTensors::deserialize(&file).expect("tensors");
    let data = |name: &str| file.tensor(name).expect(name).data();
    let halves = |name: &str| -> Vec<f64> {
        data(name).chunks_exact(2).map(|bytes| f16::from_le_bytes([bytes[0], bytes[1]]).into()).collect()
    };
    let floats = |name: &str| -> Vec<f64> {
        let float = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        data(name).chunks_exact(4).map(|bytes| float(bytes).into()).collect()
    };
    for layer in ["layer3", "layer14", "layer29"] {
        let [q, k, v] = ["q", "k", "v"].map(|name| halves(&format!("{layer}.{name}")));
        let (shape, tensors) = (shape((q.len() / (9 * 64)) as i64), Packed { q, k, v });
        for (name, formula) in [
            ("causal", Formula::masked(causal)),
            ("soft_cap_30", Formula::masked(causal).logit(|z, _| 30.0 * (z / 30.0).tanh())),
            ("window_64", Formula::masked(|at| causal(at) && at.i - at.j < 64)),
        ] {
            let got = attend(&rotated(formula), &shape, &tensors, 0.125);
            for (what, got) in [("o", got.o), ("lse", got.lse)] {
                let want = floats(&format!("{layer}.{name}.{what}"));
                assert_eq!(got.len(), want.len());
                let largest = want.iter().fold(0f64, |most, x| most.max(x.abs()));
                let apart = got.iter().zip(&want).fold(0f64, |most, (got, want)| most.max((got - want).abs()));
                assert!(apart <= 1e-6 * largest, "{layer}, {name}.{what}: {apart} apart, of values up to {largest}");
            }
        }
    }
}
