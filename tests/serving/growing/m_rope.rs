//! A tensor with a row for each token of a step: positions on three axes, which queries and appended keys read.

use std::ops::Range;

use attn::{
    DeviceBuffer, Error, Out, Stream,
    batch::{DeviceBatch, DevicePages, indptr},
    ops::{self, Append, Array, DeviceArray, KvMut, KvRef, KvTransform, PageTableRows, SlotMapping},
    prelude::*,
};
use attn_tests::gpu::engines;

use super::support::{Captured, HEADS, PROMPT, ROW, STEPS, assert_close, content, flat, halves, ints, numbers};
use crate::captures;

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

/// A token of a request.
#[derive(Clone, Copy)]
struct Token {
    request: usize,
    position: usize,
}

/// The tokens `positions` of each of two requests.
fn tokens_of_both(positions: Range<usize>) -> Vec<Token> {
    (0..2).flat_map(|request| positions.clone().map(move |position| Token { request, position })).collect()
}

/// Positions of tokens in time, height and width.
fn ids(tokens: &[Token]) -> Vec<i32> {
    let of_token = |&Token { request, position }: &Token| match request {
        0 => [position, position / 2, position % 7],
        _ => [3 * position, position, 5],
    };
    tokens.iter().flat_map(of_token).map(|id| id as i32).collect()
}

fn id_table(tokens: &[Token]) -> Tensor2<i32> {
    Tensor2::from_values(ids(tokens), [tokens.len(), 3]).expect("three a token")
}

/// Of `all` rows with `row` elements, 256 a request, those of some tokens.
fn rows(all: &[f16], row: usize, tokens: &[Token]) -> Vec<f16> {
    let of_token = |token: &Token| all[(256 * token.request + token.position) * row..][..row].to_vec();
    tokens.iter().flat_map(of_token).collect()
}

const PAGES: usize = 40;
/// Pages of a request.
const MAX_PAGES: usize = 16;
const POOL: [usize; 4] = [PAGES, 16, 2, 64];

/// A paged cache of rotated keys, with a table of padded rows.
struct Cache {
    k: DeviceBuffer,
    v: DeviceBuffer,
    pages: DeviceArray<i32>,
}

impl Cache {
    /// Pools of NaN.
    fn new(engine: &Engine) -> Self {
        let pool = || engine.upload(&vec![f16::NAN; PAGES * 16 * ROW[1]]).expect("memory");
        let pages: Vec<i32> = (0..2 * MAX_PAGES as i32).map(|i| (7 * i + 3) % 40).collect();
        Cache { k: pool(), v: pool(), pages: numbers(engine, &pages) }
    }

    /// Appends a key and a value for each of some tokens, through the transform.
    fn append(&mut self, stream: &Stream, new: &NewTokens, transform: &KvTransform) -> Result<(), Error> {
        let shape = [new.requests.len(), 2, 64];
        let rows = KvRef::new(new.k.tensor(&shape)?, new.v.tensor(&shape)?);
        let mut pools = KvMut::new(self.k.tensor_mut(&POOL)?, self.v.tensor_mut(&POOL)?);
        let slot_mapping = SlotMapping::Positions {
            requests: new.requests.array(),
            positions: new.positions.array(),
            rows: PageTableRows::Padded { pages: self.pages.array(), max_pages: MAX_PAGES },
        };
        ops::append_paged(stream, &rows, &mut pools, &Append::at(slot_mapping), Some(transform))
    }
}

/// Tokens that are appended: their keys and values, and where they go.
struct NewTokens {
    k: DeviceBuffer,
    v: DeviceBuffer,
    requests: DeviceArray<i32>,
    positions: DeviceArray<i32>,
}

impl NewTokens {
    fn new(engine: &Engine, [all_k, all_v]: [&[f16]; 2], tokens: &[Token]) -> Self {
        let upload = |all: &[f16]| engine.upload(&rows(all, ROW[1], tokens)).expect("memory");
        let array =
            |of: fn(&Token) -> usize| numbers(engine, &tokens.iter().map(|token| of(token) as i32).collect::<Vec<_>>());
        NewTokens {
            k: upload(all_k),
            v: upload(all_v),
            requests: array(|token| token.request),
            positions: array(|token| token.position),
        }
    }
}

#[test]
fn m_rope_decodes_and_appends_under_one_graph() {
    const ROOM: usize = 16;
    let inv_freq: Vec<f32> = (0..32).map(|i| 100f32.powf(-(i as f32) / 32.0)).collect();
    let inv_freq = Tensor1::from(inv_freq);
    let (all_q, all_k, all_v) = (halves(512 * ROW[0], 1), halves(512 * ROW[1], 2), halves(512 * ROW[1], 3));
    let _beside = captures::beside();
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let zeros = |n| Tensor2::from_values(vec![0; n * 3], [n, 3]).expect("zeros");
        let variant: Variant = StepMRope { inv_freq: inv_freq.clone(), position_ids: zeros(ROOM) }.into();
        let options = AttentionOptions { stored: KvStored::Transformed, ..Default::default() };
        let attention = engine.attention_with(&variant, HEADS, Dtypes::f16(), options).expect("bound");
        let transform = KvTransform::new(&engine, &variant, HEADS).expect("`kv_token` is known");
        transform.prepare(Dtype::F16, Dtype::F16).expect("a kernel");
        let raw = FlatMRope { inv_freq: inv_freq.clone(), of_query: zeros(1), of_key: zeros(1) };
        let raw = engine.attention(&raw.into(), HEADS, Dtypes::f16()).expect("bound");

        let mut cache = Cache::new(&engine);
        let mut position_ids = numbers(&engine, &[0i32; ROOM * 3]);
        let prompt = tokens_of_both(0..PROMPT);
        position_ids.write(&stream, 0, &ids(&prompt)).expect("room");
        transform.set_tensor(&stream, "position_ids", &content(&position_ids)).expect("room");
        cache.append(&stream, &NewTokens::new(&engine, [&all_k, &all_v], &prompt), &transform).expect("appended");

        let all_pages = cache.pages.to_vec().expect("copied");
        let first = BlockTable {
            pages: &all_pages,
            max_pages: MAX_PAGES,
            kv_lens: &[PROMPT as i32; 2],
            page_size: 16,
            num_pages: PAGES as u32,
        };
        let capacity = BatchCapacity::decode(2, 512).in_pages(16, PAGES as u32);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let mut workspace = engine.workspace();
        let first = Batch::block_table(&[0, 1, 2], &first);
        let mut plan = attention.plan_with(&first, &mut workspace, options).expect("room");
        plan.prepare_device_updates().expect("room for the capacity");

        let mut new = NewTokens::new(&engine, [&all_k, &all_v], &tokens_of_both(0..1));
        let (mut kv_lens, qo_indptr) = (numbers(&engine, &[0i32; 2]), numbers(&engine, &[0i32, 1, 2]));
        let mut q = engine.alloc(Dtype::F16, 2 * ROW[0]).expect("memory");
        let mut o = engine.alloc(Dtype::F16, 2 * ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for len in PROMPT + 1..=PROMPT + STEPS {
            let tokens = tokens_of_both(len - 1..len);
            position_ids.write(&stream, 0, &ids(&tokens)).expect("room");
            kv_lens.write(&stream, 0, &[len as i32; 2]).expect("fits");
            new.positions.write(&stream, 0, &[len as i32 - 1; 2]).expect("fits");
            let new_q = rows(&all_q, ROW[0], &tokens);
            q.write(&stream, 0, &new_q).expect("fits");
            new.k.write(&stream, 0, &rows(&all_k, ROW[1], &tokens)).expect("fits");
            new.v.write(&stream, 0, &rows(&all_v, ROW[1], &tokens)).expect("fits");
            graph.step(&stream, || {
                transform.set_tensor(&stream, "position_ids", &content(&position_ids))?;
                attention.set_tensor(&stream, "position_ids", &content(&position_ids))?;
                cache.append(&stream, &new, &transform)?;
                let indices = DevicePages::Padded { indices: ints(&cache.pages), max_pages: MAX_PAGES };
                plan.update_on_device(&stream, &DeviceBatch::paged(ints(&qo_indptr), ints(&kv_lens), indices))?;
                let kv = Kv::paged(cache.k.tensor(&POOL)?, cache.v.tensor(&POOL)?);
                plan.run(&stream, q.tensor(&[2, 4, 64])?, kv, Out::new(o.tensor_mut(&[2, 4, 64])?))
            });
            plan.device_status(&stream).expect("sound");
            let all = tokens_of_both(0..len);
            let exact = FlatMRope { inv_freq: inv_freq.clone(), of_query: id_table(&tokens), of_key: id_table(&all) };
            let exact = raw.with_parameters(&exact.into()).expect("a layer");
            let (k, v) = (rows(&all_k, ROW[1], &all), rows(&all_v, ROW[1], &all));
            let lens = indptr(&[len as u32; 2]).expect("short");
            let want = flat(&engine, &exact, &new_q, [&k, &v], &Batch::ragged(&[0, 1, 2], &lens));
            assert_close(&engine, &format!("{len} keys"), &engine.download_f32(&o).expect("ran"), &want, 0.02);
        }
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
