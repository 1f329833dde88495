//! A variant of your own, composed by name with stock variants, over a paged cache of real tensors.
//!
//! The tensors are q, k and v of three layers of SmolLM2-135M-Instruct (Apache-2.0), with outputs that numpy computed
//! in f64: `examples/data/smollm2_qkv.safetensors`, which a checkout has and the packaged crate has not. Runs on the
//! first CUDA device, else on the CPU.
//!
//! ```text
//! cargo run --release --example quickstart
//! ```

#![allow(clippy::print_stdout)]

use attn::prelude::*;
use safetensors::SafeTensors;

/// Soft cap of logits: `cap * tanh(logit / cap)`, with the accurate tanh.
#[derive(Clone, Debug, VariantParams)]
struct MyCap {
    /// The bound that logits approach.
    #[default(30.0)]
    #[require(cap > 0.0)]
    cap: f32,
}

#[attention_variant(name = "my_cap")]
impl AttentionVariant for MyCap {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.cap * (logit / self.cap).tanh()
    }
}

const HEADS: Heads = Heads { qo: 9, kv: 3, head_dim: 64 };
const PAGE_SIZE: usize = 16;
const ROPE: &str = "rope(theta=100000, interleaved=true)";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/smollm2_qkv.safetensors"))?;
    let tensors = SafeTensors::deserialize(&file)?;
    let engine = Engine::auto()?;
    println!("running on {engine}; relative error against the reference outputs (f16 inputs and outputs)\n");
    println!("{:<9}{:<74}{:>11}{:>11}", "layer", "variant, picked by name", "prefill", "decode");

    for layer in ["layer3", "layer14", "layer29"] {
        for (reference, expr) in [
            ("causal", format!("causal + {ROPE}")),
            ("soft_cap_30", format!("causal + {ROPE} + my_cap(cap=30)")),
            ("window_64", format!("causal + {ROPE} + sliding_window(window=64)")),
        ] {
            let variant = Variant::parse(&expr)?;
            let attention = engine.attention(&variant, HEADS, Dtypes::f16())?;
            let q = halves(&tensors, &format!("{layer}.q"))?;
            let want = floats(&tensors, &format!("{layer}.{reference}.o"))?;
            let cache = PagedCache::fill(&engine, &tensors, layer)?;

            // prefill: all tokens of the text at once; decode: the last token alone, over the same cache
            let row = (HEADS.qo * HEADS.head_dim) as usize;
            let last = q.len() - row;
            let prefill = error(&cache.attend(&engine, &attention, &q)?, &want);
            let decode = error(&cache.attend(&engine, &attention, &q[last..])?, &want[last..]);
            println!("{layer:<9}{expr:<74}{prefill:>11.1e}{decode:>11.1e}");
            if prefill.max(decode) > 1e-3 {
                return Err(format!("{layer}, {expr}: the error is above 1e-3").into());
            }
        }
    }
    Ok(())
}

/// The keys and values of one sequence in pages that are not in the sequence's order.
struct PagedCache {
    pool: DeviceBuffer,
    pages: Vec<i32>,
    tokens: usize,
}

impl PagedCache {
    fn fill(engine: &Engine, tensors: &SafeTensors<'_>, layer: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let row = (HEADS.kv * HEADS.head_dim) as usize;
        let (k, v) = (halves(tensors, &format!("{layer}.k"))?, halves(tensors, &format!("{layer}.v"))?);
        let tokens = k.len() / row;
        let count = tokens.div_ceil(PAGE_SIZE);
        let pages: Vec<i32> = (0..count).map(|i| ((i * 7 + 3) % count) as i32).collect(); // 7 is coprime to 10 pages
        // (pages, k or v, slots, heads, dim); unused slots stay NaN, and must not matter
        let mut pool = vec![f16::NAN; count * 2 * PAGE_SIZE * row];
        for token in 0..tokens {
            let (page, slot) = (pages[token / PAGE_SIZE] as usize, token % PAGE_SIZE);
            for (half, rows) in [&k, &v].into_iter().enumerate() {
                let at = ((page * 2 + half) * PAGE_SIZE + slot) * row;
                pool[at..at + row].copy_from_slice(&rows[token * row..][..row]);
            }
        }
        Ok(PagedCache { pool: engine.upload(&pool)?, pages, tokens })
    }

    /// Attention of the newest queries over the whole cache; `q` has any number of them.
    fn attend(
        &self,
        engine: &Engine,
        attention: &Attention,
        q: &[f16],
    ) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        let (qo, dim) = (HEADS.qo as usize, HEADS.head_dim as usize);
        let queries = q.len() / (qo * dim);
        let table = PageTable {
            indptr: &[0, self.pages.len() as i32],
            indices: &self.pages,
            last_page_len: &[((self.tokens - 1) % PAGE_SIZE + 1) as i32],
            page_size: PAGE_SIZE as u32,
            num_pages: self.pages.len() as u32,
        };
        let mut workspace = engine.workspace();
        let plan = attention.plan(&Batch::paged(&[0, queries as i32], &table), &mut workspace)?;

        let q = engine.upload(q)?;
        let mut o = engine.alloc(Dtype::F16, queries * qo * dim)?;
        let stream = engine.stream()?;
        let pool = self.pool.tensor(&[self.pages.len(), 2, PAGE_SIZE, HEADS.kv as usize, dim])?;
        plan.run(
            &stream,
            q.tensor(&[queries, qo, dim])?,
            Kv::paged_fused(pool, PageOrder::Nhd)?,
            Out::new(o.tensor_mut(&[queries, qo, dim])?),
        )?;
        stream.synchronize()?;
        Ok(engine.download::<f16>(&o)?.into_iter().map(f16::to_f32).collect())
    }
}

fn halves(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f16>, safetensors::SafeTensorError> {
    Ok(tensors.tensor(name)?.data().chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect())
}

fn floats(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, safetensors::SafeTensorError> {
    Ok(tensors.tensor(name)?.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// Relative Frobenius error.
fn error(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f32| f64::from(x) * f64::from(x);
    let (diff, norm) = got.iter().zip(want).fold((0.0, 0.0), |(d, n), (&g, &w)| (d + square(g - w), n + square(w)));
    (diff / norm).sqrt()
}

#[test]
fn it_checks_itself() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
