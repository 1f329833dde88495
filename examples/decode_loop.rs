//! A serving loop: requests arrive, decode together and finish. Their pages grow in place, and every step replays one
//! CUDA graph.
//!
//! One plan has the capacity of the largest batch. Each step updates it with the lengths and pages of the running
//! requests (`Plan::update`) and replays the graph that was captured once. Prompts are prefilled by a plan of their
//! own. Runs on the first CUDA device, else on the CPU, where the replay is a run.
//!
//! ```text
//! cargo run --release --example decode_loop
//! ```

#![allow(clippy::print_stdout)]

mod support;

use std::collections::VecDeque;

use attn::{Error, Out, Stream, batch::indptr, graph::Graph, prelude::*};
use support::{Cache, Fallible, HEADS, PAGE, check, error, k_row, q_row, q_width, reference, v_row};

/// The most requests that run at a time.
const SLOTS: usize = 3;
/// Pages of the pool: too few for all requests at once.
const PAGES: usize = 12;
/// Keys of each prompt, and tokens to decode after it.
const REQUESTS: [(usize, usize); 7] = [(20, 9), (5, 30), (63, 4), (1, 12), (40, 20), (17, 16), (31, 2)];

/// A running request.
struct Request {
    text: u64,
    prompt: usize,
    /// The number of keys when it is done.
    end: usize,
    /// The number of keys in the cache.
    keys: usize,
    pages: Vec<i32>,
}

/// The plan of the decode steps with its buffers and its graph.
struct Steps {
    // dropped first: it uses the other fields
    graph: Option<Graph>,
    plan: Plan,
    _workspace: Workspace,
    q: DeviceBuffer,
    o: DeviceBuffer,
    ran: usize,
}

/// The shape of the queries and outputs of `tokens` tokens.
fn shape(tokens: usize) -> [usize; 3] {
    [tokens, HEADS.qo as usize, HEADS.head_dim as usize]
}

impl Steps {
    fn new(engine: &Engine, attention: &Attention, cache: &Cache) -> Fallible<Self> {
        let capacity = BatchCapacity::decode(SLOTS as u32, (PAGES * PAGE) as u32).in_pages(PAGE as u32, cache.pages());
        let mut workspace = engine.workspace();
        let empty = cache.table([]);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let plan = attention.plan_with(&Batch::paged(&[0], &empty.table()), &mut workspace, options)?;
        let rows = || engine.alloc(Dtype::F16, SLOTS * q_width());
        let (q, o) = (rows()?, rows()?);
        Ok(Steps { graph: None, plan, _workspace: workspace, q, o, ran: 0 })
    }

    /// Decodes one token of each request, and returns their outputs.
    fn step(&mut self, engine: &Engine, stream: &Stream, cache: &Cache, requests: &[Request]) -> Fallible<Vec<f16>> {
        let qo_indptr = indptr(&vec![1; requests.len()])?;
        let table = cache.table(requests.iter().map(|r| (&r.pages[..], r.keys)));
        self.plan.update(stream, &Batch::paged(&qo_indptr, &table.table()))?;
        let queries: Vec<f16> = requests.iter().flat_map(|r| q_row(r.text, r.keys - 1)).collect();
        self.q.write(stream, 0, &queries)?;
        self.replay(stream, cache)?;
        stream.synchronize()?;
        self.ran += 1;
        let mut o = engine.download(&self.o)?;
        o.truncate(queries.len());
        Ok(o)
    }

    fn run(&mut self, stream: &Stream, cache: &Cache) -> Result<(), Error> {
        let out = Out::new(self.o.tensor_mut(&shape(SLOTS))?);
        self.plan.run(stream, self.q.tensor(&shape(SLOTS))?, cache.kv()?, out)
    }

    /// Runs the first step; captures the second; replays from then on.
    fn replay(&mut self, stream: &Stream, cache: &Cache) -> Fallible {
        if self.ran == 0 {
            return Ok(self.run(stream, cache)?);
        }
        let mut graph = match self.graph.take() {
            Some(graph) => graph,
            None => Graph::capture(stream, || self.run(stream, cache))?,
        };
        // SAFETY: the plan, its workspace, q and o live in `self` and are never replaced, the pools are allocated once,
        // and nothing else is planned into the workspace. The plan is updated on this stream, and the work is what was
        // captured.
        unsafe { graph.replay(stream, || self.run(stream, cache)) }?;
        self.graph = Some(graph);
        Ok(())
    }
}

/// Prefills a whole prompt, and returns the output of its last token.
fn prefill(
    engine: &Engine,
    stream: &Stream,
    attention: &Attention,
    cache: &Cache,
    request: &Request,
) -> Fallible<Vec<f16>> {
    let table = cache.table([(&request.pages[..], request.keys)]);
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::paged(&[0, request.keys as i32], &table.table()), &mut workspace)?;
    let queries: Vec<f16> = (0..request.keys).flat_map(|token| q_row(request.text, token)).collect();
    let q = engine.upload(&queries)?;
    let mut o = engine.alloc(Dtype::F16, queries.len())?;
    let shape = shape(request.keys);
    plan.run(stream, q.tensor(&shape)?, cache.kv()?, Out::new(o.tensor_mut(&shape)?))?;
    stream.synchronize()?;
    Ok(engine.download(&o)?.split_off(queries.len() - q_width()))
}

/// The reference output of a request's newest token.
fn wanted(request: &Request) -> Fallible<Vec<f64>> {
    let row = |token| (k_row(request.text, token), v_row(request.text, token));
    reference(&q_row(request.text, request.keys - 1), |_| (0..request.keys).map(row).collect())
}

fn main() -> Fallible {
    let engine = Engine::auto()?;
    let stream = engine.stream()?;
    let attention = engine.attention(&Variant::parse("causal")?, HEADS, Dtypes::f16())?;
    let mut cache = Cache::new(&engine, PAGES)?;
    let mut steps = Steps::new(&engine, &attention, &cache)?;
    let mut waiting: VecDeque<(usize, (usize, usize))> = REQUESTS.into_iter().enumerate().collect();
    let mut running: Vec<Request> = Vec::new();
    let mut worst = 0f64;

    println!("running on {engine}; {} requests, {SLOTS} at a time, {PAGES} pages of {PAGE} keys\n", REQUESTS.len());
    println!("{:>5}{:>26}{:>8}{:>12}{:>12}", "step", "request: keys", "pages", "prefilled", "error");
    while !(waiting.is_empty() && running.is_empty()) {
        // admit requests in order, as soon as there is a slot, and pages for everything that they will become
        let mut prefilled = 0;
        while let Some(&(number, (prompt, more))) = waiting.front() {
            let reserved = |r: &Request| r.end.div_ceil(PAGE) - r.pages.len();
            let needed = (prompt + more).div_ceil(PAGE);
            if running.len() == SLOTS || cache.free() < needed + running.iter().map(reserved).sum::<usize>() {
                break;
            }
            waiting.pop_front();
            let pages = cache.allocate_many(prompt.div_ceil(PAGE))?;
            let request = Request { text: 1 + number as u64, prompt, end: prompt + more, keys: prompt, pages };
            let rows =
                |row: fn(u64, usize) -> Vec<f16>| (0..prompt).flat_map(|t| row(request.text, t)).collect::<Vec<_>>();
            cache.append(&stream, &request.pages, 0, &rows(k_row), &rows(v_row))?;
            let o = prefill(&engine, &stream, &attention, &cache, &request)?;
            let error = error(&o, &wanted(&request)?);
            check(&format!("prompt of request {number}"), error)?;
            worst = worst.max(error);
            prefilled += request.prompt;
            running.push(request);
        }

        // append the key and value of a new token of each request, with a new page where the last one is full
        for request in &mut running {
            if request.keys == request.pages.len() * PAGE {
                request.pages.push(cache.allocate()?);
            }
            let (text, token) = (request.text, request.keys);
            cache.append(&stream, &request.pages, token, &k_row(text, token), &v_row(text, token))?;
            request.keys += 1;
        }
        let o = steps.step(&engine, &stream, &cache, &running)?;
        let mut here = 0f64;
        for (request, o) in running.iter().zip(o.chunks(q_width())) {
            let error = error(o, &wanted(request)?);
            check(&format!("step {}, request {}", steps.ran, request.text), error)?;
            here = here.max(error);
        }
        worst = worst.max(here);
        if prefilled > 0 || running.iter().any(|r| r.keys == r.end) {
            let lengths: Vec<String> = running.iter().map(|r| format!("{}: {}", r.text, r.keys)).collect();
            let (held, prefilled) =
                (PAGES - cache.free(), if prefilled > 0 { prefilled.to_string() } else { String::new() });
            println!("{:>5}{:>26}{held:>8}{prefilled:>12}{here:>12.1e}", steps.ran, lengths.join("  "));
        }
        for done in running.extract_if(.., |r| r.keys == r.end) {
            cache.release(done.pages);
        }
    }
    println!("\n{} steps by one plan; the largest error is {worst:.1e}", steps.ran);
    if cache.free() != PAGES {
        return Err("pages were lost".into());
    }
    Ok(())
}

#[test]
fn it_checks_itself() -> Fallible {
    main()
}
