//! The model on a GPU beside the model on the CPU: each operation, bits in batch-invariant mode, and steps of a small
//! model with made-up weights, in prompts and as graphs. Skipped without a GPU.
#![allow(clippy::print_stderr)]

use attn::{DeviceBuffer, Dtype, Engine, Heads, f16, ops::DeviceArray};
use attn_needs::{Need, needed};
use generate::model::{
    config::LlamaConfig,
    llama::{Device, Llama, LoadOptions},
    math::{CpuMath, CudaMath, CudaMathOptions, Math},
    random_weights::{MadeUp, normal},
    steps::{Steps, ends},
};

/// A GPU; `None` after the skip was recorded.
fn gpu() -> Option<Engine> {
    needed(Need::Gpu, Engine::cuda(0))
}

fn cuda(engine: &Engine, invariant: bool) -> CudaMath {
    let options = CudaMathOptions { fixed_rows: invariant, ..CudaMathOptions::default() };
    CudaMath::new(engine, options).expect("kernels and cuBLASLt")
}

/// Made-up values of this deviation, which f16 represents.
fn values(seed: u64, count: usize, deviation: f32) -> Vec<f32> {
    normal(count, seed, deviation).into_iter().map(|x| f16::from_f32(x).to_f32()).collect()
}

/// A buffer of activations with these values, and room for the padding of products.
fn activations(math: &dyn Math, values: &[f32], width: usize, dtype: Dtype) -> DeviceBuffer {
    let mut padded = values.to_vec();
    padded.resize((values.len() / width).next_multiple_of(64) * width, 0.0);
    if dtype == Dtype::F32 {
        math.engine().upload(&padded).expect("memory")
    } else {
        math.weights(&padded).expect("memory")
    }
}

/// The largest difference, in parts of the largest value.
fn error(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let largest = want.iter().fold(0f32, |a, b| a.max(b.abs()));
    let differences = got.iter().zip(want).map(|(a, b)| (a - b).abs());
    differences.fold(0f32, |a, b| if b.is_nan() { b } else { a.max(b) }) / largest
}

/// What an operation writes to `rows` rows of `width` elements, which were 0.25 before.
fn output(
    math: &mut dyn Math,
    (rows, width): (usize, usize),
    dtype: Dtype,
    run: impl Fn(&mut dyn Math, &mut DeviceBuffer),
) -> Vec<f32> {
    let mut out = activations(math, &vec![0.25; rows * width], width, dtype);
    run(math, &mut out);
    let out = math.engine().download_f32(&out).expect("no kernel failed");
    out[..rows * width].to_vec()
}

/// Checks an operation against the CPU. `run` is the same call on both.
fn agrees(
    gpu: &mut CudaMath,
    what: &str,
    shape: (usize, usize),
    dtype: Dtype,
    run: impl Fn(&mut dyn Math, &mut DeviceBuffer),
) {
    let mut cpu = CpuMath::new().expect("the CPU");
    let want = output(&mut cpu, shape, Dtype::F32, &run);
    let error = error(&output(gpu, shape, dtype, &run), &want);
    assert!(error <= 1e-3, "{what} to {dtype}: {error}");
}

#[test]
fn operations_agree_with_those_of_the_cpu() {
    let Some(engine) = gpu() else { return };
    let gpu = &mut cuda(&engine, false);
    let (rows, width, ffn, vocab) = (5, 576, 1536, 1000);
    let (x, gate_up) = (values(1, rows * width, 1.0), values(2, rows * 2 * ffn, 4.0));
    let (table, norm) = (values(3, vocab * width, 0.05), values(4, width, 1.0));
    agrees(gpu, "embed", (rows, width), Dtype::F32, |math, out| {
        let table = math.matrix(&table, width).expect("memory");
        let tokens = DeviceArray::upload(math.engine(), &[3, 999, 1000, -1, 0]).expect("memory");
        math.embed(&table, tokens.array(), out, rows).expect("embed");
    });
    agrees(gpu, "gather_rows", (3, width), Dtype::F32, |math, out| {
        let indices = DeviceArray::upload(math.engine(), &[4, 0, -1]).expect("memory");
        let x = activations(math, &x, width, Dtype::F32);
        math.gather_rows(&x, indices.array(), out, width, 3).expect("gather");
    });
    agrees(gpu, "rms_norm", (rows, width), Dtype::F16, |math, out| {
        let (x, norm) = (activations(math, &x, width, Dtype::F32), math.weights(&norm).expect("memory"));
        math.rms_norm(&x, &norm, 1e-5, out, rows).expect("norm");
    });
    for dtype in [Dtype::F16, Dtype::F32] {
        for (rows, accumulate) in [(5, false), (5, true), (1, false), (1, true), (2, true), (3, false), (4, true)] {
            agrees(gpu, "linear", (rows, vocab), dtype, |math, out| {
                let table = math.matrix(&table, width).expect("memory");
                let x = activations(math, &x, width, math.dtype());
                math.linear(&table, &x, out, rows, accumulate).expect("linear");
            });
        }
    }
    agrees(gpu, "silu_mul", (rows, ffn), Dtype::F16, |math, out| {
        let gate_up = activations(math, &gate_up, 2 * ffn, math.dtype());
        math.silu_mul(&gate_up, out, ffn, rows).expect("silu");
    });
}

#[test]
fn products_of_a_row_have_the_same_bits_in_every_batch() {
    let Some(engine) = gpu() else { return };
    let mut gpu = cuda(&engine, true);
    let most = 200;
    for (outputs, inputs) in [(960, 576), (576, 576), (3072, 576), (576, 1536), (49152, 576)] {
        let matrix = gpu.matrix(&values(5, outputs * inputs, 1.0), inputs).expect("memory");
        let x = values(6, most * inputs, 1.0);
        let mut product = |first: usize, rows: usize| {
            let out = output(&mut gpu, (rows, outputs), Dtype::F16, |math, out| {
                let x = activations(math, &x[first * inputs..(first + rows) * inputs], inputs, Dtype::F16);
                math.linear(&matrix, &x, out, rows, false).expect("linear");
            });
            out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let all = product(0, most);
        for (first, rows) in [(0, 1), (7, 1), (63, 2), (100, 33), (136, 64), (3, 130)] {
            let same = product(first, rows) == all[first * outputs..(first + rows) * outputs];
            assert!(same, "{rows} rows from {first} of ({outputs}, {inputs})");
        }
    }
}

const CONFIG: LlamaConfig = LlamaConfig {
    layers: 3,
    width: 576,
    heads: Heads { qo: 9, kv: 3, head_dim: 64 },
    ffn: 1536,
    vocab: 2048,
    context: 2048,
    norm_eps: 1e-5,
    rope_theta: 100_000.0,
};

/// A small model.
fn small(device: Device, invariant: bool) -> Steps {
    let options = LoadOptions {
        device,
        batch_invariant: Some(invariant),
        step_tokens: 128,
        step_sequences: 16,
        step_rows: 16,
        cache_tokens: 2048,
        draws: false,
        ..LoadOptions::default()
    };
    let weights = MadeUp { config: CONFIG, tied: true, seed: 1 };
    Steps::new(Llama::new(&CONFIG, &weights, 0, &options).expect("memory and kernels")).expect("small")
}

/// The logits after prompts of 20, 1 and 70 tokens, and after each of the next tokens, which are decoded together.
fn conversation(model: &mut Steps, steps: usize) -> Vec<Vec<f32>> {
    let token = |i: usize| (i * 37 % CONFIG.vocab) as u32;
    let prompts: Vec<Vec<u32>> = [20, 1, 70].iter().map(|&len| (0..len).map(|i| token(i + len)).collect()).collect();
    let mut sequences: Vec<_> = prompts.iter().map(|_| model.sequence()).collect();
    let new: Vec<&[u32]> = prompts.iter().map(|prompt| &prompt[..]).collect();
    let mut logits = model.logits(&mut sequences, &new, &ends(&new)).expect("a step");
    for step in 0..steps {
        let next = [token(step), token(step + 5), token(step + 9)];
        let new: Vec<&[u32]> = next.iter().map(std::slice::from_ref).collect();
        logits.extend(model.logits(&mut sequences, &new, &[0, 1, 2]).expect("a step"));
    }
    logits
}

#[test]
fn a_text_has_the_same_bits_in_every_chunking() {
    if gpu().is_none() {
        return;
    }
    let mut model = small(Device::Cuda, true);
    // keys are split every 1,024
    let text: Vec<u32> = (0..1300).map(|i| (i * 37 % CONFIG.vocab) as u32).collect();
    let mut bits = |chunks: &[usize]| -> Vec<Vec<u32>> {
        let logits = model.text(&text, chunks).expect("steps");
        logits.iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let want = bits(&[16]);
    for chunks in [&[1][..], &[13, 1, 2], &[7, 16]] {
        let first = bits(chunks).iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!(first, None, "the first token with other bits, in chunks of {chunks:?}");
    }
}

#[test]
fn steps_agree_with_those_of_the_cpu() {
    if gpu().is_none() {
        return;
    }
    let want = conversation(&mut small(Device::Cpu, false), 5);
    for invariant in [false, true] {
        let got = conversation(&mut small(Device::Cuda, invariant), 5);
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let error = error(got, want);
            assert!(error < 1e-2, "logits {step}, invariant {invariant}: {error}");
        }
    }
}
