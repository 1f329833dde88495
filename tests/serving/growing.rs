//! Parameter tensors that grow with the tokens of a batch, in decode loops under one plan and one graph: each step
//! against a flat plan with tensors of exactly its shape. On the CPU, and on a GPU if there is one.

use attn::batch::{DeviceBatch, DevicePages, I32Slice, indptr};
use attn::expr::TensorContent;
use attn::lang::{BindError, Bits};
use attn::ops::{
    self, Append, Array, DeviceArray, KvMut, KvRef, KvTransform, Number, Op, PageTableRows, SlotMapping, TensorRows,
};
use attn::prelude::*;
use attn::stock::HeadGate;
use attn::{DeviceBuffer, Error, Graph, Out, Stream};
use attn_tests::{gpu::engines, synthetic::values};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
/// Elements of a row of q or o, and of a row of k or v.
const ROW: [usize; 2] = [4 * 64, 2 * 64];
const PROMPT: usize = 5;
const STEPS: usize = 200;

/// Forgetting attention (arXiv 2503.02130): the forget gates between a key and a query weaken their logit.
#[derive(Clone, Debug, VariantParams)]
struct Forgetting {
    /// Sums of the logarithms of forget gates up to each key token.
    #[shape(kv_tokens, qo_heads)]
    log_forget: Tensor2<f32>,
}

#[attention_variant(name = "forgetting_of_a_growing_cache")]
impl AttentionVariant for Forgetting {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let query = at.kv_token - at.kv_pos + at.qo_pos;
        logit + self.log_forget[[query, at.qo_head]] - self.log_forget[[at.kv_token, at.qo_head]]
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// The cosine and sine of a position.
#[device_fn]
fn rotation(position: i32, inv_freq: f32) -> (f32, f32) {
    let (sin, cos) = approx::sin_cos(position as f32 * inv_freq);
    (cos, sin)
}

/// M-RoPE (arXiv 2409.12191) of a cache of rotated keys: the tokens of a step are its queries and its new keys.
#[derive(Clone, Debug, VariantParams)]
struct StepMRope {
    #[shape(head_dim / 2)]
    inv_freq: Tensor1<f32>,
    #[shape(qo_tokens, 3)]
    position_ids: Tensor2<i32>,
}

#[attention_variant(name = "m_rope_of_a_step")]
impl AttentionVariant for StepMRope {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.rotate_half(q.dim(), |i| rotation(self.position_ids[[at.qo_token, i % 3]], self.inv_freq[i]));
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        // in an append the row among the new keys, which are the tokens of the step
        let token = space::plain(at.kv_token);
        k.rotate_half(k.dim(), |i| rotation(self.position_ids[[token, i % 3]], self.inv_freq[i]));
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// M-RoPE of raw keys, all of a batch.
#[derive(Clone, Debug, VariantParams)]
struct FlatMRope {
    #[shape(head_dim / 2)]
    inv_freq: Tensor1<f32>,
    #[shape(qo_tokens, 3)]
    of_query: Tensor2<i32>,
    #[shape(kv_tokens, 3)]
    of_key: Tensor2<i32>,
}

#[attention_variant(name = "m_rope_of_a_batch")]
impl AttentionVariant for FlatMRope {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.rotate_half(q.dim(), |i| rotation(self.of_query[[at.qo_token, i % 3]], self.inv_freq[i]));
    }
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.rotate_half(k.dim(), |i| rotation(self.of_key[[at.kv_token, i % 3]], self.inv_freq[i]));
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// Draft trees that change from step to step.
#[derive(Clone, Debug, VariantParams)]
struct Drafts {
    #[require(width >= 1)]
    width: i32,
    #[shape(qo_tokens, width)]
    #[mutable]
    ancestors: Tensor2<Bits>,
}

#[attention_variant(name = "drafts_that_change")]
impl AttentionVariant for Drafts {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let node = at.kv_pos - (at.kv_len - at.qo_len);
        node < 0 || node < self.width && self.ancestors[[at.qo_token, node]]
    }
}

fn halves(count: usize, seed: u32) -> Vec<f16> {
    values(count, seed).into_iter().map(f16::from_f32).collect()
}

/// An array in memory of an engine as the content of a tensor.
fn content<T: Number + attn::lang::ParamElement>(of: &DeviceArray<T>) -> TensorContent<'_>
where
    Tensor1<T>: attn::lang::ParamField,
{
    let array = of.array();
    match (array.as_host(), array.device_ptr()) {
        (Some(values), _) => TensorContent::host(values),
        // SAFETY: the tests keep the memory as long as the graphs that read it.
        (None, ptr) => unsafe { TensorContent::device::<T>(ptr.expect("on the device"), of.len()) },
    }
}

fn ints(of: &DeviceArray<i32>) -> I32Slice<'_> {
    let array = of.array();
    match (array.as_host(), array.device_ptr()) {
        (Some(values), _) => I32Slice::host(values),
        // SAFETY: as above.
        (None, ptr) => unsafe { I32Slice::device(ptr.expect("on the device"), of.len()) },
    }
}

fn numbers<T: Number>(engine: &Engine, values: &[T]) -> DeviceArray<T> {
    DeviceArray::upload(engine, values).expect("memory")
}

fn assert_close(engine: &Engine, what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for (i, (x, y)) in got.iter().zip(want).enumerate() {
        assert!((x - y).abs() <= tolerance * (1.0 + y.abs()), "{engine}, {what}: {x}, not {y}, at {i}");
    }
}

/// Runs an exact plan over ragged keys.
fn flat(engine: &Engine, attention: &Attention, q: &[f16], kv: [&[f16]; 2], batch: &Batch<'_>) -> Vec<f32> {
    let stream = engine.stream().expect("a stream");
    let plan = attention.plan(batch, &mut engine.workspace()).expect("exact");
    let (rows, keys) = (q.len() / ROW[0], kv[0].len() / ROW[1]);
    let [q, k, v] = [q, kv[0], kv[1]].map(|data| engine.upload(data).expect("memory"));
    let mut o = engine.alloc(Dtype::F16, rows * ROW[0]).expect("memory");
    let shape = |tokens, heads| [tokens, heads, 64];
    let kv = Kv::ragged(k.tensor(&shape(keys, 2)).expect("fits"), v.tensor(&shape(keys, 2)).expect("fits"));
    let out = Out::new(o.tensor_mut(&shape(rows, 4)).expect("fits"));
    plan.run(&stream, q.tensor(&shape(rows, 4)).expect("fits"), kv, out).expect("runs");
    stream.synchronize().expect("ran");
    engine.download_f32(&o).expect("ran")
}

/// Runs `work` once, captures it, and replays it; on the CPU it calls it each time.
struct Captured(Option<Graph>);

impl Captured {
    fn step(&mut self, stream: &Stream, mut work: impl FnMut() -> Result<(), Error>) {
        let Some(graph) = &mut self.0 else {
            work().expect("runs");
            self.0 = Some(Graph::capture(stream, work).expect("captured"));
            return;
        };
        // SAFETY: the tests keep everything that the work uses, and use it from one thread.
        unsafe { graph.replay(stream, work) }.expect("replayed");
    }
}

#[test]
fn forgetting_attention_decodes_under_one_graph() {
    const ROOM: usize = 256;
    let log_forget: Vec<f32> = values(ROOM * 4, 5)
        .into_iter()
        .scan([0.0; 4], |sums, x| {
            sums.rotate_left(1);
            sums[3] += -0.02 * x.abs();
            Some(sums[3])
        })
        .collect();
    let (all_q, all_k, all_v) = (halves(ROOM * ROW[0], 1), halves(ROOM * ROW[1], 2), halves(ROOM * ROW[1], 3));
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        // what is not written yet poisons what reads it
        let given = log_forget.iter().enumerate().map(|(i, &x)| if i < 4 * PROMPT { x } else { f32::NAN }).collect();
        let variant = Forgetting { log_forget: Tensor2::from_values(given, [ROOM, 4]).expect("room") };
        let attention = engine.attention(&variant.into(), HEADS, Dtypes::f16()).expect("bound");
        let options = PlanOptions { capacity: Some(BatchCapacity::decode(1, ROOM as u32)), ..Default::default() };
        let mut workspace = engine.workspace();
        let first = Batch::ragged(&[0, 1], &[0, PROMPT as i32]);
        let mut plan = attention.plan_with(&first, &mut workspace, options).expect("room");
        plan.prepare_device_updates().expect("room for the capacity");
        ops::prepare(&engine, &[Op::TensorRows]).expect("a kernel");

        let (mut kv_lens, qo_indptr) = (numbers(&engine, &[0i32]), numbers(&engine, &[0i32, 1]));
        let (mut index, mut gates) = (numbers(&engine, &[0i32]), numbers(&engine, &[0f32; 4]));
        let mut q = engine.upload(&all_q[..ROW[0]]).expect("memory");
        let (k, v) = (engine.upload(&all_k).expect("memory"), engine.upload(&all_v).expect("memory"));
        let mut o = engine.alloc(Dtype::F16, ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for len in PROMPT + 1..=PROMPT + STEPS {
            let token = len - 1;
            kv_lens.write(&stream, 0, &[len as i32]).expect("fits");
            index.write(&stream, 0, &[token as i32]).expect("fits");
            gates.write(&stream, 0, &log_forget[4 * token..][..4]).expect("fits");
            let of_query = &all_q[token * ROW[0]..][..ROW[0]];
            q.write(&stream, 0, of_query).expect("fits");
            graph.step(&stream, || {
                let rows = TensorRows::at(index.array(), content(&gates));
                attention.set_tensor_rows(&stream, "log_forget", &rows)?;
                plan.update_on_device(&stream, &DeviceBatch::ragged(ints(&qo_indptr), ints(&kv_lens)))?;
                let kv = Kv::ragged(k.tensor(&[ROOM, 2, 64])?, v.tensor(&[ROOM, 2, 64])?);
                plan.run(&stream, q.tensor(&[1, 4, 64])?, kv, Out::new(o.tensor_mut(&[1, 4, 64])?))
            });
            plan.device_status(&stream).expect("sound");
            let exact = Tensor2::from_values(log_forget[..4 * len].to_vec(), [len, 4]).expect("exact");
            let exact = attention.with_parameters(&Forgetting { log_forget: exact }.into()).expect("a layer");
            let kv = [&all_k[..len * ROW[1]], &all_v[..len * ROW[1]]];
            let want = flat(&engine, &exact, of_query, kv, &Batch::ragged(&[0, 1], &[0, len as i32]));
            assert_close(&engine, &format!("{len} keys"), &engine.download_f32(&o).expect("ran"), &want, 2e-3);
        }
    }
}

#[test]
fn m_rope_decodes_and_appends_under_one_graph() {
    const PAGES: usize = 40;
    const MAX_PAGES: usize = 16;
    const ROOM: usize = 16;
    let inv_freq: Vec<f32> = (0..32).map(|i| 100f32.powf(-(i as f32) / 32.0)).collect();
    let inv_freq = Tensor1::from(inv_freq);
    // positions of a token of each request in time, height and width
    let ids = |request: usize, token: usize| {
        match request {
            0 => [token, token / 2, token % 7],
            _ => [3 * token, token, 5],
        }
        .map(|id| id as i32)
    };
    let (all_q, all_k, all_v) = (halves(512 * ROW[0], 1), halves(512 * ROW[1], 2), halves(512 * ROW[1], 3));
    // token `t` of request `r` is row `256 r + t` of these
    let rows = |of: &[f16], row: usize, tokens: &[(usize, usize)]| -> Vec<f16> {
        tokens.iter().flat_map(|(request, token)| of[(256 * request + token) * row..][..row].to_vec()).collect()
    };
    let ids_of = |tokens: &[(usize, usize)]| -> Vec<i32> { tokens.iter().flat_map(|&(r, t)| ids(r, t)).collect() };
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let position_ids = Tensor2::from_values(vec![0; ROOM * 3], [ROOM, 3]).expect("room");
        let variant: Variant = StepMRope { inv_freq: inv_freq.clone(), position_ids }.into();
        let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
        let attention = engine.attention_with(&variant, HEADS, Dtypes::f16(), options).expect("bound");
        let transform = KvTransform::new(&engine, &variant, HEADS).expect("`kv_token` is known");
        transform.prepare(Dtype::F16, Dtype::F16).expect("a kernel");
        let zeros = |n| Tensor2::from_values(vec![0; n * 3], [n, 3]).expect("zeros");
        let raw = FlatMRope { inv_freq: inv_freq.clone(), of_query: zeros(1), of_key: zeros(1) };
        let raw = engine.attention(&raw.into(), HEADS, Dtypes::f16()).expect("bound");

        let [mut k_pool, mut v_pool] =
            [(); 2].map(|()| engine.upload(&vec![f16::NAN; PAGES * 16 * ROW[1]]).expect("memory"));
        let pages: Vec<i32> = (0..2 * MAX_PAGES as i32).map(|i| (7 * i + 3) % 40).collect();
        let pages = numbers(&engine, &pages);
        let mut ids = numbers(&engine, &[0i32; ROOM * 3]);
        let prompt: Vec<_> = (0..2).flat_map(|request| (0..PROMPT).map(move |token| (request, token))).collect();
        let set_ids = |ids: &mut DeviceArray<i32>, tokens: &[(usize, usize)]| {
            ids.write(&stream, 0, &ids_of(tokens)).expect("room");
        };
        let append = |k_pool: &mut DeviceBuffer,
                      v_pool: &mut DeviceBuffer,
                      [k, v]: [&DeviceBuffer; 2],
                      [requests, positions]: [&DeviceArray<i32>; 2]| {
            let tokens = requests.len();
            let new = KvRef::new(k.tensor(&[tokens, 2, 64])?, v.tensor(&[tokens, 2, 64])?);
            let shape = [PAGES, 16, 2, 64];
            let mut pools = KvMut::new(k_pool.tensor_mut(&shape)?, v_pool.tensor_mut(&shape)?);
            let rows = PageTableRows::Padded { pages: pages.array(), max_pages: MAX_PAGES };
            let slot_mapping =
                SlotMapping::Positions { requests: requests.array(), positions: positions.array(), rows };
            ops::append_paged(&stream, &new, &mut pools, &Append::at(slot_mapping), Some(&transform))
        };
        let arrays = |tokens: &[(usize, usize)]| {
            [tokens.iter().map(|t| t.0 as i32).collect::<Vec<_>>(), tokens.iter().map(|t| t.1 as i32).collect()]
                .map(|array| numbers(&engine, &array))
        };
        let upload = |of: &[f16], tokens: &[(usize, usize)]| engine.upload(&rows(of, ROW[1], tokens)).expect("memory");
        set_ids(&mut ids, &prompt);
        transform.set_tensor(&stream, "position_ids", &content(&ids)).expect("room");
        let [requests, positions] = arrays(&prompt);
        let (k, v) = (upload(&all_k, &prompt), upload(&all_v, &prompt));
        append(&mut k_pool, &mut v_pool, [&k, &v], [&requests, &positions]).expect("appended");

        let lens = [PROMPT as i32; 2];
        let all_pages = pages.to_vec().expect("copied");
        let first = BlockTable {
            pages: &all_pages,
            max_pages: MAX_PAGES,
            kv_lens: &lens,
            page_size: 16,
            num_pages: PAGES as u32,
        };
        let capacity = BatchCapacity::decode(2, 512).in_pages(16, PAGES as u32);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let mut workspace = engine.workspace();
        let first = Batch::block_table(&[0, 1, 2], &first);
        let mut plan = attention.plan_with(&first, &mut workspace, options).expect("room");
        plan.prepare_device_updates().expect("room for the capacity");

        let step = |token: usize| [(0, token), (1, token)];
        let [requests, mut positions] = arrays(&step(0));
        let (mut kv_lens, qo_indptr) = (numbers(&engine, &[0i32; 2]), numbers(&engine, &[0i32, 1, 2]));
        let (mut k, mut v) = (upload(&all_k, &step(0)), upload(&all_v, &step(0)));
        let mut q = engine.alloc(Dtype::F16, 2 * ROW[0]).expect("memory");
        let mut o = engine.alloc(Dtype::F16, 2 * ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for len in PROMPT + 1..=PROMPT + STEPS {
            let tokens = step(len - 1);
            set_ids(&mut ids, &tokens);
            kv_lens.write(&stream, 0, &[len as i32; 2]).expect("fits");
            positions.write(&stream, 0, &[len as i32 - 1; 2]).expect("fits");
            let new_q = rows(&all_q, ROW[0], &tokens);
            q.write(&stream, 0, &new_q).expect("fits");
            k.write(&stream, 0, &rows(&all_k, ROW[1], &tokens)).expect("fits");
            v.write(&stream, 0, &rows(&all_v, ROW[1], &tokens)).expect("fits");
            graph.step(&stream, || {
                transform.set_tensor(&stream, "position_ids", &content(&ids))?;
                attention.set_tensor(&stream, "position_ids", &content(&ids))?;
                append(&mut k_pool, &mut v_pool, [&k, &v], [&requests, &positions])?;
                let indices = DevicePages::Padded { indices: ints(&pages), max_pages: MAX_PAGES };
                plan.update_on_device(&stream, &DeviceBatch::paged(ints(&qo_indptr), ints(&kv_lens), indices))?;
                let shape = [PAGES, 16, 2, 64];
                let kv = Kv::paged(k_pool.tensor(&shape)?, v_pool.tensor(&shape)?);
                plan.run(&stream, q.tensor(&[2, 4, 64])?, kv, Out::new(o.tensor_mut(&[2, 4, 64])?))
            });
            plan.device_status(&stream).expect("sound");
            let all: Vec<_> = (0..2).flat_map(|request| (0..len).map(move |token| (request, token))).collect();
            let table = |tokens: &[(usize, usize)]| {
                Tensor2::from_values(ids_of(tokens), [tokens.len(), 3]).expect("three a token")
            };
            let exact = FlatMRope { inv_freq: inv_freq.clone(), of_query: table(&tokens), of_key: table(&all) };
            let exact = raw.with_parameters(&exact.into()).expect("a layer");
            let (k, v) = (rows(&all_k, ROW[1], &all), rows(&all_v, ROW[1], &all));
            let lens = indptr(&[len as u32; 2]).expect("short");
            let want = flat(&engine, &exact, &new_q, [&k, &v], &Batch::ragged(&[0, 1, 2], &lens));
            assert_close(&engine, &format!("{len} keys"), &engine.download_f32(&o).expect("ran"), &want, 0.02);
        }
    }
}

/// Batches of prefill and decode: queries and keys of each request.
const BATCHES: [(&[u32], &[u32]); 5] = [
    (&[3, 7], &[9, 20]),
    (&[1; 8], &[5, 60, 1, 33, 2, 8, 9, 70]),
    (&[16], &[90]),
    (&[2, 0, 4], &[2, 5, 64]),
    (&[9], &[9]),
];

/// Runs batches under one plan whose tensors change between runs, and captured where there is a GPU.
fn updates_equal_flat_plans(
    larger: &Variant,
    set: impl Fn(&Attention, &Stream, usize) -> Result<(), Error>,
    exact: impl Fn(usize, &[u32]) -> Variant,
) {
    let (all_q, all_k, all_v) = (halves(16 * ROW[0], 1), halves(256 * ROW[1], 2), halves(256 * ROW[1], 3));
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let attention = engine.attention(larger, HEADS, Dtypes::f16()).expect("bound");
        let capacity = BatchCapacity::new(8, 16, 256);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let (qo, kv) = (indptr(BATCHES[0].0).expect("short"), indptr(BATCHES[0].1).expect("short"));
        let mut workspace = engine.workspace();
        let mut plan = attention.plan_with(&Batch::ragged(&qo, &kv), &mut workspace, options).expect("room");
        let [q, k, v] = [&all_q, &all_k, &all_v].map(|data| engine.upload(data).expect("memory"));
        let mut o = engine.alloc(Dtype::F16, 16 * ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for (step, (qo, kv)) in BATCHES.iter().chain(&BATCHES[..2]).enumerate() {
            let (qo_indptr, kv_indptr) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
            let batch = Batch::ragged(&qo_indptr, &kv_indptr);
            set(&attention, &stream, step).expect("replaced");
            plan.update(&stream, &batch).expect("room");
            graph.step(&stream, || {
                let kv = Kv::ragged(k.tensor(&[256, 2, 64])?, v.tensor(&[256, 2, 64])?);
                plan.run(&stream, q.tensor(&[16, 4, 64])?, kv, Out::new(o.tensor_mut(&[16, 4, 64])?))
            });
            let [queries, keys] = [&qo_indptr, &kv_indptr].map(|ends| ends[ends.len() - 1] as usize);
            let alone = attention.with_parameters(&exact(step, qo)).expect("a layer");
            let kv = [&all_k[..keys * ROW[1]], &all_v[..keys * ROW[1]]];
            let want = flat(&engine, &alone, &all_q[..queries * ROW[0]], kv, &batch);
            let got = engine.download_f32(&o).expect("ran");
            assert_close(&engine, &format!("step {step}"), &got[..want.len()], &want, 2e-3);
        }
        let (qo, kv) = (indptr(&[1; 9]).expect("short"), indptr(&[3; 9]).expect("short"));
        plan.update(&stream, &Batch::ragged(&qo, &kv)).expect_err("past the capacity");
    }
}

#[test]
fn gates_of_query_tokens_follow_updates() {
    let gates = |step: usize| -> Vec<bf16> { values(16 * 4, step as u32).into_iter().map(bf16::from_f32).collect() };
    let table = |step, tokens: usize| Tensor2::new(gates(step)[..4 * tokens].to_vec(), [tokens, 4]).expect("gates");
    updates_equal_flat_plans(
        &HeadGate { gate: table(99, 16) }.into(),
        |attention, stream, step| attention.set_tensor(stream, "gate", &TensorContent::host(&gates(step))),
        |step, qo| HeadGate { gate: table(step, qo.iter().sum::<u32>() as usize) }.into(),
    );
}

#[test]
fn draft_trees_follow_updates() {
    // node `i` of a tree sees itself and the nodes that a random choice makes its ancestors
    let sees = |step: usize, tokens: usize| -> Tensor2<Bits> {
        let bits = values(16 * 16, 7 + step as u32).into_iter().enumerate();
        let bits: Vec<bool> = bits.map(|(i, x)| i / 16 == i % 16 || x > 0.3).take(16 * tokens).collect();
        Tensor2::from_values(bits, [tokens, 16]).expect("a tree")
    };
    updates_equal_flat_plans(
        &Drafts { width: 16, ancestors: sees(99, 16) }.into(),
        |attention, stream, step| {
            attention.set_tensor(stream, "ancestors", &TensorContent::host(sees(step, 16).as_slice()))
        },
        |step, qo| Drafts { width: 16, ancestors: sees(step, qo.iter().sum::<u32>() as usize) }.into(),
    );
}

#[test]
fn a_batch_that_outgrows_a_tensor_says_so() {
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let variant = Forgetting { log_forget: Tensor2::from_values(vec![0.0; 400], [100, 4]).expect("room") };
        let attention = engine.attention(&variant.into(), HEADS, Dtypes::f16()).expect("bound");
        let options = PlanOptions { capacity: Some(BatchCapacity::decode(1, 256)), ..Default::default() };
        let mut workspace = engine.workspace();
        let batch = |len: &[i32; 2]| attention.plan(&Batch::ragged(&[0, 1], len), &mut engine.workspace()).map(drop);
        batch(&[0, 100]).expect("as large");
        let flat = batch(&[0, 101]).expect_err("one key too many").to_string();
        let mut plan = attention.plan_with(&Batch::ragged(&[0, 1], &[0, 7]), &mut workspace, options).expect("room");
        plan.update(&stream, &Batch::ragged(&[0, 1], &[0, 100])).expect("as large");
        let error = plan.update(&stream, &Batch::ragged(&[0, 1], &[0, 101])).expect_err("one key too many");
        assert!(matches!(&error, Error::Bind(e) if matches!(e.root(), BindError::Outgrown { .. })) || !engine.is_cpu());
        for text in [flat, error.to_string()] {
            assert!(text.contains("`log_forget` has room for [100, 4]") && text.contains("[101, 4]"), "{text}");
            assert!(text.contains("plan a smaller batch"), "{text}");
        }
        assert_eq!(plan.layout().kv_tokens(), 100, "the plan is unchanged");
        // on a GPU the host does not see the lengths: the capacity must fit
        let prepared = plan.prepare_device_updates();
        assert_eq!(prepared.is_err(), !engine.is_cpu(), "{prepared:?}");
        let (qo, kv) = (numbers(&engine, &[0i32, 1]), numbers(&engine, &[101i32]));
        let error = plan.update_on_device(&stream, &DeviceBatch::ragged(ints(&qo), ints(&kv))).expect_err("too many");
        assert!(error.to_string().contains("`log_forget` has room for [100, 4]"), "{error}");

        let wrong = Forgetting { log_forget: Tensor2::from_values(vec![0.0; 500], [100, 5]).expect("a shape") };
        let wrong = engine.attention(&wrong.into(), HEADS, Dtypes::f16()).expect("the batch is not known");
        let error = wrong.plan(&Batch::ragged(&[0, 1], &[0, 7]), &mut workspace).expect_err("five heads");
        assert!(error.to_string().contains("has shape [100, 5]"), "{error}");
    }
}

#[test]
fn an_append_of_more_tokens_than_a_table_has_is_refused() {
    let engine = Engine::cpu();
    let stream = engine.stream().expect("a token");
    let position_ids = Tensor2::from_values(vec![0; 6], [2, 3]).expect("room");
    let variant = StepMRope { inv_freq: Tensor1::from(vec![1.0; 32]), position_ids };
    let transform = KvTransform::new(&engine, &variant.into(), HEADS).expect("known");
    let new = halves(3 * ROW[1], 1);
    let mut pool = engine.alloc(Dtype::F16, 16 * ROW[1]).expect("memory");
    let mut append = |tokens: usize| {
        let rows = TensorRef::host(&new[..tokens * ROW[1]], &[tokens, 2, 64]).expect("fits");
        let slots: Vec<i64> = (0..tokens as i64).collect();
        let positions = vec![0; tokens];
        let slot_mapping = SlotMapping::Slots { slots: Array::host(&slots), positions: Some(Array::host(&positions)) };
        let mut pools = KvMut::latent(pool.tensor_mut(&[1, 16, 2, 64]).expect("fits"));
        ops::append_paged(&stream, &KvRef::latent(rows), &mut pools, &Append::at(slot_mapping), Some(&transform))
    };
    append(2).expect("a row for each");
    let error = append(3).expect_err("no third row").to_string();
    assert!(error.contains("`position_ids` has room for [2, 3]") && error.contains("[3, 3]"), "{error}");
}
