//! What stock KV formats lose of real keys and values: queries, keys and values of three layers of SmolLM2-135M
//! (Apache-2.0), `examples/data/smollm2_qkv.safetensors`. The page of the book, `reference/kv-formats.md`, has the
//! table; this test writes it (`UPDATE_DOCS=1 cargo test -p attn-tests --test formats accuracy::`) and compares it.
//!
//! Attention over the rows that are read back is in f64, so that the errors are those of the formats alone.

use std::fmt::Write as _;

use attn_core::lang::kv_format::{ErasedKvFormat, KvFormat};
use attn_core::lang::{Dims, F8E4M3, Row, Tensor2};
use attn_tests::golden::compare_section;
use attn_variants::kv_formats::{self, Int4, Int8, MxFp8, Nvfp4, PerChannel, Turbo4};
use rayon::prelude::*;
use safetensors::SafeTensors;

const LAYERS: [u32; 3] = [3, 14, 29];
const TOKENS: usize = 158;
const QO_HEADS: usize = 9;
const KV_HEADS: usize = 3;
const DIM: usize = 64;

/// A layer in f32: rows of 64 elements, by token and head. Queries and keys have RoPE.
struct Layer {
    q: Vec<Vec<f32>>,
    k: Vec<Vec<f32>>,
    v: Vec<Vec<f32>>,
    /// The output of attention over the rows as they are.
    o: Vec<f64>,
}

fn tensor(name: &str) -> Vec<f32> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/smollm2_qkv.safetensors");
    let bytes = std::fs::read(path).expect("in the repository");
    let file = SafeTensors::deserialize(&bytes).expect("tensors");
    let tensor = file.tensor(name).expect(name);
    match tensor.dtype() {
        safetensors::Dtype::F16 => {
            let numbers = tensor.data().chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]));
            numbers.map(half::f16::to_f32).collect()
        }
        _ => tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect(),
    }
}

impl Layer {
    fn of(layer: u32) -> Layer {
        let rows = |name: &str, heads: usize, rope: bool| -> Vec<Vec<f32>> {
            let all = tensor(&format!("layer{layer}.{name}"));
            assert_eq!(all.len(), TOKENS * heads * DIM);
            let rows = all.chunks_exact(DIM).enumerate();
            rows.map(|(at, row)| if rope { with_rope(row, at / heads) } else { row.to_vec() }).collect()
        };
        let (q, k, v) = (rows("q", QO_HEADS, true), rows("k", KV_HEADS, true), rows("v", KV_HEADS, false));
        let o = attention(&q, &k, &v);
        Layer { q, k, v, o }
    }
}

/// RoPE in f64 on neighbouring pairs.
fn with_rope(row: &[f32], position: usize) -> Vec<f32> {
    let mut out = row.to_vec();
    for (i, pair) in out.chunks_exact_mut(2).enumerate() {
        let angle = position as f64 * 100_000f64.powf(-2.0 * i as f64 / DIM as f64);
        let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
        pair[0] = (a * angle.cos() - b * angle.sin()) as f32;
        pair[1] = (b * angle.cos() + a * angle.sin()) as f32;
    }
    out
}

/// Causal attention in f64: outputs by token and query head.
fn attention(q: &[Vec<f32>], k: &[Vec<f32>], v: &[Vec<f32>]) -> Vec<f64> {
    let head = |row: usize| {
        let (token, head) = (row / QO_HEADS, row % QO_HEADS / (QO_HEADS / KV_HEADS));
        let dot = |key: &[f32]| q[row].iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() / 8.0;
        let logits: Vec<f64> = (0..=token).map(|key| dot(&k[key * KV_HEADS + head])).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let mut o = vec![0.0; DIM];
        for (key, weight) in weights.iter().enumerate() {
            for (o, &x) in o.iter_mut().zip(&v[key * KV_HEADS + head]) {
                *o += weight / sum * f64::from(x);
            }
        }
        o
    };
    (0..q.len()).into_par_iter().flat_map_iter(head).collect()
}

/// How one of both, keys or values, is stored.
enum Stored {
    /// A tensor of e4m3 without a scale.
    E4m3,
    Format(Box<dyn ErasedKvFormat>),
    /// NVFP4 with the scale of the whole tensor.
    Nvfp4,
    /// Scales for each channel, of `bits` bits, calibrated on the same text.
    PerChannel(i32),
}

fn format(format: impl KvFormat + ErasedKvFormat) -> Stored {
    Stored::Format(bound(format))
}

fn bound(format: impl KvFormat + ErasedKvFormat) -> Box<dyn ErasedKvFormat> {
    let mut format: Box<dyn ErasedKvFormat> = Box::new(format);
    let dim = Some(DIM as i64);
    let dims = Dims { kv_heads: Some(KV_HEADS as i64), head_dim: dim, value_dim: dim, ..Dims::default() };
    format.bind(&dims).expect("it fits");
    format
}

fn largest<'a>(rows: impl Iterator<Item = &'a [f32]>) -> f32 {
    rows.flatten().fold(0.0, |most: f32, x| most.max(x.abs()))
}

impl Stored {
    /// The rows as they are read back.
    fn read_back(&self, rows: &[Vec<f32>]) -> Vec<Vec<f32>> {
        let through = |format: &dyn ErasedKvFormat, scale: f32| {
            let row = |(at, x): (usize, &Vec<f32>)| {
                let scaled: Vec<f32> = x.iter().map(|x| x * (1.0 / scale)).collect();
                let bytes = |n: i32| vec![0xff; n as usize];
                let mut codes = bytes(format.code_bytes(DIM as i32));
                let mut side = bytes(format.side_bytes(DIM as i32));
                let kv_head = (at % KV_HEADS) as i32;
                format.encode_row(&scaled, &mut codes, &mut side, kv_head);
                let mut back = vec![0.0; DIM];
                format.decode_row(&codes, &side, kv_head, &mut back);
                back.iter().map(|x| x * scale).collect()
            };
            rows.iter().enumerate().map(row).collect()
        };
        match self {
            Stored::E4m3 => rows.iter().map(|x| x.iter().map(|&x| F8E4M3::from_f32(x).to_f32()).collect()).collect(),
            Stored::Format(format) => through(&**format, 1.0),
            Stored::Nvfp4 => through(&*bound(Nvfp4), largest(rows.iter().map(Vec::as_slice)) / (6.0 * 448.0)),
            Stored::PerChannel(bits) => {
                let codes = if *bits == 8 { 127.0 } else { 7.0 };
                let of = |head: usize, d: usize| rows.iter().skip(head).step_by(KV_HEADS).map(move |x| &x[d..=d]);
                let scales = (0..KV_HEADS * DIM).map(|at| largest(of(at / DIM, at % DIM)) / codes).collect();
                let scales = Tensor2::new(scales, [KV_HEADS, DIM]).expect("one a channel");
                through(&*bound(PerChannel { bits: *bits, scales }), 1.0)
            }
        }
    }

    fn bytes(&self) -> i32 {
        let of = |format: &dyn ErasedKvFormat| format.code_bytes(DIM as i32) + format.side_bytes(DIM as i32);
        match self {
            Stored::E4m3 => DIM as i32,
            Stored::Format(format) => of(&**format),
            Stored::Nvfp4 => of(&*bound(Nvfp4)),
            Stored::PerChannel(bits) => DIM as i32 / 8 * bits,
        }
    }
}

/// A line of the table: its words, keys and values, and whether they are rotated.
type Line = (&'static str, Stored, Stored, bool);

fn lines() -> Vec<Line> {
    let int4 = |zero| format(Int4 { group: 32, zero });
    vec![
        ("e4m3 tensors, no scale", Stored::E4m3, Stored::E4m3, false),
        ("`int8`", format(Int8), format(Int8), false),
        ("`per_channel`, calibrated on the same text", Stored::PerChannel(8), Stored::PerChannel(8), false),
        ("`mx_fp8`", format(MxFp8), format(MxFp8), false),
        ("`int8 / int4(zero=true)`", format(Int8), int4(true), false),
        ("`int4`", int4(false), int4(false), false),
        ("`int4(zero=true)`", int4(true), int4(true), false),
        ("`nvfp4`, scale of the tensor", Stored::Nvfp4, Stored::Nvfp4, false),
        ("`per_channel(bits=4) / int4(zero=true)`", Stored::PerChannel(4), int4(true), false),
        ("`hadamard` and `int4`", int4(false), int4(false), true),
        ("`hadamard` and `nvfp4`, scale of the tensor", Stored::Nvfp4, Stored::Nvfp4, true),
        ("`hadamard` and `turbo4`", format(Turbo4::default()), format(Turbo4::default()), true),
        ("`hadamard` and `turbo4 / int4(zero=true)`", format(Turbo4::default()), int4(true), true),
    ]
}

/// Relative errors of a line: of outputs in each layer, and of keys and of values over all of them.
fn measured((_, keys, values, rotated): &Line, layers: &[Layer]) -> ([f64; 3], f64, f64) {
    let rotate = |rows: &[Vec<f32>]| {
        let mut rows = rows.to_vec();
        if *rotated {
            rows.iter_mut().for_each(|row| (&mut row[..]).hadamard());
        }
        rows
    };
    let mut of_outputs = [0.0; 3];
    let (mut of_keys, mut of_values) = ([0.0; 2], [0.0; 2]);
    for (layer, error) in layers.iter().zip(&mut of_outputs) {
        let (q, k, v) = (rotate(&layer.q), rotate(&layer.k), rotate(&layer.v));
        let (k_back, v_back) = (keys.read_back(&k), values.read_back(&v));
        add(&mut of_keys, &k_back, &k);
        add(&mut of_values, &v_back, &v);
        // a rotation of both outputs leaves the error as it is
        let (got, want) = (attention(&q, &k_back, &v_back), &layer.o);
        let mut got: Vec<f32> = got.into_iter().map(|x| x as f32).collect();
        if *rotated {
            got.chunks_exact_mut(DIM).for_each(|mut row| row.hadamard());
        }
        let squares = |x: f64| x * x;
        let difference: f64 = got.iter().zip(want).map(|(a, b)| squares(f64::from(*a) - b)).sum();
        *error = (difference / want.iter().copied().map(squares).sum::<f64>()).sqrt();
    }
    (of_outputs, (of_keys[0] / of_keys[1]).sqrt(), (of_values[0] / of_values[1]).sqrt())
}

/// Adds squares of differences and of what they are relative to.
fn add(sums: &mut [f64; 2], got: &[Vec<f32>], want: &[Vec<f32>]) {
    for (a, b) in got.iter().flatten().zip(want.iter().flatten()) {
        sums[0] += (f64::from(*a) - f64::from(*b)).powi(2);
        sums[1] += f64::from(*b).powi(2);
    }
}

#[test]
fn the_attention_of_this_test_is_that_of_numpy() {
    let layer = Layer::of(3);
    let (got, want) = (layer.o, tensor("layer3.causal.o"));
    assert_eq!(want.len(), got.len());
    // q and k with RoPE are rounded to f32 here
    assert!(got.iter().zip(&want).all(|(a, b)| (a - f64::from(*b)).abs() < 2e-6 * (1.0 + a.abs())));
}

#[test]
fn the_page_has_the_errors_that_are_measured() {
    let layers: Vec<Layer> = LAYERS.iter().map(|&layer| Layer::of(layer)).collect();
    let mut table = "| keys and values | bytes | o, layer 3 | layer 14 | layer 29 | k | v |\n".to_owned();
    table += "|---|---|---|---|---|---|---|\n";
    let mut errors = Vec::new();
    for line in lines() {
        let (o, k, v) = measured(&line, &layers);
        let bytes = f64::from(line.1.bytes() + line.2.bytes()) / 2.0;
        let _ = writeln!(table, "| {} | {bytes} | {:.4} | {:.4} | {:.4} | {k:.4} | {v:.4} |", line.0, o[0], o[1], o[2]);
        errors.push((line.0, o));
    }
    let of = |name: &str| errors.iter().find(|(line, _)| line.contains(name)).expect(name).1;
    // what the page says of the table
    for at in 0..3 {
        assert!(of("hadamard` and `int4")[at] < 0.7 * of("`int4`")[at], "a rotation makes int4 better");
        assert!(of("`int8 / int4")[at] < of("`int4(zero")[at] / 2.0, "keys decide");
        assert!(of("`int8`")[at] < of("e4m3")[at] / 2.0);
    }
    compare_section("../book/src/reference/kv-formats.md", "accuracy", &table);
    let page = include_str!("../../book/src/reference/kv-formats.md");
    assert!(kv_formats::all().iter().all(|desc| page.contains(&format!("`{}`", desc.name))), "every format is there");
}
