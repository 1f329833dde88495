//! Runs steps on a device: a step of decoding replays the CUDA graph of its size, and any other step is launched as it
//! is.

use std::time::{Duration, Instant};

use attn::{Batch, BatchCapacity, GraphBuckets, PageTable, Plan, PlanOptions, Stream, Workspace, graph};

use super::{
    StepInput,
    forward::{Forward, ForwardOptions, StepParts},
    math::Math,
    sampler::Sampler,
    step_memory::StepMemory,
};
use crate::{Error, sampling::Sampled};

/// A model on a device, with the plans and graphs of its steps. It owns all memory that the graphs use.
///
/// A step of decoding is one in which each sequence has one new token. On a CUDA device it is a small copy, the update
/// of a plan, and the launch of one graph, which also draws the tokens. On the CPU there are no graphs.
#[derive(Debug)]
pub struct ModelRunner {
    // dropped first: the graphs use the other fields
    plans: Plans,
    /// For steps whose requests share many keys; their kernels are slower where there is nothing to share.
    cascades: Option<Plans>,
    math: Box<dyn Math>,
    forward: Forward,
    /// `None` for those who read the logits.
    sampler: Option<Sampler>,
    memory: StepMemory,
    times: HostTimes,
}

/// The plans of all steps, and the graphs of steps of decoding.
#[derive(Debug)]
struct Plans {
    /// `None` on the CPU.
    graphs: Option<GraphBuckets>,
    plan: Plan,
    _workspace: Workspace,
}

impl Plans {
    fn new(
        math: &dyn Math,
        forward: &Forward,
        options: &ForwardOptions,
        context: usize,
        levels: u32,
    ) -> Result<Self, Error> {
        let [tokens, sequences, pages, page_size] =
            [options.step_tokens, options.step_sequences, options.pages, options.page_size].map(count);
        let keys = sequences.saturating_mul(count(context)).min(i32::MAX as u32);
        let table = PageTable { indptr: &[0], indices: &[], last_page_len: &[], page_size, num_pages: pages };
        let (mut workspace, empty) = (math.engine().workspace(), Batch::paged(&[0], &table));
        let within = |capacity: BatchCapacity| capacity.in_pages(page_size, pages).in_levels(levels);
        let capacity = within(BatchCapacity::new(sequences, tokens, keys));
        let plan_options = PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
        let plan = forward.attention().plan_with(&empty, &mut workspace, plan_options)?;
        let graphs = (!math.engine().is_cpu()).then(|| {
            let (capacity, sizes) = (within(BatchCapacity::decode(sequences, keys)), GraphBuckets::sizes(sequences));
            GraphBuckets::new(math.engine(), &[&[forward.attention()]], &capacity, &sizes)
        });
        Ok(Plans { graphs: graphs.transpose()?, plan, _workspace: workspace })
    }
}

/// Time of the host in a step, before it waits for the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// The copy of tokens, slots, positions, rows, and of what draws need.
    pub uploads: Duration,
    /// The update of the plan, and the launch of the graph or of the kernels.
    pub launches: Duration,
}

impl ModelRunner {
    /// Makes the plans of all steps, over sequences of up to `context` tokens, and prepares what they launch. `options`
    /// are those of the forward pass. Without a sampler nothing is drawn.
    ///
    /// # Errors
    ///
    /// Out of memory, or neither kernels nor a compiler.
    pub fn new(
        mut math: Box<dyn Math>,
        forward: Forward,
        sampler: Option<Sampler>,
        options: &ForwardOptions,
        context: usize,
    ) -> Result<Self, Error> {
        math.prepare(&forward.weights().matrices(), options.step_tokens)?;
        let plans = |levels| Plans::new(&*math, &forward, options, context, levels);
        let cascades = forward.form().cascades.map(|cascades| plans(cascades.levels)).transpose()?;
        let plans = plans(1)?;
        let [tokens, rows] = [options.step_tokens, options.step_rows].map(|rows| math.padded_rows(rows));
        let words = StepParts::words(tokens, rows) + Sampler::words(rows);
        let memory = StepMemory::new(math.engine(), words)?;
        Ok(ModelRunner { plans, cascades, math, forward, sampler, memory, times: HostTimes::default() })
    }

    /// Runs a collective of the ranks that share the model, which connects them, and waits for it.
    ///
    /// # Errors
    ///
    /// A rank that does not come, or fails.
    pub fn connect(&mut self) -> Result<(), Error> {
        self.forward.add_up(self.math.stream(), 1)?;
        self.forward.add_up(self.math.stream(), 1)?;
        self.forward.wait(self.math.stream())
    }

    /// The forward pass, with the logits of the last step.
    pub fn forward(&self) -> &Forward {
        &self.forward
    }

    /// The mathematics.
    pub fn math(&self) -> &dyn Math {
        &*self.math
    }

    /// The time that the host took for the last step.
    pub fn host_times(&self) -> HostTimes {
        self.times
    }

    /// Makes the page copies of a step, runs it, and draws a token for each row.
    ///
    /// # Errors
    ///
    /// More tokens or rows than there is memory for, and failures of the device.
    pub fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        self.launch(input)?;
        self.forward.wait(self.math.stream())?;
        let stream = self.math.stream();
        let Some(sampler) = &mut self.sampler else {
            stream.synchronize()?;
            return Ok(Vec::new());
        };
        let mut drawn = sampler.read(stream, input.rows)?;
        if input.rows.iter().any(|row| row.params.score.is_some()) {
            self.score(input, &mut drawn)?;
        }
        Ok(drawn)
    }

    /// Puts the tokens that are scored in the place of those that were drawn. It reads the logits, which few steps do.
    fn score(&self, input: &StepInput<'_>, drawn: &mut [Sampled]) -> Result<(), Error> {
        let logits = self.math.engine().download::<f32>(&self.forward.logits)?;
        for ((row, sampled), logits) in input.rows.iter().zip(drawn).zip(logits.chunks(self.forward.vocab())) {
            let Some(token) = row.params.score else { continue };
            let logprob = log_prob(logits, token as usize);
            (sampled.token, sampled.logprob) = logprob.map_or((u32::MAX, f32::NAN), |logprob| (token, logprob));
        }
        Ok(())
    }

    /// Launches a step, without waiting for the device and without reading the tokens.
    fn launch(&mut self, input: &StepInput<'_>) -> Result<(), Error> {
        let ModelRunner { plans, cascades, math, forward, sampler, memory, times } = self;
        let begin = Instant::now();
        let (arrays, tokens, rows) = (input.step.arrays(), input.tokens.len(), input.rows.len());
        let (stream, levels) = (math.stream().clone(), input.step.levels());
        let pays = forward
            .form()
            .cascades
            .is_some_and(|form| forward.saved_bytes(arrays.qo_indptr, &levels) >= form.least_saved);
        let (Plans { graphs, plan, .. }, batch) = match cascades.as_mut().filter(|_| levels.len() > 1 && pays) {
            Some(cascades) => (cascades, Batch::cascade(arrays.qo_indptr, &levels)),
            None => (plans, arrays.batch()),
        };
        forward.cache_mut().copy_pages(&stream, input.step.copies())?;
        // a request may begin several choices at one token
        let decodes = arrays.kv_lens.len() == tokens && rows <= tokens;
        let graphs = graphs.as_mut().filter(|_| decodes);
        let bucket = match &graphs {
            Some(graphs) => graphs.capacities().map(|bucket| bucket.requests as usize).find(|&bucket| bucket >= tokens),
            None => None,
        };
        let [padded_tokens, padded_rows] = bucket.map_or([tokens, rows], |bucket| [bucket; 2]);
        memory.clear();
        let parts = StepParts::put(memory, input, padded_tokens, padded_rows)?;
        let form = match sampler {
            Some(sampler) => sampler.put(memory, &stream, input.rows, padded_rows)?,
            None => 0,
        };
        memory.upload(&stream)?;
        forward.upload_tables(&stream, input.step)?;
        times.uploads = begin.elapsed();
        let mut work = |plan: &Plan, stream: &Stream| {
            forward.run(&mut **math, plan, memory.view(), parts)?;
            match sampler {
                Some(sampler) => sampler.launch(memory, stream, &forward.logits, padded_rows),
                None => Ok(()),
            }
        };
        let launched = match graphs.filter(|_| bucket.is_some()) {
            None => {
                plan.update(&stream, &batch)?;
                work(plan, &stream)
            }
            Some(graphs) => {
                // the buckets pass on errors of the library; others wait here
                let mut failure = None;
                let work = |step: &mut graph::Step<'_>| {
                    work(&step.plans[0], step.stream).map_err(|error| match error {
                        Error::Attn(error) => error,
                        other => {
                            failure = Some(other);
                            attn::Error::NoCuda
                        }
                    })
                };
                // SAFETY: `self` owns the memory that the work uses, and replaces none of it. The work of a bucket and
                // a form is the same in each step: a forward pass and draws of its size, over the same parts of the
                // step's memory.
                let launched = unsafe { graphs.run_form(&stream, &batch, form, work) };
                launched.map_err(|error| failure.unwrap_or(Error::Attn(error)))
            }
        };
        times.launches = begin.elapsed() - times.uploads;
        launched
    }
}

/// The natural log-probability of a token; `None` for one outside of the vocabulary, and for logits that are not
/// finite.
pub fn log_prob(logits: &[f32], token: usize) -> Option<f32> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - most).exp()).sum();
    let logprob = (f64::from(*logits.get(token)? - most) - sum.ln()) as f32;
    (!logprob.is_nan()).then_some(logprob)
}

/// A count, as plans have it.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
