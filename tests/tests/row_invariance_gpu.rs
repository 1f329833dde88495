//! Under `fixed_split_size` a query has the same bits in any chunk and in any company, in every kernel that can run it
//! alone: prefill by wgmma, by mma.sync and on CUDA cores, decode on tensor cores and on CUDA cores. Skipped without a
//! GPU.
#![allow(clippy::print_stderr)]

extern crate facade as attn;

use attn::{
    AttentionOptions, Out,
    prelude::*,
    spec::{DecodeBackend, KernelKind, PrefillBackend},
};
use attn_tests::{gpu::gpu, synthetic::values};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 128 };
/// Keys of the text whose rows are compared.
const KEYS: usize = 1500;
/// The last tokens of the text, which have queries.
const QUERIES: usize = 150;

/// Elements of `rows` rows of `heads` heads, which differ from row to row in size too, so that maxima grow.
fn rows(seed: u32, rows: usize, heads: u32) -> Vec<f16> {
    let width = (heads * HEADS.head_dim) as usize;
    let scale = |row: usize| 1.0 + (row * 7 % 13) as f32 / 4.0;
    let all = values(rows * width, seed);
    all.into_iter().enumerate().map(|(i, x)| f16::from_f32(x * scale(i / width))).collect()
}

/// A request: its queries, and keys and values of which it has the first `keys`.
struct Request<'a> {
    q: &'a [f16],
    k: &'a [f16],
    v: &'a [f16],
}

struct Kernel {
    engine: Engine,
    attention: Attention,
}

impl Kernel {
    /// The output of each request, in bits.
    fn run(&self, requests: &[Request<'_>]) -> Vec<Vec<u16>> {
        let (q_width, kv_width) = ((HEADS.qo * HEADS.head_dim) as usize, (HEADS.kv * HEADS.head_dim) as usize);
        let (mut q, mut k, mut v) = (Vec::new(), Vec::new(), Vec::new());
        let (mut qo_indptr, mut kv_indptr) = (vec![0i32], vec![0i32]);
        for request in requests {
            q.extend_from_slice(request.q);
            k.extend_from_slice(request.k);
            v.extend_from_slice(request.v);
            qo_indptr.push((q.len() / q_width) as i32);
            kv_indptr.push((k.len() / kv_width) as i32);
        }
        let (engine, stream) = (&self.engine, self.engine.stream().expect("a stream"));
        let [q_rows, kv_rows] = [q.len() / q_width, k.len() / kv_width];
        let mut workspace = engine.workspace();
        let plan = self.attention.plan(&Batch::ragged(&qo_indptr, &kv_indptr), &mut workspace).expect("planned");
        let [q, k, v] = [&q, &k, &v].map(|values| engine.upload(values).expect("memory"));
        let mut o = engine.alloc(Dtype::F16, q_rows * q_width).expect("memory");
        let q_shape = [q_rows, HEADS.qo as usize, HEADS.head_dim as usize];
        let kv_shape = [kv_rows, HEADS.kv as usize, HEADS.head_dim as usize];
        let kv = Kv::ragged(k.tensor(&kv_shape).expect("shape"), v.tensor(&kv_shape).expect("shape"));
        let out = Out::new(o.tensor_mut(&q_shape).expect("shape"));
        plan.run(&stream, q.tensor(&q_shape).expect("shape"), kv, out).expect("launched");
        stream.synchronize().expect("no fault");
        let o: Vec<f16> = engine.download(&o).expect("read");
        let ends = qo_indptr.windows(2).map(|ends| ends[0] as usize * q_width..ends[1] as usize * q_width);
        ends.map(|range| o[range].iter().map(|x| x.to_bits()).collect()).collect()
    }
}

/// Checks one kernel, with chunks of at most these sizes, by turns.
fn check(options: AttentionOptions, chunks: &[usize]) {
    let Some(engine) = gpu() else { return };
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    for variant in ["causal", "causal + soft_cap(cap=30.0)"] {
        let what = format!("{variant}, {options:?}");
        let options = AttentionOptions { fixed_split_size: Some(256), ..options };
        let variant = Variant::parse(variant).expect("stock");
        let attention = engine.attention_with(&variant, HEADS, Dtypes::f16(), options).expect("bound");
        let kernel = Kernel { engine: engine.clone(), attention };
        let (q_width, kv_width) = ((HEADS.qo * HEADS.head_dim) as usize, (HEADS.kv * HEADS.head_dim) as usize);
        let (q, k, v) = (rows(1, QUERIES, HEADS.qo), rows(2, KEYS, HEADS.kv), rows(3, KEYS, HEADS.kv));
        // the queries from `first` on, and the keys that they see
        let part = |first: usize, len: usize| {
            let keys = ..(KEYS - QUERIES + first + len) * kv_width;
            Request { q: &q[first * q_width..(first + len) * q_width], k: &k[keys], v: &v[keys] }
        };
        let compare = |chunks: &[usize], others: usize| {
            let (mut first, mut bits) = (0, Vec::new());
            for (number, &chunk) in chunks.iter().cycle().enumerate() {
                let len = chunk.min(QUERIES - first);
                // others have as many queries and other keys, before and after
                let other = |i: usize| {
                    let keys = (len.max(i * 97 % 900)) * kv_width;
                    Request { q: &q[..len * q_width], k: &v[..keys], v: &k[..keys] }
                };
                let mut requests: Vec<_> = (0..others).map(|i| other(i + number)).collect();
                let at = number % (others + 1);
                requests.insert(at, part(first, len));
                bits.extend(kernel.run(&requests).swap_remove(at));
                first += len;
                if first == QUERIES {
                    break;
                }
            }
            bits
        };
        let want = compare(&chunks[..1], 0);
        for others in [0, 1, 6] {
            let got = compare(chunks, others);
            let same = got.chunks(q_width).zip(want.chunks(q_width)).filter(|(a, b)| a == b).count();
            assert_eq!(same, QUERIES, "rows with the same bits beside {others} others: {what}");
        }
        eprintln!("{QUERIES} rows have their bits: {what}");
    }
}

fn prefill(prefill: PrefillBackend) -> AttentionOptions {
    AttentionOptions { kernel: Some(KernelKind::Prefill), prefill, ..AttentionOptions::default() }
}

fn decode(decode: DecodeBackend) -> AttentionOptions {
    AttentionOptions { kernel: Some(KernelKind::Decode), decode: Some(decode), ..AttentionOptions::default() }
}

#[test]
fn prefill_by_wgmma() {
    check(prefill(PrefillBackend::Sm90), &[150, 1, 64, 17, 128]);
}

#[test]
fn prefill_by_mma_sync() {
    check(prefill(PrefillBackend::Sm80), &[150, 1, 64, 17, 128]);
}

#[test]
fn prefill_on_cuda_cores() {
    check(prefill(PrefillBackend::CudaCores), &[150, 1, 64, 17, 128]);
}

#[test]
fn decode_on_tensor_cores() {
    check(decode(DecodeBackend::TensorCores), &[1]);
}

#[test]
fn decode_on_cuda_cores() {
    check(decode(DecodeBackend::CudaCores), &[1]);
}
