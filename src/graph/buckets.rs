//! Plans and graphs for batches of several sizes.

use std::collections::BTreeMap;

use super::Graph;
use crate::batch::{BatchError, DeviceBatch};
use crate::{Attention, Batch, BatchCapacity, Engine, Error, PageTable, Plan, PlanOptions, Stream, Workspace};

/// One step of the engine, passed to `work`. On the CPU and before a capture, `work` runs for real.
#[derive(Debug)]
pub struct Step<'a> {
    /// The stream to launch on.
    pub stream: &'a Stream,
    /// The plans, one for each list of layers in [`GraphBuckets::new`], in that order.
    pub plans: &'a mut [Plan],
    /// The capacity of the bucket: tensors have `capacity.qo_tokens` rows, of which the batch uses the first.
    pub capacity: &'a BatchCapacity,
}

/// Plans and graphs for batches of several sizes. A batch runs in the smallest bucket that holds it.
///
/// Each bucket has plans with a capacity of its size, in workspaces of its own, and one graph. A step updates the plans
/// in place and replays the graph: the host launches one graph a step, however many layers the model has. A batch with
/// fewer requests than its bucket needs no padding: rows past its own are neither read nor written. `Send` and `Sync`.
///
/// # Example
///
/// A decode loop with two layers of different windows. Requests come and go, and pages grow.
///
/// ```
/// use attn::{batch::PageTableBuf, graph::GraphBuckets, Error, Out, prelude::*};
///
/// let (page_size, num_pages) = (4, 64);
/// let engine = Engine::cpu(); // or `Engine::auto()?`, with buffers of bf16
/// let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
/// let near = engine.attention(&Variant::parse("causal + sliding_window(window=8)")?, heads, Dtypes::f32())?;
/// let far = engine.attention(&Variant::parse("causal")?, heads, Dtypes::f32())?;
/// let capacity = BatchCapacity::decode(8, page_size * num_pages).in_pages(page_size, num_pages);
/// let mut buckets = GraphBuckets::new(&engine, &[&[&near], &[&far]], &capacity, &GraphBuckets::sizes(8))?;
///
/// let stream = engine.stream()?;
/// let q = engine.upload(&vec![1f32; 8 * 4 * 8])?;
/// let pools = [1f32, 2.0].map(|x| engine.upload(&vec![x; 64 * 4 * 2 * 8]));
/// let [near_pool, far_pool] = pools;
/// let (near_pool, far_pool) = (near_pool?, far_pool?);
/// let mut o = engine.alloc(Dtype::F32, 8 * 4 * 8)?;
///
/// let mut lens = vec![5u32, 2, 9];
/// for step in 0..6 {
///     lens.iter_mut().for_each(|len| *len += 1);
///     if step == 3 {
///         lens.extend([7, 1]); // two more requests: the next bucket
///     }
///     let qo_indptr: Vec<i32> = (0..=lens.len() as i32).collect();
///     let mut page = -1;
///     let table = PageTableBuf::from_lens(&lens, page_size, num_pages, || { page += 1; page });
///     // SAFETY: the buffers live as long as the buckets, and every step uses the same.
///     unsafe {
///         buckets.run(&stream, &Batch::paged(&qo_indptr, &table.table()), |step| {
///             let rows = [step.capacity.qo_tokens as usize, 4, 8];
///             for (plan, pool) in step.plans.iter().zip([&near_pool, &far_pool]) {
///                 let pool = pool.tensor(&[64, 4, 2, 8])?;
///                 plan.run(step.stream, q.tensor(&rows)?, Kv::paged(pool, pool), Out::new(o.tensor_mut(&rows)?))?;
///             }
///             Ok(())
///         })?;
///     }
///     stream.synchronize()?;
///     let written = engine.download_f32(&o)?;
///     assert!(written[..lens.len() * 32].iter().all(|&x| (x - 2.0).abs() < 1e-6));
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct GraphBuckets {
    /// In ascending order of size.
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    capacity: BatchCapacity,
    // graphs drop before the workspaces that their launches use; one for each form
    graphs: BTreeMap<usize, Graph>,
    plans: Vec<Plan>,
    workspaces: Vec<Workspace>,
}

impl GraphBuckets {
    /// Makes the plans of all buckets; `sizes` are their numbers of requests. Each list in `attentions` shares one
    /// plan: its first attention plans for all layers of the list ([`PlanOptions::layers`]).
    ///
    /// `capacity` is the capacity of the largest bucket, with `capacity.qo_len` queries a request. Every bucket has
    /// capacity for all of its keys. The workspace takes the sum of [`Attention::workspace_size`] over
    /// buckets and plans.
    ///
    /// # Errors
    ///
    /// No bucket, a bucket of no requests, or one larger than the capacity; the errors of [`Attention::plan_with`].
    pub fn new(
        engine: &Engine,
        attentions: &[&[&Attention]],
        capacity: &BatchCapacity,
        sizes: &[u32],
    ) -> Result<Self, Error> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let (least, most) = (sizes.first().copied().unwrap_or(0), sizes.last().copied().unwrap_or(0));
        if least == 0 || most > capacity.requests {
            let what = "requests in a bucket (and 1 is the least)";
            return Err(BatchError::Capacity { what, count: most as usize, capacity: capacity.requests }.into());
        }
        let bucket = |requests: u32| Bucket::new(engine, attentions, capacity.with_requests(requests));
        Ok(GraphBuckets { buckets: sizes.into_iter().map(bucket).collect::<Result<_, _>>()? })
    }

    /// Powers of two below `most`, and `most`: the usual sizes of buckets.
    #[must_use]
    pub fn sizes(most: u32) -> Vec<u32> {
        let powers = (0..u32::BITS).map(|bit| 1 << bit).take_while(|&size| size < most);
        powers.chain((most > 0).then_some(most)).collect()
    }

    /// The capacity of each bucket, in ascending order of size.
    pub fn capacities(&self) -> impl ExactSizeIterator<Item = &BatchCapacity> {
        self.buckets.iter().map(|bucket| &bucket.capacity)
    }

    /// Bytes of device memory of the plans; 0 on the CPU.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.buckets.iter().flat_map(|bucket| &bucket.workspaces).map(Workspace::capacity).sum()
    }

    /// Captures every bucket now rather than at its first step. `work` is called for each bucket under a capture. Run
    /// it once before ([`GraphBuckets::run`]), or make sure that all kernels are loaded. On the CPU this does nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Graph::capture`].
    pub fn capture_all(
        &mut self,
        stream: &Stream,
        mut work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.buckets.iter_mut().try_for_each(|bucket| bucket.capture(stream, 0, &mut work))
    }

    /// Drops the captured graphs. Call it when `work` or the tensors that it uses change.
    pub fn forget(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket.graphs.clear());
    }

    /// Runs a step of a batch whose lengths are on the host: updates the plans of its bucket and replays `work`. The
    /// first step of a bucket calls `work` twice, once for real and once under a capture; later steps do not call it,
    /// except on the CPU, where each step does. Later steps allocate nothing, except for variants with tensors over the
    /// lengths of a batch and for unions.
    ///
    /// # Errors
    ///
    /// A batch that no bucket holds, and errors of [`Plan::update`]: nothing is launched then. Errors of `work`.
    ///
    /// # Safety
    ///
    /// The conditions of [`Graph::replay`]: everything that `work` uses lives and stays at the same address while steps
    /// are run, and is the same in each step of a bucket.
    pub unsafe fn run(
        &mut self,
        stream: &Stream,
        batch: &Batch<'_>,
        work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // SAFETY: the caller guarantees it.
        unsafe { self.run_form(stream, batch, 0, work) }
    }

    /// Runs a step whose work has several forms: some draw with penalties, say, and others without. A bucket has a
    /// graph for each form that occurs, and one set of plans. The form of [`GraphBuckets::run`] is 0.
    ///
    /// # Errors
    ///
    /// The errors of [`GraphBuckets::run`].
    ///
    /// # Safety
    ///
    /// The conditions of [`GraphBuckets::run`], for each form by itself.
    pub unsafe fn run_form(
        &mut self,
        stream: &Stream,
        batch: &Batch<'_>,
        form: usize,
        work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let queries = batch.qo_indptr.last().map_or(0, |&end| usize::try_from(end).unwrap_or(0));
        let bucket = self.bucket(batch.qo_indptr.len().saturating_sub(1), queries)?;
        bucket.plans.iter_mut().try_for_each(|plan| plan.update(stream, batch))?;
        // SAFETY: the caller guarantees it.
        unsafe { bucket.replay_or_capture(stream, form, work) }
    }

    /// Runs a batch whose lengths are on the device, which updates the plans itself ([`Plan::update_on_device`]). The
    /// bucket is chosen by the number of requests of the arrays.
    ///
    /// # Errors
    ///
    /// The errors of [`GraphBuckets::run`] and [`Plan::update_on_device`].
    ///
    /// # Safety
    ///
    /// The conditions of [`GraphBuckets::run`].
    pub unsafe fn run_on_device(
        &mut self,
        stream: &Stream,
        batch: &DeviceBatch<'_>,
        work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bucket = self.bucket(batch.requests()?, 0)?;
        bucket.plans.iter_mut().try_for_each(|plan| plan.update_on_device(stream, batch))?;
        // SAFETY: the caller guarantees it.
        unsafe { bucket.replay_or_capture(stream, 0, work) }
    }

    /// The plans of the bucket that holds this many requests and queries, as in [`Step::plans`].
    ///
    /// # Errors
    ///
    /// [`BatchError::Capacity`] where no bucket holds the batch.
    pub fn plans(&mut self, requests: usize, queries: usize) -> Result<&mut [Plan], Error> {
        Ok(&mut self.bucket(requests, queries)?.plans)
    }

    fn bucket(&mut self, requests: usize, queries: usize) -> Result<&mut Bucket, Error> {
        let most = self.buckets.last().map_or((0, 0), |bucket| (bucket.capacity.requests, bucket.capacity.qo_tokens));
        let fits = |bucket: &&mut Bucket| {
            requests <= bucket.capacity.requests as usize && queries <= bucket.capacity.qo_tokens as usize
        };
        let (what, count, capacity) =
            if requests > most.0 as usize { ("requests", requests, most.0) } else { ("queries", queries, most.1) };
        let found = self.buckets.iter_mut().find(fits);
        found.ok_or_else(|| BatchError::Capacity { what, count, capacity }.into())
    }
}

impl Bucket {
    fn new(engine: &Engine, attentions: &[&[&Attention]], capacity: BatchCapacity) -> Result<Self, Error> {
        let table = capacity.pages.map(|pool| PageTable {
            indptr: &[0],
            indices: &[],
            last_page_len: &[],
            page_size: pool.page_size,
            num_pages: pool.num_pages,
        });
        let empty = table.as_ref().map_or_else(|| Batch::ragged(&[0], &[0]), |table| Batch::paged(&[0], table));
        let (mut plans, mut workspaces) = (Vec::new(), Vec::new());
        for layers in attentions {
            let Some((first, others)) = layers.split_first() else { continue };
            let mut workspace = engine.workspace();
            let options = PlanOptions { capacity: Some(capacity), layers: others, stream: None };
            plans.push(first.plan_with(&empty, &mut workspace, options)?);
            workspaces.push(workspace);
        }
        Ok(Bucket { capacity, graphs: BTreeMap::new(), plans, workspaces })
    }

    fn capture(
        &mut self,
        stream: &Stream,
        form: usize,
        work: &mut impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Bucket { capacity, graphs, plans, .. } = self;
        graphs.insert(form, Graph::capture(stream, || work(&mut Step { stream, plans, capacity }))?);
        Ok(())
    }

    /// # Safety
    ///
    /// The conditions of [`GraphBuckets::run`].
    unsafe fn replay_or_capture(
        &mut self,
        stream: &Stream,
        form: usize,
        mut work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Bucket { capacity, graphs, plans, .. } = self;
        if let Some(graph) = graphs.get_mut(&form) {
            // SAFETY: the caller guarantees it.
            return unsafe { graph.replay(stream, || work(&mut Step { stream, plans, capacity })) };
        }
        // run once for real, because kernels cannot be loaded under a capture
        work(&mut Step { stream, plans, capacity })?;
        self.capture(stream, form, &mut work)
    }
}
