//! What tests of the public interface start from: variants from expressions, attention on the CPU, batches, tensors in
//! host memory, and runs over them.

use attn::{
    Attention, AttentionOptions, Batch, Dtype, Dtypes, Engine, Error, Heads, Kv, KvScales, Out, Plan, RunOptions,
    TensorMut, TensorRef, Variant,
};
use attn_core::batch::{Layout, PageTableBuf, indptr};
use attn_testing::Host;

use crate::reference::Packed;
use crate::synthetic::values;

/// Parses an expression over stock variants.
///
/// # Panics
/// The expression is invalid.
pub fn stock_variant(expr: &str) -> Variant {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    Variant::parse(expr).expect(expr)
}

/// Binds an expression over stock variants on the CPU, in f32.
///
/// # Panics
/// The expression is invalid or does not bind.
pub fn cpu_attention(expr: &str, heads: Heads, options: AttentionOptions) -> Attention {
    Engine::cpu().attention_with(&stock_variant(expr), heads, Dtypes::f32(), options).expect("bound")
}

/// A page table that takes the pages of the pool in descending order, so that page order differs from token order.
pub fn descending_pages(kv_lens: &[u32], page_size: u32, num_pages: u32) -> PageTableBuf {
    let mut next = num_pages as i32;
    PageTableBuf::from_lens(kv_lens, page_size, num_pages, || {
        next -= 1;
        next
    })
}

/// A batch in host memory, ragged or in pages.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct BatchArrays {
    pub qo: Vec<i32>,
    pub kv: Vec<i32>,
    pub table: Option<PageTableBuf>,
}

impl BatchArrays {
    /// A batch of these query and key lengths; `pool` is the size of a page and the number of pages.
    ///
    /// # Panics
    /// More tokens than an i32 counts.
    pub fn new(qo: &[u32], kv: &[u32], pool: Option<[u32; 2]>) -> Self {
        let table = pool.map(|[page_size, pages]| descending_pages(kv, page_size, pages));
        BatchArrays { qo: indptr(qo).expect("short"), kv: indptr(kv).expect("short"), table }
    }

    /// The batch.
    pub fn batch(&self) -> Batch<'_> {
        match &self.table {
            Some(table) => Batch::paged(&self.qo, &table.table()),
            None => Batch::ragged(&self.qo, &self.kv),
        }
    }
}

/// Queries in f32, and keys and values, in host memory.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Tensors {
    pub heads: Heads,
    pub q: Vec<f32>,
    pub k: Host,
    pub v: Host,
    /// The number of tokens, or the number of pages and of their slots.
    pub slots: Vec<usize>,
}

/// The outputs of a run; NaN where it writes nothing.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Written {
    pub o: Vec<f32>,
    pub lse: Vec<f32>,
}

impl Written {
    /// The bits of all outputs, which are equal for NaN too.
    pub fn bits(&self) -> [Vec<u32>; 2] {
        [&self.o, &self.lse].map(|x| x.iter().map(|x| x.to_bits()).collect())
    }
}

impl Tensors {
    /// Synthetic tensors of `queries` queries.
    pub fn new(heads: Heads, queries: usize, slots: &[usize]) -> Self {
        let row = heads.head_dim as usize;
        let kv = |seed| Host::F32(values(slots.iter().product::<usize>() * heads.kv as usize * row, seed));
        let q = values(queries * heads.qo as usize * row, 1);
        Tensors { heads, q, k: kv(2), v: kv(3), slots: slots.to_vec() }
    }

    /// The same keys and values, rounded to a type.
    pub fn with_kv(self, dtype: Dtype) -> Self {
        let [k, v] = [&self.k, &self.v].map(|host| Host::new(dtype, &host.to_f32()));
        Tensors { k, v, ..self }
    }

    /// Packed keys and values, moved to the pages of a layout. Slots without a key are NaN.
    ///
    /// # Panics
    /// The layout is not paged.
    pub fn in_pages(&self, layout: &Layout, slots: [usize; 2]) -> Self {
        let row = (self.heads.kv * self.heads.head_dim) as usize;
        let table = layout.pages().expect("paged");
        let moved = |packed: &Host| {
            let (packed, mut pool) = (packed.to_f32(), vec![f32::NAN; slots[0] * slots[1] * row]);
            let keys = (0..layout.batch()).flat_map(|b| (0..layout.kv_len(b)).map(move |key| (b, key)));
            for ((request, key), from) in keys.zip(packed.chunks(row)) {
                let (page, slot) = table.locate(request, key);
                pool[(page * slots[1] + slot) * row..][..row].copy_from_slice(from);
            }
            pool
        };
        let [k, v] = [&self.k, &self.v].map(|host| Host::new(host.dtype(), &moved(host)));
        Tensors { k, v, slots: slots.to_vec(), ..self.clone() }
    }

    /// The tensors for the reference. Keys and values must be packed.
    pub fn packed(&self) -> Packed {
        let exact = |x: &[f32]| x.iter().copied().map(f64::from).collect();
        Packed { q: exact(&self.q), k: exact(&self.k.to_f32()), v: exact(&self.v.to_f32()) }
    }

    /// Keys and values.
    ///
    /// # Errors
    /// The slots do not fit the memory.
    pub fn kv(&self) -> Result<Kv<'_>, Error> {
        let shape = [&self.slots[..], &[self.heads.kv as usize, self.heads.head_dim as usize]].concat();
        let (k, v) = (self.k.tensor(&shape)?, self.v.tensor(&shape)?);
        Ok(if self.slots.len() == 2 { Kv::paged(k, v) } else { Kv::ragged(k, v) })
    }

    /// Runs a plan on the CPU.
    ///
    /// # Panics
    /// The plan refuses the tensors.
    pub fn run(&self, plan: &Plan) -> Written {
        self.run_with(plan, KvScales::default(), RunOptions::default()).expect("runs")
    }

    /// Runs a plan on the CPU with scales and options.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn run_with(&self, plan: &Plan, scales: KvScales<'_>, options: RunOptions<'_>) -> Result<Written, Error> {
        let (heads, dim) = (self.heads.qo as usize, self.heads.head_dim as usize);
        let shape = [self.q.len() / (heads * dim), heads, dim];
        let (mut o, mut lse) = (vec![f32::NAN; self.q.len()], vec![f32::NAN; shape[0] * heads]);
        let out = Out::with_lse(TensorMut::host(&mut o, &shape)?, TensorMut::host(&mut lse, &shape[..2])?);
        let (q, kv) = (TensorRef::host(&self.q, &shape)?, self.kv()?.with_scales(scales));
        plan.run_with(&Engine::cpu().stream()?, q, kv, out, options)?;
        Ok(Written { o, lse })
    }
}
