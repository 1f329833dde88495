//! What tests on a GPU start from: a device with tensors in bf16, and batches in pages of 16 keys.

#![allow(dead_code)] // each test uses some

use attn_core::batch::{Batch, PageTableBuf, indptr};
use attn_core::dtype::{Dtype, Dtypes};
use attn_core::spec::{AttentionOptions, DecodeBackend, Heads, PrefillBackend};
use attn_core::tensor::{Kv, Out, TensorMut, TensorRef};
use attn_kernels::cuda::{CudaAttention, CudaBuffer, CudaError, CudaPlan, CudaStream, CudaWorkspace, Device};
use attn_needs::{Need, needed};

use super::stock;

/// Keys of a page.
pub(crate) const PAGE: u32 = 16;

/// Query and key lengths of each request.
pub(crate) type Lens<'a> = (&'a [u32], &'a [u32]);

/// A batch in host memory.
pub(crate) struct BatchArrays {
    pub(crate) qo: Vec<i32>,
    /// The number of keys of each request.
    pub(crate) kv: Vec<i32>,
    pub(crate) table: PageTableBuf,
}

impl BatchArrays {
    /// A batch over a pool of `pages` pages. Its requests may share some; `seed` changes which.
    pub(crate) fn new((qo, kv): Lens<'_>, pages: u32, seed: u32) -> Self {
        let mut next = seed;
        let table = PageTableBuf::from_lens(kv, PAGE, pages, || {
            next += 7;
            (next % pages) as i32
        });
        BatchArrays { qo: indptr(qo).expect("short"), kv: kv.iter().map(|&len| len as i32).collect(), table }
    }

    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch::paged(&self.qo, &self.table.table())
    }
}

/// A device with tensors of `queries` queries and `pages` pages.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) stream: CudaStream,
    pub(crate) o: CudaBuffer,
    pub(crate) lse: CudaBuffer,
    q: CudaBuffer,
    k: CudaBuffer,
    v: CudaBuffer,
    heads: Heads,
    queries: usize,
    pages: u32,
}

/// The default options, and those that name CUDA cores.
pub(crate) fn on_each_backend() -> [AttentionOptions; 2] {
    let cuda_cores = AttentionOptions {
        decode: Some(DecodeBackend::CudaCores),
        prefill: PrefillBackend::CudaCores,
        ..AttentionOptions::default()
    };
    [AttentionOptions::default(), cuda_cores]
}

/// The first device, without which a test is skipped.
pub(crate) fn device() -> Option<Device> {
    needed(Need::Gpu, Device::new(0))
}

impl Gpu {
    pub(crate) fn find(heads: Heads, queries: usize, pages: u32) -> Option<Self> {
        let device = device()?;
        let (rows, slots) = (queries * heads.qo as usize, (pages * PAGE * heads.kv) as usize);
        let upload =
            |rows, seed| CudaBuffer::upload(&device, &values(rows * heads.head_dim as usize, seed)).expect("memory");
        let (q, k, v, o) = (upload(rows, 1), upload(slots, 2), upload(slots, 3), upload(rows, 4));
        let lse = CudaBuffer::new(&device, rows * 4).expect("memory");
        let stream = CudaStream::new(&device).expect("a stream");
        Some(Gpu { device, stream, o, lse, q, k, v, heads, queries, pages })
    }

    pub(crate) fn attention(&self, expr: &str, options: AttentionOptions) -> CudaAttention {
        CudaAttention::new(&self.device, &stock::variant(expr), self.heads, Dtypes::bf16(), options).expect("bound")
    }

    pub(crate) fn workspace(&self) -> CudaWorkspace {
        CudaWorkspace::new(&self.device).expect("empty")
    }

    /// Tensors of `queries` queries, with o at the given address.
    pub(crate) fn tensors(&self, queries: usize, o: u64) -> (TensorRef<'_>, Kv<'_>, Out<'_>) {
        let [qo, kv, dim] = [self.heads.qo, self.heads.kv, self.heads.head_dim].map(|n| n as usize);
        let (rows, row) = ([queries, qo, dim], [(qo * dim) as i64, dim as i64, 1]);
        let pool = [self.pages as usize, PAGE as usize, kv, dim];
        let slot = [i64::from(PAGE) * (kv * dim) as i64, (kv * dim) as i64, dim as i64, 1];
        // SAFETY: the buffers hold as many elements, and live until the stream was waited for; nothing else uses `o`.
        unsafe {
            let pool = |buffer: &CudaBuffer| TensorRef::device(buffer.ptr(), Dtype::Bf16, &pool, &slot).expect("fits");
            (
                TensorRef::device(self.q.ptr(), Dtype::Bf16, &rows, &row).expect("fits"),
                Kv::paged(pool(&self.k), pool(&self.v)),
                Out::with_lse(
                    TensorMut::device(o, Dtype::Bf16, &rows, &row).expect("fits"),
                    TensorMut::device(self.lse.ptr(), Dtype::F32, &rows[..2], &[qo as i64, 1]).expect("fits"),
                ),
            )
        }
    }

    pub(crate) fn run(&self, plan: &CudaPlan) -> Result<(), CudaError> {
        self.run_on(&self.stream, plan, self.queries_of(plan))
    }

    /// Queries of the tensors of a run: those of the batch, or all of this for a plan with a capacity.
    pub(crate) fn queries_of(&self, plan: &CudaPlan) -> usize {
        plan.capacity().map_or(plan.layout().qo_tokens(), |_| self.queries)
    }

    /// Runs a plan over tensors of `queries` queries.
    pub(crate) fn run_on(&self, stream: &CudaStream, plan: &CudaPlan, queries: usize) -> Result<(), CudaError> {
        let (q, kv, out) = self.tensors(queries, self.o.ptr());
        plan.run(stream, q, kv, out, None, false)
    }

    pub(crate) fn run_with_layer(&self, plan: &CudaPlan, layer: &CudaAttention) -> Result<(), CudaError> {
        let (q, kv, out) = self.tensors(self.queries_of(plan), self.o.ptr());
        plan.run(&self.stream, q, kv, out, Some(layer), false)
    }

    /// The output of a run; bytes of 0xff where it writes nothing.
    pub(crate) fn written(&self, run: impl FnOnce() -> Result<(), CudaError>) -> Vec<u8> {
        // SAFETY: the memory is that of `o`, which outlives this; the stream orders its writes before the run.
        let mut o = unsafe { CudaBuffer::from_raw(&self.device, self.o.ptr(), self.o.len()) };
        o.fill(&self.stream, 0xff).expect("fills");
        run().expect("runs");
        self.stream.synchronize().expect("it ran");
        let mut bytes = vec![0; self.o.len()];
        self.o.download(0, &mut bytes).expect("copied");
        bytes
    }

    /// The output of a plan of this batch alone.
    pub(crate) fn alone(&self, attention: &CudaAttention, batch: &Batch<'_>) -> Vec<u8> {
        let mut workspace = self.workspace();
        let plan = attention.plan(batch, &[], None, None, &mut workspace).expect("sound");
        self.written(|| self.run(&plan))
    }
}

/// Random bf16 values between -2 and 2.
fn values(count: usize, seed: u32) -> Vec<u8> {
    let bf16 = |i: u32| {
        let bits = (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b9);
        let x = ((bits ^ bits >> 15) & 0xffff) as f32 / 16384.0 - 2.0;
        ((x.to_bits() >> 16) as u16).to_le_bytes()
    };
    (0..count as u32).flat_map(bf16).collect()
}

/// The numbers of bf16 values.
pub(crate) fn floats(bf16: &[u8]) -> Vec<f32> {
    let float = |bytes: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([bytes[0], bytes[1]])) << 16);
    bf16.chunks_exact(2).map(float).collect()
}
