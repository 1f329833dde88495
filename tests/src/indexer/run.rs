//! Indexers on an engine, and attention to what they choose.

use attn::expr::TensorContent;
use attn::indexer::{
    IndexKeys, IndexQueries, ScoresMut, TopKLists, Visible, block_scores, index_scores, prepare, select_pages,
    select_tokens,
};
use attn::ops::{DeviceArray, PageTableRows};
use attn::{Batch, DeviceBuffer, Dtypes, Engine, Error, Graph, Heads, Kv, Out, PageTable, Stream, Variant};
use attn_core::{compose, dtype::Dtype, lang::Tensor2, lang::Tensor3};
use attn_variants::{Causal, PageList, TokenList};
use half::{bf16, f16};

use super::IndexCase;
use crate::synthetic::values;

/// What an indexer gives.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Indexed {
    /// -7 where nothing is written.
    pub scores: Vec<f32>,
    pub counts: Vec<i32>,
    pub lists: Vec<i32>,
    pub lens: Vec<i32>,
}

/// A batch in memory of an engine.
struct Uploaded {
    q: DeviceBuffer,
    keys: DeviceBuffer,
    weights: DeviceBuffer,
    qo_indptr: DeviceArray<i32>,
    kv_indptr: DeviceArray<i32>,
    kv_lens: DeviceArray<i32>,
    page_indptr: DeviceArray<i32>,
    pages: DeviceArray<i32>,
    given: DeviceArray<i32>,
}

fn upload(engine: &Engine, of: Dtype, bits: &[u16]) -> DeviceBuffer {
    let uploaded = match of {
        Dtype::F16 => engine.upload::<f16>(bytemuck::cast_slice(bits)),
        _ => engine.upload::<bf16>(bytemuck::cast_slice(bits)),
    };
    uploaded.expect("memory")
}

impl IndexCase {
    fn upload(&self, engine: &Engine) -> Uploaded {
        let numbers = |of: &[i32]| DeviceArray::upload(engine, of).expect("memory");
        Uploaded {
            q: upload(engine, self.of, &self.q),
            keys: upload(engine, self.of, &self.keys),
            weights: engine.upload(&self.weights).expect("memory"),
            qo_indptr: numbers(&self.qo_indptr),
            kv_indptr: numbers(&self.kv_indptr),
            kv_lens: numbers(&self.kv_lens),
            page_indptr: numbers(&self.page_indptr),
            pages: numbers(&self.pages),
            given: numbers(self.given.as_deref().unwrap_or(&[])),
        }
    }

    /// Writes scores.
    fn score(&self, stream: &Stream, on: &Uploaded, out: &mut ScoresMut<'_>) -> Result<(), Error> {
        let queries = IndexQueries {
            q: on.q.tensor(&[self.tokens(), self.heads, self.dim])?,
            qo_indptr: on.qo_indptr.array(),
            visible: if self.given.is_some() { Visible::Counts(on.given.array()) } else { Visible::Causal },
        };
        let keys = match self.page_size {
            0 => IndexKeys::Ragged {
                keys: on.keys.tensor(&[self.keys.len() / self.dim, self.dim])?,
                kv_indptr: on.kv_indptr.array(),
            },
            size => IndexKeys::Paged {
                keys: on.keys.tensor(&[self.num_pages(), size, self.dim])?,
                rows: PageTableRows::Csr { indptr: on.page_indptr.array(), pages: on.pages.array() },
                kv_lens: on.kv_lens.array(),
            },
        };
        match self.block_size {
            0 => index_scores(stream, &queries, &on.weights.tensor(&[self.tokens(), self.heads])?, &keys, out),
            size => block_scores(stream, &queries, &keys, size, out),
        }
    }

    /// Scores and chooses on an engine. If `captured`, a graph is captured over no keys, and replayed over those of the
    /// case.
    ///
    /// # Panics
    /// It fails.
    pub fn run(
        &self,
        engine: &Engine,
        columns: usize,
        capacity: usize,
        [first, last]: [usize; 2],
        captured: bool,
    ) -> Indexed {
        let stream = engine.stream().expect("a stream");
        let mut on = self.upload(engine);
        let (tokens, blocks) = (self.tokens(), self.block_size > 0);
        let heads = if blocks { self.heads } else { 1 };
        let mut scores = engine.upload(&vec![-7.0f32; tokens * heads * columns]).expect("memory");
        let numbers = |len| DeviceArray::upload(engine, &vec![77i32; len]).expect("memory");
        let (mut counts, mut lists, mut lens) =
            (numbers(tokens), numbers(tokens * heads * capacity), numbers(tokens * heads));
        let shape = [tokens, heads, columns];
        let shape = if blocks { &shape[..] } else { &[tokens, columns] };
        let mut step = |on: &Uploaded| -> Result<(), Error> {
            let mut out = ScoresMut::new(scores.tensor_mut(shape)?, counts.array_mut());
            self.score(&stream, on, &mut out)?;
            let mut out = TopKLists::new(lists.array_mut(), lens.array_mut());
            match blocks {
                false => select_tokens(&stream, &scores.tensor(shape)?, &counts.array(), &mut out),
                true => select_pages(&stream, &scores.tensor(shape)?, &counts.array(), first, last, &mut out),
            }
        };
        if captured && !engine.is_cpu() {
            prepare(engine, self.of, self.heads, self.dim).expect("kernels");
            let none = vec![0; self.kv_lens.len() + 1];
            on.kv_lens.write(&stream, 0, &none[1..]).expect("written");
            on.kv_indptr.write(&stream, 0, &none).expect("written");
            stream.synchronize().expect("written");
            let mut graph = Graph::capture(&stream, || step(&on)).expect("captured");
            on.kv_lens.write(&stream, 0, &self.kv_lens).expect("written");
            on.kv_indptr.write(&stream, 0, &self.kv_indptr).expect("written");
            // SAFETY: everything that it reads and writes lives until the stream is synchronised.
            unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
        } else {
            step(&on).expect("sound");
        }
        stream.synchronize().expect("it ran");
        Indexed {
            scores: engine.download(&scores).expect("read"),
            counts: counts.to_vec().expect("read"),
            lists: lists.to_vec().expect("read"),
            lens: lens.to_vec().expect("read"),
        }
    }
}

/// Query heads, KV heads and the dimension of the attention.
const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
/// Keys of a page of the attention.
const PAGE: usize = 32;

/// Runs attention in f16 over pages to what an indexer chose, for queries that are requests of their own: on the
/// device the lists are those that the indexer wrote. Returns the output, and one loop in f64 over the chosen keys.
///
/// # Panics
/// It fails.
pub fn attend_to_chosen(engine: &Engine, case: &IndexCase, chosen: &Indexed) -> (Vec<f32>, Vec<f64>) {
    let (row, dim) = ((HEADS.kv * HEADS.head_dim) as usize, HEADS.head_dim as usize);
    let queries = *case.qo_indptr.last().expect("sums") as usize;
    let visible = &case.visible()[..queries];
    let pages: usize = case.lens.iter().map(|len| len.1.div_ceil(PAGE)).sum();
    let rounded = |count, seed| -> Vec<f16> { values(count, seed).into_iter().map(f16::from_f32).collect() };
    let (q, k, v) = (
        rounded(queries * HEADS.qo as usize * dim, 11),
        rounded(pages * PAGE * row, 12),
        rounded(pages * PAGE * row, 13),
    );
    // the pages of a request, in order, for each of its queries
    let (mut indptr, mut indices, mut last, mut of_query) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    let mut first = 0;
    for (request, (_, keys)) in case.lens.iter().enumerate() {
        for token in case.qo_indptr[request]..case.qo_indptr[request + 1] {
            let keys = visible[token as usize];
            indices.extend((0..keys.div_ceil(PAGE)).map(|page| (first + page) as i32));
            indptr.push(indices.len() as i32);
            last.push((keys + PAGE - 1) as i32 % PAGE as i32 + 1);
            of_query.push(first * PAGE);
        }
        first += keys.div_ceil(PAGE);
    }
    let qo_indptr: Vec<i32> = (0..=queries as i32).collect();
    let table = PageTable {
        indptr: &indptr,
        indices: &indices,
        last_page_len: &last,
        page_size: PAGE as u32,
        num_pages: pages as u32,
    };
    let tokens = case.tokens();
    let capacity = chosen.lists.len() / chosen.lens.len();
    let longest = || (0..capacity as i32).collect::<Vec<_>>();
    let (variant, names): (Variant, [&str; 2]) = if case.block_size == 0 {
        let tokens_of = Tensor2::new(longest().repeat(tokens), [tokens, capacity]).expect("as many");
        let count = vec![capacity as i32; tokens].into();
        (compose!(Causal, TokenList { max_tokens: capacity as i32, tokens: tokens_of, count }), ["tokens", "count"])
    } else {
        let heads = HEADS.kv as usize;
        let pages = Tensor3::new(longest().repeat(tokens * heads), [tokens, heads, capacity]).expect("as many");
        let count = Tensor2::new(vec![capacity as i32; tokens * heads], [tokens, heads]).expect("as many");
        let (page_size, max_pages) = (case.block_size as i32, capacity as i32);
        (compose!(Causal, PageList { page_size, max_pages, pages, count }), ["pages", "count"])
    };
    let attention = engine.attention(&variant, HEADS, Dtypes::f16()).expect("bound");
    let (stream, mut workspace) = (engine.stream().expect("a stream"), engine.workspace());
    let plan = attention.plan(&Batch::paged(&qo_indptr, &table), &mut workspace).expect("planned");
    for (name, of) in names.into_iter().zip([&chosen.lists, &chosen.lens]) {
        attention.set_tensor(&stream, name, &TensorContent::host(of.as_slice())).expect("replaced");
    }
    let shape = [queries, HEADS.qo as usize, dim];
    let pool = [pages, PAGE, HEADS.kv as usize, dim];
    let [on_q, on_k, on_v] = [&q, &k, &v].map(|of| engine.upload(of).expect("memory"));
    let mut o = engine.alloc(Dtype::F16, q.len()).expect("memory");
    let kv = Kv::paged(on_k.tensor(&pool).expect("as many"), on_v.tensor(&pool).expect("as many"));
    let out = Out::new(o.tensor_mut(&shape).expect("as many"));
    plan.run(&stream, on_q.tensor(&shape).expect("as many"), kv, out).expect("runs");
    let got = engine.download::<f16>(&o).expect("read").into_iter().map(f16::to_f32).collect();

    let mut want = Vec::new();
    for (token, first) in of_query.into_iter().enumerate() {
        for head in 0..HEADS.qo as usize {
            let group = head / (HEADS.qo / HEADS.kv) as usize;
            let list = if case.block_size == 0 { token } else { token * HEADS.kv as usize + group };
            let entries = &chosen.lists[list * capacity..][..chosen.lens[list] as usize];
            let unit = case.block_size.max(1);
            let keys = entries.iter().flat_map(|entry| (0..unit).map(move |i| *entry as usize * unit + i));
            let query = &q[(token * HEADS.qo as usize + head) * dim..][..dim];
            let (mut sum, mut o) = (0.0, vec![0.0; dim]);
            for key in keys.filter(|key| *key < visible[token]) {
                let at = ((first + key) * HEADS.kv as usize + group) * dim;
                let product: f64 = query.iter().zip(&k[at..]).map(|(a, b)| a.to_f64() * b.to_f64()).sum();
                let weight = (product / 8.0).exp();
                sum += weight;
                o.iter_mut().zip(&v[at..]).for_each(|(o, v)| *o += weight * v.to_f64());
            }
            want.extend(o.into_iter().map(|o| if sum > 0.0 { o / sum } else { 0.0 }));
        }
    }
    (got, want)
}
