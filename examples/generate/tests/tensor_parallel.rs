//! A model that is shared out gives the logits of the whole one: over threads on the CPU, and over GPUs where there are
//! some.

use attn::{Engine, Heads, parallel::Communicator};
use attn_needs::{Need, needed};
use generate::{
    Error,
    model::{
        Model, SampleRow,
        config::LlamaConfig,
        llama::{Device, Llama, LoadOptions},
        random_weights::MadeUp,
        steps::{Steps, ends},
        tensor_parallel::TensorParallel,
    },
    sampling::SamplingParams,
};

const CONFIG: LlamaConfig = LlamaConfig {
    layers: 3,
    width: 192,
    heads: Heads { qo: 8, kv: 2, head_dim: 64 },
    ffn: 384,
    vocab: 512,
    context: 512,
    norm_eps: 1e-5,
    rope_theta: 10_000.0,
};

fn weights() -> MadeUp {
    MadeUp { config: CONFIG, tied: false, seed: 3 }
}

fn options(device: Device) -> LoadOptions {
    let sizes = LoadOptions { step_tokens: 128, step_sequences: 8, step_rows: 8, ..LoadOptions::default() };
    LoadOptions { device, cache_tokens: 1024, batch_invariant: Some(false), ..sizes }
}

fn shared(engines: &[Engine], options: &LoadOptions) -> Result<TensorParallel, Error> {
    TensorParallel::new(engines, &CONFIG, &weights(), 0, options)
}

/// What is drawn greedily after prompts of 20, 1 and 70 tokens and in six more steps, and the logits of each.
fn conversation<M: Model>(model: M, logits: impl Fn(&M) -> Vec<f32>) -> (Vec<u32>, Vec<Vec<f32>>) {
    let mut steps = Steps::new(model).expect("small");
    let prompts = [20, 1, 70].map(|len| (0..len).map(|i| (i * 37 + len) % 512).collect::<Vec<u32>>());
    let mut sequences = prompts.each_ref().map(|_| steps.sequence());
    let (mut new, mut drawn, mut all) = (prompts.to_vec(), Vec::new(), Vec::new());
    for _ in 0..7 {
        let step: Vec<&[u32]> = new.iter().map(Vec::as_slice).collect();
        let tokens = steps.run(&mut sequences, &step, &ends(&step)).expect("a step");
        let tokens: Vec<u32> = tokens.iter().map(|of| of.token).collect();
        new = tokens.iter().map(|&token| vec![token]).collect();
        drawn.extend(tokens);
        all.push(logits(&steps.llama));
    }
    (drawn, all)
}

fn whole(device: Device) -> (Vec<u32>, Vec<Vec<f32>>) {
    let llama = Llama::new(&CONFIG, &weights(), 0, &options(device)).expect("a model");
    conversation(llama, |llama| llama.logits(3).expect("a step"))
}

fn check(engines: &[Engine], device: Device, tolerance: f32) {
    let (tokens, logits) = whole(device);
    let (got_tokens, got) =
        conversation(shared(engines, &options(device)).expect("a model"), |of| of.logits(3).expect("a step"));
    let ranks = engines.len();
    for (step, (got, want)) in got.iter().zip(&logits).enumerate() {
        let largest = want.iter().fold(0f32, |a, b| a.max(b.abs()));
        let apart = got.iter().zip(want).map(|(a, b)| (a - b).abs() / largest);
        let most = apart.fold(0f32, |most, one| if one <= most { most } else { one });
        assert!(most < tolerance, "{ranks} ranks, step {step}: {most}");
    }
    assert_eq!(got_tokens, tokens, "{ranks} ranks");
}

#[test]
fn threads_give_the_logits_of_one() {
    // four and eight ranks share two KV heads
    for ranks in [1, 2, 4, 8] {
        check(&vec![Engine::cpu(); ranks], Device::Cpu, 1e-5);
    }
}

/// Also in replays of graphs, which all steps but the first are.
#[test]
fn gpus_give_the_logits_of_one() {
    let Some(first) = needed(Need::Gpu, Engine::cuda(0)) else { return };
    if needed(Need::Nccl, Communicator::unique_id()).is_none() {
        return;
    }
    let mut engines = vec![first];
    engines.extend((1..8).map_while(|device| Engine::cuda(device).ok()));
    for ranks in [1, 2, 4, 8].into_iter().filter(|&ranks| ranks <= engines.len()) {
        check(&engines[..ranks], Device::Cuda, 5e-3);
    }
}

#[test]
fn what_cannot_be_shared_out_is_refused_and_breaks_nothing() {
    let refused =
        |ranks: usize| shared(&vec![Engine::cpu(); ranks], &options(Device::Cpu)).expect_err("refused").to_string();
    assert!(refused(3).contains("8 heads do not divide among 3 ranks"), "{}", refused(3));
    assert!(refused(0).contains("do not divide among 0 GPUs"), "{}", refused(0));
    assert!(refused(5).contains("384 elements, which do not divide among 5 GPUs"), "{}", refused(5));

    let mut steps =
        Steps::new(shared(&vec![Engine::cpu(); 2], &options(Device::Cpu)).expect("a model")).expect("small");
    let params = SamplingParams::default();
    let row = SampleRow { row: 0, position: 1, params: &params, prompt: &[], generated: &[] };
    let mut sequence = [steps.sequence()];
    let error = steps.draw(&mut sequence, &[&[512]], &[row]).expect_err("a token outside of the vocabulary");
    assert!(matches!(error, Error::Step { .. }), "{error}");
    let mut sequence = [steps.sequence()];
    assert_eq!(steps.draw(&mut sequence, &[&[511]], &[row]).expect("the ranks go on").len(), 1);
}
