//! Random tables on the device that are not sound: nothing is read or written outside the arrays and the pool
//! (compute-sanitizer sees it), runs write nothing, and the status tells. Skipped without a GPU.
#![cfg(feature = "cuda")]

use crate::gpu::{BatchArrays, Gpu, PAGE};
use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice};
use attn_core::spec::{AttentionOptions, Heads, KernelKind};
use attn_kernels::cuda::CudaBuffer;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng, seq::IndexedMutRandom as _};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
const PAGES: u32 = 64;
const REQUESTS: u32 = 12;
/// Of a request.
const QUERIES: u32 = 40;
const KEYS: u32 = 700;
/// Entries of a padded row.
const ROW: usize = (KEYS / PAGE) as usize + 1;
/// Batches of each attention and form of the page table.
const ROUNDS: u64 = 100;

/// The arrays of a batch in host memory, of a size that does not depend on the batch.
struct Tables {
    qo_indptr: Vec<i32>,
    kv_lens: Vec<i32>,
    page_indptr: Vec<i32>,
    page_indices: Vec<i32>,
    padded: bool,
}

impl Tables {
    fn random(rng: &mut SmallRng, padded: bool) -> Self {
        let lens = |rng: &mut SmallRng, most| (0..REQUESTS).map(|_| rng.random_range(0..=most)).collect::<Vec<u32>>();
        let (qo, kv) = (lens(rng, QUERIES), lens(rng, KEYS));
        let BatchArrays { qo: qo_indptr, kv: kv_lens, table } = BatchArrays::new((&qo, &kv), PAGES, rng.random());
        let mut page_indices = vec![0; REQUESTS as usize * ROW];
        for (request, ends) in table.indptr.windows(2).enumerate() {
            let pages = &table.indices[ends[0] as usize..ends[1] as usize];
            let first = if padded { request * ROW } else { ends[0] as usize };
            page_indices[first..first + pages.len()].copy_from_slice(pages);
        }
        Tables { qo_indptr, kv_lens, page_indptr: table.indptr, page_indices, padded }
    }

    /// Changes one to three entries, to any number or to one nearby.
    fn corrupt(&mut self, rng: &mut SmallRng) {
        for _ in 0..rng.random_range(1..=3) {
            let [qo, kv, indptr, indices] =
                [&mut self.qo_indptr, &mut self.kv_lens, &mut self.page_indptr, &mut self.page_indices];
            let mut arrays = if self.padded { vec![qo, kv, indices] } else { vec![qo, kv, indptr, indices] };
            let entry = arrays.choose_mut(rng).and_then(|array| array.choose_mut(rng)).expect("not empty");
            *entry = match rng.random_range(0..4) {
                0 => rng.random(),
                1 => [i32::MIN, i32::MAX, -1, 0][rng.random_range(0..4)],
                2 => 1 << rng.random_range(0..31),
                _ => entry.wrapping_add(rng.random_range(-100..=100)),
            };
        }
    }

    fn batch<'a>(&self, arrays: [I32Slice<'a>; 4]) -> DeviceBatch<'a> {
        let [qo_indptr, kv_lens, indptr, indices] = arrays;
        let pages = match self.padded {
            true => DevicePages::Padded { indices, max_pages: ROW },
            false => DevicePages::Compressed { indptr, indices },
        };
        DeviceBatch::paged(qo_indptr, kv_lens, pages)
    }

    fn arrays(&self) -> [&[i32]; 4] {
        [&self.qo_indptr, &self.kv_lens, &self.page_indptr, &self.page_indices]
    }

    /// What the host says of the batch.
    fn check(&self, capacity: &BatchCapacity) -> Result<(), BatchError> {
        let layout = self.batch(self.arrays().map(I32Slice::host)).layout(capacity.pages)?;
        capacity.check(&layout.expect("in host memory"))
    }
}

#[test]
fn a_thousand_random_unsound_tables_write_nothing() {
    let queries = REQUESTS * QUERIES;
    let Some(gpu) = Gpu::find(HEADS, queries as usize, PAGES) else { return };
    let capacity = BatchCapacity::new(REQUESTS, queries, REQUESTS * KEYS).in_pages(PAGE, PAGES);
    let capacity = BatchCapacity { qo_len: QUERIES, ..capacity };
    let of = |kernel, fixed_split_size| AttentionOptions {
        kernel: Some(kernel),
        fixed_split_size,
        ..AttentionOptions::default()
    };
    let attentions = [
        ("causal", of(KernelKind::Decode, None)),
        ("causal + sliding_window(window=100)", of(KernelKind::Prefill, None)),
        ("causal", of(KernelKind::Prefill, Some(128))),
        ("full", of(KernelKind::Decode, None)),
        ("causal", of(KernelKind::Mixed, None)),
    ];
    let (mut rng, mut unsound) = (SmallRng::seed_from_u64(1), 0);
    for (expr, options) in attentions {
        let attention = gpu.attention(expr, options);
        let mut workspace = gpu.workspace();
        let first = BatchArrays::new((&[1], &[5]), PAGES, 3);
        let mut plan =
            attention.plan(&first.batch(), &[], Some(&capacity), None, &mut workspace).expect("within the capacity");
        for padded in [false, true] {
            // allocations of exactly the arrays' sizes, so that the sanitizer sees every access behind them
            let size = Tables::random(&mut rng, padded);
            let mut buffers = size.arrays().map(|ints| CudaBuffer::new(&gpu.device, ints.len() * 4).expect("memory"));
            let mut round = 0;
            while round < ROUNDS {
                let mut tables = Tables::random(&mut rng, padded);
                tables.corrupt(&mut rng);
                let Err(host) = tables.check(&capacity) else { continue };
                round += 1;
                unsound += 1;
                let mut run = |tables: &Tables| {
                    for (buffer, ints) in buffers.iter_mut().zip(tables.arrays()) {
                        buffer.write(&gpu.stream, 0, bytemuck::cast_slice(ints)).expect("room");
                    }
                    // SAFETY: the buffers have as many numbers, and live until the stream was waited for.
                    let arrays = buffers.each_ref().map(|ints| unsafe { I32Slice::device(ints.ptr(), ints.len() / 4) });
                    gpu.written(|| {
                        plan.update_on_device(&gpu.stream, &tables.batch(arrays))?;
                        gpu.run(&plan)
                    })
                };
                // what its lists leave must not run again
                run(&Tables::random(&mut rng, padded));
                let written = run(&tables);
                let title = format!("{expr}, {options:?}, padded {padded}, round {round}: {host}");
                plan.device_status(&gpu.stream).expect_err(&title);
                assert!(written.iter().all(|&byte| byte == 0xff), "{title}: something was written");
            }
        }
    }
    assert_eq!(unsound, 1000);
}
