//! The model on a GPU beside the model on the CPU: each operation, bits in batch-invariant mode, and steps of a small
//! model with made-up weights, in prompts and as graphs. Skipped without a GPU.
#![allow(clippy::print_stderr)]

use attn::{DeviceBuffer, Dtype, Engine, Heads, f16, ops::DeviceArray};
use attn_cache::{Pages, Sequence, Step, StepCapacity};
use attn_needs::{Need, needed};
use generate::{
    Error,
    model::{
        SampleRow, StepInput,
        config::LlamaConfig,
        draw::NoDraw,
        forward::{Forward, ForwardOptions},
        math::{CpuMath, CudaMath, CudaMathOptions, Math},
        runner::ModelRunner,
        weights::{Checkpoint, LlamaWeights},
    },
    sampling::SamplingParams,
};

/// A GPU; `None` after the skip was recorded.
fn gpu() -> Option<Engine> {
    needed(Need::Gpu, Engine::cuda(0))
}

fn cuda(engine: &Engine, invariant: bool, residual: Dtype) -> CudaMath {
    let options = CudaMathOptions { fixed_rows: invariant, residual, ..CudaMathOptions::default() };
    CudaMath::new(engine, options).expect("kernels and cuBLASLt")
}

/// Made-up values in -scale..scale, which f16 represents.
fn values(seed: u64, count: usize, scale: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f16::from_f32(scale * ((state >> 40) as f32 / (1 << 23) as f32 - 1.0)).to_f32()
    };
    (0..count).map(next).collect()
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
    let gpu = &mut cuda(&engine, false, Dtype::F32);
    let (rows, width, ffn, vocab) = (5, 576, 1536, 1000);
    let (x, gate_up) = (values(1, rows * width, 1.0), values(2, rows * 2 * ffn, 4.0));
    let (table, norm) = (values(3, vocab * width, 0.05), values(4, width, 1.0));
    for dtype in [Dtype::F16, Dtype::F32] {
        let of = |math: &dyn Math| if math.engine().is_cpu() { Dtype::F32 } else { dtype };
        agrees(gpu, "embed", (rows, width), dtype, |math, out| {
            let table = math.matrix(&table, width).expect("memory");
            let tokens = DeviceArray::upload(math.engine(), &[3, 999, 1000, -1, 0]).expect("memory");
            math.embed(&table, tokens.array(), out, rows).expect("embed");
        });
        agrees(gpu, "gather_rows", (3, width), dtype, |math, out| {
            let indices = DeviceArray::upload(math.engine(), &[4, 0, -1]).expect("memory");
            let x = activations(math, &x, width, of(math));
            math.gather_rows(&x, indices.array(), out, width, 3).expect("gather");
        });
        agrees(gpu, "rms_norm", (rows, width), Dtype::F16, |math, out| {
            let (x, norm) = (activations(math, &x, width, of(math)), math.weights(&norm).expect("memory"));
            math.rms_norm(&x, &norm, 1e-5, out, rows).expect("norm");
        });
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
    let mut gpu = cuda(&engine, true, Dtype::F32);
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
    context: 512,
    norm_eps: 1e-5,
    rope_theta: 100_000.0,
};

/// Made-up weights, small enough that activations stay near 1.
struct MadeUp;

impl Checkpoint for MadeUp {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let seed = name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let scale = if shape.len() == 1 { 1.0 } else { 1.5 / (shape[1] as f32).sqrt() };
        Ok(values(seed, shape.iter().product(), scale))
    }

    fn has(&self, name: &str) -> bool {
        name != "output.weight"
    }
}

/// A small model.
struct Small {
    runner: ModelRunner<NoDraw>,
    pages: Pages,
    step: Step,
}

impl Small {
    fn new(math: Box<dyn Math>, invariant: bool) -> Self {
        let options = ForwardOptions {
            step_tokens: 128,
            step_sequences: 16,
            step_rows: 16,
            pages: 64,
            page_size: 16,
            cache_dtype: None,
            fixed_split_size: invariant.then_some(64),
        };
        let weights = LlamaWeights::load(&CONFIG, &MadeUp, &*math).expect("memory");
        let forward = Forward::new(&CONFIG, weights, &options, &*math).expect("kernels");
        let pages = Pages::new(64, 16).expect("a pool");
        let capacity = StepCapacity { sequences: 16, tokens: 128, pages: 64, pages_per_sequence: 32, levels: 1 };
        let step = Step::new(&pages, capacity).expect("small");
        let runner = ModelRunner::new(math, forward, NoDraw, &options, 512).expect("plans");
        Small { runner, pages, step }
    }

    /// The logits after the new tokens of `rows`.
    fn run(&mut self, sequences: &mut [Sequence], new: &[&[u32]], rows: &[usize]) -> Vec<Vec<f32>> {
        for (sequence, new) in sequences.iter_mut().zip(new) {
            sequence.append(new.len()).expect("pages");
        }
        self.step.build(&*sequences).expect("it fits");
        let params = SamplingParams::default();
        let row = |&row: &usize| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
        let (sample, tokens): (Vec<_>, _) = (rows.iter().map(row).collect(), new.concat());
        self.runner.run(&StepInput { step: &self.step, tokens: &tokens, rows: &sample, endless: &[] }).expect("a step");
        self.step.commit(&mut *sequences);
        let logits = self.runner.math().engine().download_f32(&self.runner.forward().logits).expect("read");
        logits.chunks(CONFIG.vocab).take(rows.len()).map(<[f32]>::to_vec).collect()
    }
}

/// The logits after prompts of 20, 1 and 70 tokens, and after each of the next tokens, which are decoded together.
fn conversation(model: &mut Small, steps: usize) -> Vec<Vec<f32>> {
    let token = |i: usize| (i * 37 % CONFIG.vocab) as u32;
    let prompts: Vec<Vec<u32>> = [20, 1, 70].iter().map(|&len| (0..len).map(|i| token(i + len)).collect()).collect();
    let mut sequences: Vec<_> = prompts.iter().map(|_| Sequence::new(&model.pages)).collect();
    let new: Vec<&[u32]> = prompts.iter().map(|prompt| &prompt[..]).collect();
    let mut logits = model.run(&mut sequences, &new, &[19, 20, 90]);
    for step in 0..steps {
        let next = [token(step), token(step + 5), token(step + 9)];
        let new: Vec<&[u32]> = next.iter().map(std::slice::from_ref).collect();
        logits.extend(model.run(&mut sequences, &new, &[0, 1, 2]));
    }
    logits
}

/// The logits after each token of a text, in chunks of these sizes by turns.
fn in_chunks(model: &mut Small, text: &[u32], chunks: &[usize]) -> Vec<Vec<u32>> {
    let (mut sequence, mut logits, mut fed) = ([Sequence::new(&model.pages)], Vec::new(), 0);
    for &chunk in chunks.iter().cycle() {
        let new = &text[fed..(fed + chunk).min(text.len())];
        let rows: Vec<_> = (0..new.len()).collect();
        logits.extend(model.run(&mut sequence, &[new], &rows));
        fed += new.len();
        if fed == text.len() {
            break;
        }
    }
    logits.iter().map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
}

#[test]
fn a_text_has_the_same_bits_in_every_chunking() {
    let Some(engine) = gpu() else { return };
    let mut model = Small::new(Box::new(cuda(&engine, true, Dtype::F32)), true);
    let text: Vec<u32> = (0..300).map(|i| (i * 37 % CONFIG.vocab) as u32).collect();
    let want = in_chunks(&mut model, &text, &[16]);
    for chunks in [&[1][..], &[13, 1, 2], &[7, 16]] {
        let got = in_chunks(&mut model, &text, chunks);
        let first = got.iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!(first, None, "the first token with other bits, in chunks of {chunks:?}");
    }
}

#[test]
fn steps_agree_with_those_of_the_cpu() {
    let Some(engine) = gpu() else { return };
    let want = conversation(&mut Small::new(Box::new(CpuMath::new().expect("the CPU")), false), 5);
    for (invariant, residual) in [(false, Dtype::F32), (false, Dtype::F16), (true, Dtype::F32)] {
        let math = Box::new(cuda(&engine, invariant, residual));
        let got = conversation(&mut Small::new(math, invariant), 5);
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let error = error(got, want);
            assert!(error < 1e-2, "logits {step}, invariant {invariant}, residual {residual}: {error}");
        }
    }
}
