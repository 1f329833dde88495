//! Cases of sampling, which run on every engine and in the emulated kernel. Results compare to the bit.

use attn::ops::{DeviceArray, Number};
use attn::sampling::{
    FilterOrder, LogProbs, Penalties, PerRow, SampleOut, SamplingParams, TopLogProbs, prepare, prepare_probs, sample,
    sample_probs,
};
use attn::{DeviceBuffer, Engine, Error, Graph, TensorRef};
use attn_core::tensor::Element;
use half::{bf16, f16};

use attn_core::{dtype::Dtype, random, sampling::Source};
use attn_kernels::launch::SampleParams;

use crate::simt::HostSampler;

/// Rows to sample from, and parameters of each.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SamplingCase {
    pub name: String,
    pub source: Source,
    pub dtype: Dtype,
    pub rows: usize,
    pub vocab: usize,
    /// Elements from row to row.
    pub stride: usize,
    /// (rows, stride).
    pub values: Vec<f32>,
    pub temperature: Vec<f32>,
    pub top_k: Vec<i32>,
    pub top_p: Vec<f32>,
    pub min_p: Vec<f32>,
    pub seeds: Vec<u64>,
    pub order: FilterOrder,
    pub log_probs: LogProbs,
    pub penalties: bool,
    pub masked: bool,
    pub top_count: usize,
    pub indices: Option<Vec<i32>>,
    /// Whether the probabilities are wanted.
    pub probs: bool,
    /// Positions of the first draws; empty: the rows' numbers.
    pub first_positions: Vec<i64>,
}

/// What a case gives. Floats are bits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Drawn {
    pub ids: Vec<i32>,
    pub positions: Vec<i64>,
    pub counts: Vec<u32>,
    pub log_probs: Vec<u32>,
    pub probs: Vec<u32>,
    pub top_ids: Vec<i32>,
    pub top_log_probs: Vec<u32>,
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Numbers near a normal distribution, with this deviation.
pub fn normals(count: usize, seed: u32, deviation: f32) -> Vec<f32> {
    let uniform = |i: usize, j| random::uniform(seed, j, i as u32, 0) - 0.5;
    (0..count).map(|i| (uniform(i, 0) + uniform(i, 1) + uniform(i, 2) + uniform(i, 3)) * 1.732 * deviation).collect()
}

impl SamplingCase {
    /// Rows of logits without filters.
    pub fn new(name: &str, dtype: Dtype, rows: usize, vocab: usize) -> Self {
        let values = normals(rows * vocab, vocab as u32, 3.0);
        SamplingCase {
            name: format!("{name}, {rows} rows of {vocab} {dtype}"),
            source: Source::Logits,
            dtype,
            rows,
            vocab,
            stride: vocab,
            values,
            temperature: vec![1.0; rows],
            top_k: vec![0; rows],
            top_p: vec![1.0; rows],
            min_p: vec![0.0; rows],
            seeds: (0..rows as u64).map(|row| row * 7919 + 5).collect(),
            order: FilterOrder::TopKFirst,
            log_probs: LogProbs::Scaled,
            penalties: false,
            masked: false,
            top_count: 0,
            indices: None,
            probs: true,
            first_positions: Vec::new(),
        }
    }

    /// The same with probabilities of the logits.
    pub fn of_probs(mut self) -> Self {
        self.source = Source::Probs;
        self.name += ", probabilities";
        self.values.iter_mut().for_each(|x| *x = x.exp() / self.vocab as f32);
        self
    }

    /// The same where probabilities are not wanted, nor log-probabilities of what is kept.
    pub fn of_ids_alone(mut self) -> Self {
        self.name += ", ids alone";
        (self.probs, self.top_count, self.log_probs) = (false, 0, LogProbs::Scaled);
        self
    }

    /// Results' rows.
    pub fn draws(&self) -> usize {
        self.indices.as_ref().map_or(self.rows, Vec::len)
    }

    fn token_mask(&self) -> Vec<u32> {
        let words = self.vocab.div_ceil(32);
        (0..self.draws() * words)
            .map(|word| random::bits(1, 2, word as u32, 3) | random::bits(1, 2, 0, word as u32))
            .collect()
    }

    fn counts(&self) -> Vec<u32> {
        let count = |i: usize| match random::bits(4, 5, i as u32, 6) % 16 {
            0 => 1 << 31,
            1 => 1,
            2 => 5 | 1 << 31,
            _ => 0,
        };
        (0..self.draws() * self.vocab).map(count).collect()
    }

    /// The values as they are stored, in the type of the case.
    fn upload(&self, engine: &Engine) -> DeviceBuffer {
        fn of<T: Element>(engine: &Engine, values: &[f32]) -> DeviceBuffer {
            let values: Vec<T> = values.iter().map(|&x| T::from_f32(x)).collect();
            engine.upload(&values).expect("memory")
        }
        match self.dtype {
            Dtype::F16 => of::<f16>(engine, &self.values),
            Dtype::Bf16 => of::<bf16>(engine, &self.values),
            _ => of::<f32>(engine, &self.values),
        }
    }

    /// The rows, with their stride.
    fn tensor<'a>(&self, values: &'a DeviceBuffer) -> Result<TensorRef<'a>, Error> {
        let (shape, strides) = ([self.rows, self.vocab], [self.stride as i64, 1]);
        match values.device_ptr() {
            // SAFETY: the buffer holds `rows * stride` elements and outlives the tensor.
            Some(ptr) => Ok(unsafe { TensorRef::device(ptr, self.dtype, &shape, &strides) }?),
            None => Ok(values.tensor(&shape)?.with_strides(&strides)?),
        }
    }

    /// Parameters of rows, repeated for all draws.
    fn per_draw<T: Copy>(&self, of: &[T]) -> Vec<T> {
        (0..self.draws()).map(|row| of[row % of.len()]).collect()
    }

    /// What a run starts with: ids, positions, counts, and results that are no numbers.
    fn before(&self) -> Drawn {
        let rows = self.draws();
        let nan = f32::NAN.to_bits();
        Drawn {
            ids: vec![-7; rows],
            positions: if self.first_positions.is_empty() {
                (0..rows as i64).collect()
            } else {
                self.first_positions.clone()
            },
            counts: if self.penalties { self.counts() } else { vec![0] },
            log_probs: vec![nan; rows],
            probs: vec![nan; if self.probs { rows * self.vocab } else { 1 }],
            top_ids: vec![-7; rows * self.top_count],
            top_log_probs: vec![nan; rows * self.top_count],
        }
    }

    /// Samples on an engine, `steps` times; if `captured`, by replays of a graph. Calls `each` after each step.
    ///
    /// # Panics
    /// It fails.
    pub fn run(&self, engine: &Engine, captured: bool, steps: usize, mut each: impl FnMut(&[i32])) -> Drawn {
        fn numbers<T: Number>(engine: &Engine, of: &[T]) -> DeviceArray<T> {
            DeviceArray::upload(engine, of).expect("memory")
        }
        fn floats(of: &[u32]) -> Vec<f32> {
            of.iter().map(|&x| f32::from_bits(x)).collect()
        }
        let stream = engine.stream().expect("a stream");
        let rows = self.draws();
        let before = self.before();
        let values = self.upload(engine);
        let [temperature, top_p, min_p] =
            [&self.temperature, &self.top_p, &self.min_p].map(|of| numbers(engine, &self.per_draw(of)));
        let top_k = numbers(engine, &self.per_draw(&self.top_k));
        let seeds = numbers(engine, &self.per_draw(&self.seeds));
        let indices = self.indices.as_ref().map(|indices| numbers(engine, indices));
        let mask = numbers(engine, &self.token_mask());
        let (mut counts, mut positions) = (numbers(engine, &before.counts), numbers(engine, &before.positions));
        let (mut ids, mut top_ids) = (numbers(engine, &before.ids), numbers(engine, &before.top_ids));
        let mut log_probs = numbers(engine, &floats(&before.log_probs));
        let mut top_log_probs = numbers(engine, &floats(&before.top_log_probs));
        let mut probs = engine.upload(&floats(&before.probs)).expect("memory");
        let penalties = Penalties { repetition: 1.3.into(), presence: 0.4.into(), frequency: 0.2.into() };
        let params = SamplingParams {
            temperature: match self.source {
                Source::Logits => PerRow::Rows(temperature.array()),
                Source::Probs => 1.0.into(),
            },
            top_k: PerRow::Rows(top_k.array()),
            top_p: PerRow::Rows(top_p.array()),
            min_p: PerRow::Rows(min_p.array()),
            order: self.order,
            penalties: self.penalties.then_some(penalties),
            token_mask: self.masked.then(|| mask.array()),
            seeds: PerRow::Rows(seeds.array()),
            indices: indices.as_ref().map(DeviceArray::array),
            log_probs: self.log_probs,
        };
        let mut step = || {
            let mut out = SampleOut::new(ids.array_mut(), positions.array_mut());
            out.counts = self.penalties.then(|| counts.array_mut());
            out.log_probs = Some(log_probs.array_mut());
            out.probs = if self.probs { Some(probs.tensor_mut(&[rows, self.vocab])?) } else { None };
            if self.top_count > 0 {
                let (ids, log_probs) = (top_ids.array_mut(), top_log_probs.array_mut());
                out.top = Some(TopLogProbs { ids, log_probs, count: self.top_count });
            }
            match self.source {
                Source::Logits => sample(&stream, &self.tensor(&values)?, &params, &mut out),
                Source::Probs => sample_probs(&stream, &self.tensor(&values)?, &params, &mut out),
            }
        };
        if captured && !engine.is_cpu() {
            prepare(engine, self.dtype).expect("kernels");
            prepare_probs(engine, self.dtype).expect("kernels");
            let mut graph = Graph::capture(&stream, &mut step).expect("captured");
            for _ in 0..steps {
                // SAFETY: everything that it reads and writes lives until the stream is synchronised.
                unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
                stream.synchronize().expect("it ran");
                each(&ids.to_vec().expect("read"));
            }
        } else {
            for _ in 0..steps {
                step().expect("sound");
                stream.synchronize().expect("it ran");
            }
        }
        Drawn {
            ids: ids.to_vec().expect("read"),
            positions: positions.to_vec().expect("read"),
            counts: counts.to_vec().expect("read"),
            log_probs: bits(&log_probs.to_vec().expect("read")),
            probs: bits(&engine.download::<f32>(&probs).expect("read")),
            top_ids: top_ids.to_vec().expect("read"),
            top_log_probs: bits(&top_log_probs.to_vec().expect("read")),
        }
    }

    /// Samples in the emulated kernel, with rows in shared memory or without.
    pub fn run_emulated(&self, sampler: &HostSampler, resident: bool, seed: u32) -> Drawn {
        let values = self.upload(&Engine::cpu());
        let stored = values.tensor(&[values.elements()]).expect("fits");
        let source = match self.dtype {
            Dtype::F16 => stored.as_host::<f16>().map(|x| x.as_ptr() as u64),
            Dtype::Bf16 => stored.as_host::<bf16>().map(|x| x.as_ptr() as u64),
            _ => stored.as_host::<f32>().map(|x| x.as_ptr() as u64),
        };
        let mut out = self.before();
        let at = |of: &[f32]| of.as_ptr() as u64;
        let [temperature, top_p, min_p] = [&self.temperature, &self.top_p, &self.min_p].map(|of| self.per_draw(of));
        let (top_k, seeds) = (self.per_draw(&self.top_k), self.per_draw(&self.seeds));
        let mask = self.token_mask();
        let params = SampleParams {
            source: source.expect("on the host"),
            source_row: self.stride as i64,
            indices: self.indices.as_ref().map_or(0, |indices| indices.as_ptr() as u64),
            temperature: at(&temperature),
            top_k: top_k.as_ptr() as u64,
            top_p: at(&top_p),
            min_p: at(&min_p),
            seeds: seeds.as_ptr() as u64,
            token_mask: if self.masked { mask.as_ptr() as u64 } else { 0 },
            counts: if self.penalties { out.counts.as_mut_ptr() as u64 } else { 0 },
            positions: out.positions.as_mut_ptr() as u64,
            ids: out.ids.as_mut_ptr() as u64,
            log_probs: out.log_probs.as_mut_ptr() as u64,
            kept: if self.probs { out.probs.as_mut_ptr() as u64 } else { 0 },
            kept_row: self.vocab as i64,
            top_ids: if self.top_count > 0 { out.top_ids.as_mut_ptr() as u64 } else { 0 },
            top_log_probs: out.top_log_probs.as_mut_ptr() as u64,
            all_repetition: 1.3,
            all_presence: 0.4,
            all_frequency: 0.2,
            top_count: self.top_count as i32,
            sources: self.rows as i32,
            vocab: self.vocab as i32,
            penalties: i32::from(self.penalties),
            joint: i32::from(self.order == FilterOrder::Joint),
            of_kept: i32::from(self.log_probs == LogProbs::Kept),
            ..SampleParams::default()
        };
        sampler.run(&params, self.draws(), resident, seed);
        out
    }
}

/// Cases of every parameter and of inputs at the edge of what is defined, of at least 3 rows.
pub fn grid(dtype: Dtype, rows: usize, vocab: usize) -> Vec<SamplingCase> {
    let new = |name| SamplingCase::new(name, dtype, rows, vocab);
    let kept = LogProbs::Kept;
    let joint = FilterOrder::Joint;
    let k = vec![1, 50, vocab as i32 / 2];
    let p = vec![0.9, 0.3, 0.0];
    let mut cases = vec![
        new("no filter"),
        SamplingCase { temperature: vec![0.3, 2.0, 1e4], ..new("temperature") },
        SamplingCase { temperature: vec![0.0, 1e-6, -1.0], log_probs: kept, ..new("greedy") },
        SamplingCase { top_k: k.clone(), top_count: 5, ..new("top-k") },
        SamplingCase { top_k: vec![vocab as i32 + 1, -3, 64], log_probs: kept, ..new("top-k at its ends") },
        SamplingCase { top_p: p.clone(), top_count: 64, ..new("top-p") },
        SamplingCase { top_p: vec![1.5, f32::NAN, 0.999], log_probs: kept, ..new("top-p at its ends") },
        SamplingCase { min_p: vec![0.1, 1.0, 1e-4], top_count: 2, log_probs: kept, ..new("min-p") },
        SamplingCase { top_k: k.clone(), top_p: p.clone(), ..new("top-k first") },
        SamplingCase {
            top_k: vec![400, 50, 3],
            top_p: vec![0.2, 0.5, 0.7],
            order: joint,
            log_probs: kept,
            ..new("joint")
        },
        SamplingCase { top_k: k.clone(), top_p: vec![0.95; 3], min_p: vec![0.02; 3], ..new("all three") },
        SamplingCase { masked: true, penalties: true, top_p: vec![0.8; 3], top_count: 3, ..new("penalties and mask") },
        SamplingCase { indices: Some(vec![2, 0, 0, 1, 2]), top_p: vec![0.9; 3], ..new("indices") },
    ];
    let strided = SamplingCase { stride: vocab + 5, values: normals(rows * (vocab + 5), 9, 1.0), ..new("strides") };
    cases.push(SamplingCase { top_p: p.clone(), ..strided });
    let mut special =
        SamplingCase { top_p: vec![0.9; 3], top_k: vec![0, 7, 7], top_count: 4, ..new("NaN and infinities") };
    for i in (0..3 * vocab).step_by(7) {
        special.values[i] = [f32::NAN, f32::NEG_INFINITY, -f32::NAN][i % 3];
    }
    special.values[vocab / 2] = f32::INFINITY;
    special.values[vocab / 3] = f32::INFINITY;
    special.values[2 * vocab..3 * vocab].fill(f32::NAN);
    cases.push(special);
    // few distinct values
    let ties: Vec<f32> = normals(rows * vocab, 3, 2.0).iter().map(|x| x.round()).collect();
    cases.push(SamplingCase { values: ties.clone(), top_k: k, top_count: 9, ..new("ties, top-k") });
    cases.push(SamplingCase { values: ties, top_p: p, order: joint, ..new("ties, top-p") });
    let zeros = (0..rows * vocab).map(|i| if i % 3 == 0 { 0.0 } else { -0.0 }).collect();
    cases.push(SamplingCase { values: zeros, top_k: vec![9, 0, 70], top_p: vec![1.0, 0.5, 0.4], ..new("zeros") });
    let probs = [5, 8, 13, 7, 0].map(|i| SamplingCase { temperature: vec![1.0], ..cases[i].clone().of_probs() });
    cases.extend(probs);
    // where nothing but the token is asked for, no cut is found
    let flat = SamplingCase { min_p: vec![0.05, 0.5, 0.9], ..new("flat") };
    let both = SamplingCase { top_p: vec![0.9, 0.5, 0.1], ..flat.clone() };
    cases.extend([flat, both]);
    let alone = cases.clone().into_iter().filter(|case| {
        let filtered = case.top_p.iter().any(|&p| p < 1.0) || case.min_p.iter().any(|&p| p > 0.0);
        filtered || case.temperature.contains(&0.0)
    });
    let alone: Vec<_> = alone.map(SamplingCase::of_ids_alone).collect();
    cases.extend(alone);
    cases
}

/// Pearson's statistic of draws against probabilities, and the limit that it exceeds once in 10^6 samples or less.
/// Tokens that are expected fewer than 10 times are one class.
///
/// # Panics
/// A token of probability 0 was drawn.
pub fn chi_squared(drawn: &[u32], probs: &[f64]) -> (f64, f64) {
    let total: f64 = drawn.iter().map(|&n| f64::from(n)).sum();
    let (mut statistic, mut classes) = (0.0, 0.0);
    let (mut rare, mut rare_drawn) = (0.0, 0.0);
    for (&n, &p) in drawn.iter().zip(probs) {
        assert!(n == 0 || p > 0.0, "a token outside of the filters was drawn");
        let expected = p * total;
        if expected < 10.0 {
            rare += expected;
            rare_drawn += f64::from(n);
        } else {
            statistic += (f64::from(n) - expected).powi(2) / expected;
            classes += 1.0;
        }
    }
    if rare >= 10.0 {
        statistic += (rare_drawn - rare).powi(2) / rare;
        classes += 1.0;
    }
    // Wilson and Hilferty's approximation of the quantile, 5 deviations out
    let degrees = f64::max(classes - 1.0, 1.0);
    let spread = 2.0 / (9.0 * degrees);
    (statistic, degrees * (1.0 - spread + 5.0 * spread.sqrt()).powi(3))
}
