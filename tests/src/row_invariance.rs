//! Batches whose requests must have the same bits in any company.

use attn::prelude::*;

use crate::synthetic::values;

/// Elements of `rows` rows of `heads` heads of `head_dim`, which differ from row to row in size too, so that maxima
/// grow.
pub fn rows(seed: u32, rows: usize, heads: u32, head_dim: u32) -> Vec<f16> {
    let width = (heads * head_dim) as usize;
    let scale = |row: usize| 1.0 + (row * 7 % 13) as f32 / 4.0;
    let all = values(rows * width, seed);
    all.into_iter().enumerate().map(|(i, x)| f16::from_f32(x * scale(i / width))).collect()
}

/// A request: its queries, and keys and values of which it has the first `keys`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// (queries, query heads, head_dim).
    pub q: &'a [f16],
    /// (keys, KV heads, head_dim).
    pub k: &'a [f16],
    /// Values: (keys, KV heads, head_dim).
    pub v: &'a [f16],
}

/// An attention in f16 on its engine.
#[derive(Debug)]
pub struct Kernel {
    /// Where it runs.
    pub engine: Engine,
    /// Its attention.
    pub attention: Attention,
}

/// A row of a result in bits: the output of all its heads, and their log-sum-exps, which are f32 and show more.
pub type Row = (Vec<u16>, Vec<u32>);

impl Kernel {
    /// The rows of each request.
    ///
    /// # Panics
    /// The batch cannot be planned or run.
    pub fn run(&self, requests: &[Request<'_>]) -> Vec<Vec<Row>> {
        let heads = self.attention.heads();
        let (q_width, kv_width) = ((heads.qo * heads.head_dim) as usize, (heads.kv * heads.head_dim) as usize);
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
        let mut lse = engine.alloc(Dtype::F32, q_rows * heads.qo as usize).expect("memory");
        let q_shape = [q_rows, heads.qo as usize, heads.head_dim as usize];
        let kv_shape = [kv_rows, heads.kv as usize, heads.head_dim as usize];
        let kv = Kv::ragged(k.tensor(&kv_shape).expect("shape"), v.tensor(&kv_shape).expect("shape"));
        let (o_out, lse_out) = (o.tensor_mut(&q_shape), lse.tensor_mut(&q_shape[..2]));
        let out = Out::with_lse(o_out.expect("shape"), lse_out.expect("shape"));
        plan.run(&stream, q.tensor(&q_shape).expect("shape"), kv, out).expect("launched");
        stream.synchronize().expect("no fault");
        let o: Vec<f16> = engine.download(&o).expect("read");
        let lse: Vec<f32> = engine.download(&lse).expect("read");
        let row = |row: usize| -> Row {
            let o = o[row * q_width..][..q_width].iter().map(|x| x.to_bits());
            let lse = lse[row * heads.qo as usize..][..heads.qo as usize].iter().map(|x| x.to_bits());
            (o.collect(), lse.collect())
        };
        qo_indptr.windows(2).map(|ends| (ends[0] as usize..ends[1] as usize).map(row).collect()).collect()
    }
}

/// The victim's keys, and how a neighbour grows beside it.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours {
    /// Keys of the request that decodes.
    pub keys: usize,
    /// Neighbours: each has keys and queries of its own.
    pub count: u32,
}

/// Of the neighbours, how many leave the bits of a request that decodes as they are alone while their prefill grows
/// from 9 to 10 tokens (vllm-project/vllm#51902: with 7 query heads a KV head, the tenth token has another tile there).
/// The first nine tokens of a neighbour are the same in both, behind a context of 0 to 299 keys.
///
/// # Panics
/// A batch cannot be run.
pub fn undisturbed(kernel: &Kernel, neighbours: Neighbours) -> u32 {
    let heads = kernel.attention.heads();
    let (q_width, kv_width) = ((heads.qo * heads.head_dim) as usize, (heads.kv * heads.head_dim) as usize);
    let [k, v] = [2, 3].map(|seed| rows(seed, neighbours.keys, heads.kv, heads.head_dim));
    let q = rows(1, 1, heads.qo, heads.head_dim);
    let victim = Request { q: &q, k: &k, v: &v };
    let alone = kernel.run(&[victim]);
    let same = |&number: &u32| {
        let context = attn_core::random::bits(number, 1, 2, 3) as usize % 300;
        let of = |stream: u32, count, heads_of| rows(3 * number + 100 + stream, count, heads_of, heads.head_dim);
        let (q, k, v) = (of(0, 10, heads.qo), of(1, context + 10, heads.kv), of(2, context + 10, heads.kv));
        [9, 10].into_iter().all(|tokens| {
            let kv = ..(context + tokens) * kv_width;
            let neighbour = Request { q: &q[..tokens * q_width], k: &k[kv], v: &v[kv] };
            let (batch, at) =
                if number.is_multiple_of(2) { ([victim, neighbour], 0) } else { ([neighbour, victim], 1) };
            kernel.run(&batch)[at] == alone[0]
        })
    };
    (0..neighbours.count).filter(same).count() as u32
}
