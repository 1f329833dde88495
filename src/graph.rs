//! CUDA graphs: a step of an engine, captured once for each size of batch, and replayed with whatever lengths.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{
    Attention, Batch, BatchCapacity, Engine, Error, PageTable, Plan, Stream, Workspace,
    batch::{BatchError, DeviceBatch},
};

/// What was given to a stream, recorded to be given again as one. On the CPU, where a run returns when it is done, nothing is recorded, and a replay does the work
/// again. `Send` and `Sync`.
#[derive(Debug)]
pub struct Graph {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(cuda::Graph),
}

impl Graph {
    /// Records what `work` gives to the stream, instead of running it: runs of plans, updates on the device ([`Plan::update_on_device`]), kernels of the engine. Under a
    /// capture nothing may wait, allocate, or load a kernel: do the work once before. On the CPU `work` is not called.
    ///
    /// # Errors
    ///
    /// Those of `work`, and work that cannot be captured.
    pub fn capture(stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        if let Some(stream) = stream.as_cuda() {
            return Ok(Graph { inner: Inner::Cuda(stream.capture(work)?) });
        }
        let _ = (stream, work);
        Ok(Graph { inner: Inner::Cpu })
    }

    /// Gives the stream what was recorded; on the CPU, calls `work`. Nothing is allocated, and the device is not waited for.
    ///
    /// # Errors
    ///
    /// A stream of another engine, or a failure of the driver; on the CPU, those of `work`.
    ///
    /// # Safety
    ///
    /// Everything that the recorded work reads and writes is still where it was: tensors, attentions, and the workspace of each plan, into which nothing else was planned.
    /// Plans that were given other batches were given them in the order of this stream. `work` is what was recorded.
    pub unsafe fn replay(&mut self, stream: &Stream, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        match &mut self.inner {
            Inner::Cpu => {
                stream.check_cpu()?;
                work()
            }
            #[cfg(feature = "cuda")]
            // SAFETY: the caller's promise.
            Inner::Cuda(graph) => Ok(unsafe { graph.launch(stream.cuda()?) }?),
        }
    }
}

/// One step: what the work of an engine is given. On the CPU, and before a capture, it is called for real.
#[derive(Debug)]
pub struct Step<'a> {
    /// Where to give work to.
    pub stream: &'a Stream,
    /// The plans, one for each list of layers that [`GraphBuckets::new`] was given, in that order.
    pub plans: &'a mut [Plan],
    /// What there is room for: tensors have `capacity.qo_tokens` rows, of which the batch has the first.
    pub capacity: &'a BatchCapacity,
}

/// Plans and graphs for batches of several sizes: a batch runs in the smallest bucket that has room for it.
///
/// Each bucket has plans with a capacity of so many requests, in workspaces of its own, and a graph. A step updates the plans in place and replays
/// the graph, so that the host launches one thing a step, however many layers there are. A batch of fewer requests than its bucket needs no
/// padding: rows past its own are neither read nor written. `Send` and `Sync`.
///
/// # Example
///
/// A loop that decodes two layers with different windows, whose requests come and go while pages grow.
///
/// ```
/// use attn::{batch::PageTableBuf, graph::GraphBuckets, prelude::*};
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
    /// From the smallest on.
    buckets: Vec<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    capacity: BatchCapacity,
    // before the workspaces that what it launches is in
    graph: Option<Graph>,
    plans: Vec<Plan>,
    workspaces: Vec<Workspace>,
}

impl GraphBuckets {
    /// Makes the plans of all buckets, of so many requests each. Of each list in `attentions` the first is planned, for the others too
    /// ([`Attention::plan_for`]): layers of which one plan is for all, or that have a plan each, as an engine sees fit.
    ///
    /// `capacity` is of the largest batch, of `capacity.qo_len` queries a request; every bucket has room for all its keys. Bytes of workspace are the sum of
    /// [`Attention::workspace_size_with_capacity`] over buckets and plans.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_with_capacity`]; no bucket, and one of no requests or of more than the capacity.
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

    /// 1, 2, 4, .. and `most`: what buckets are commonly made for.
    #[must_use]
    pub fn sizes(most: u32) -> Vec<u32> {
        let powers = (0..u32::BITS).map(|bit| 1 << bit).take_while(|&size| size < most);
        powers.chain((most > 0).then_some(most)).collect()
    }

    /// The capacity of each bucket, from the smallest on.
    pub fn capacities(&self) -> impl ExactSizeIterator<Item = &BatchCapacity> {
        self.buckets.iter().map(|bucket| &bucket.capacity)
    }

    /// Bytes of device memory that plans are in; 0 on the CPU.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.buckets.iter().flat_map(|bucket| &bucket.workspaces).map(Workspace::capacity).sum()
    }

    /// Captures every bucket now, rather than at its first step. `work` is called for each bucket under a capture, so do it once before ([`GraphBuckets::run`]), or
    /// otherwise see to it that whatever loads when it is first used has been. On the CPU this does nothing.
    ///
    /// # Errors
    ///
    /// As [`Graph::capture`].
    pub fn capture_all(
        &mut self,
        stream: &Stream,
        mut work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.buckets.iter_mut().try_for_each(|bucket| bucket.capture(stream, &mut work))
    }

    /// Forgets what was captured: what `work` does, or the tensors that it does it to, are others from now on.
    pub fn forget(&mut self) {
        self.buckets.iter_mut().for_each(|bucket| bucket.graph = None);
    }

    /// A step of a batch that the host knows: updates the plans of its bucket, and replays what `work` does for it. The first step of a bucket calls `work` twice, once for
    /// real and once under a capture; later ones call it no more, but on the CPU, where it is called each time. Later steps allocate nothing, but for
    /// variants with tensors over the lengths of a batch and for unions.
    ///
    /// # Errors
    ///
    /// A batch that no bucket has room for, and as [`Plan::update`]: nothing is launched then. Those of `work`.
    ///
    /// # Safety
    ///
    /// As [`Graph::replay`]: everything that `work` uses stays where it is for as long as steps are run, and is the same for each step of a bucket. All steps are
    /// given to one stream, or to streams that are ordered by events.
    pub unsafe fn run(
        &mut self,
        stream: &Stream,
        batch: &Batch<'_>,
        work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let queries = batch.qo_indptr.last().map_or(0, |&end| usize::try_from(end).unwrap_or(0));
        let bucket = self.bucket(batch.qo_indptr.len().saturating_sub(1), queries)?;
        bucket.plans.iter_mut().try_for_each(|plan| plan.update(stream, batch))?;
        // SAFETY: the caller's promise.
        unsafe { bucket.go(stream, work) }
    }

    /// As [`GraphBuckets::run`], of a batch whose lengths are on the device, which updates the plans itself ([`Plan::update_on_device`]). The bucket is that for
    /// as many requests as the arrays are of.
    ///
    /// # Errors
    ///
    /// As [`GraphBuckets::run`] and [`Plan::update_on_device`].
    ///
    /// # Safety
    ///
    /// As [`GraphBuckets::run`].
    pub unsafe fn run_on_device(
        &mut self,
        stream: &Stream,
        batch: &DeviceBatch<'_>,
        work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bucket = self.bucket(batch.requests()?, 0)?;
        bucket.plans.iter_mut().try_for_each(|plan| plan.update_on_device(stream, batch))?;
        // SAFETY: the caller's promise.
        unsafe { bucket.go(stream, work) }
    }

    /// The plans of the bucket that a batch of so many requests and queries runs in, as of [`Step::plans`].
    ///
    /// # Errors
    ///
    /// [`BatchError::Capacity`], where no bucket has room for them.
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
        let nobody = table.as_ref().map_or_else(|| Batch::ragged(&[0], &[0]), |table| Batch::paged(&[0], table));
        let (mut plans, mut workspaces) = (Vec::new(), Vec::new());
        for layers in attentions {
            let Some((first, others)) = layers.split_first() else { continue };
            let mut workspace = engine.workspace();
            plans.push(first.plan_for_with_capacity(&nobody, others, &capacity, &mut workspace)?);
            workspaces.push(workspace);
        }
        Ok(Bucket { capacity, graph: None, plans, workspaces })
    }

    fn capture(
        &mut self,
        stream: &Stream,
        work: &mut impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Bucket { capacity, plans, .. } = self;
        self.graph = Some(Graph::capture(stream, || work(&mut Step { stream, plans, capacity }))?);
        Ok(())
    }

    /// # Safety
    ///
    /// As [`GraphBuckets::run`].
    unsafe fn go(
        &mut self,
        stream: &Stream,
        mut work: impl FnMut(&mut Step<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Bucket { capacity, graph, plans, .. } = self;
        if let Some(graph) = graph {
            // SAFETY: the caller's promise.
            return unsafe { graph.replay(stream, || work(&mut Step { stream, plans, capacity })) };
        }
        // as it is, so that a capture meets nothing that is not ready
        work(&mut Step { stream, plans, capacity })?;
        self.capture(stream, &mut work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DeviceBuffer,
        batch::{DevicePages, Ints, PageTableBuf, indptr},
        made_up::values,
        prelude::*,
    };

    const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
    const ROW: usize = 4 * 64;
    const PAGE: u32 = 16;
    const PAGES: u32 = 200;

    /// The CPU, and a GPU where there is one.
    fn engines() -> impl Iterator<Item = Engine> {
        [Ok(Engine::cpu()), Engine::cuda(0)].into_iter().flatten()
    }

    fn attention(engine: &Engine, text: &str) -> Attention {
        crate::registry::register(crate::stock::variants()).expect("no two share a name");
        engine.attention(&Variant::parse(text).expect(text), HEADS, Dtypes::bf16()).expect("bound")
    }

    struct Memory {
        q: DeviceBuffer,
        pool: DeviceBuffer,
        /// Of two layers.
        o: [DeviceBuffer; 2],
    }

    impl Memory {
        fn new(engine: &Engine, rows: usize) -> Self {
            let upload = |count, seed| {
                let values: Vec<bf16> = values(count, seed).into_iter().map(bf16::from_f32).collect();
                engine.upload(&values).expect("memory")
            };
            let nan = || engine.upload(&vec![bf16::NAN; rows * ROW]).expect("memory");
            let pool = (PAGES * PAGE) as usize * 2 * 64;
            Memory { q: upload(rows * ROW, 1), pool: upload(pool, 2), o: [nan(), nan()] }
        }

        fn run(
            &mut self,
            plan: &Plan,
            layer: Option<&Attention>,
            at: usize,
            rows: usize,
            on: &Stream,
        ) -> Result<(), Error> {
            let (q, pool) = (self.q.tensor(&[rows, 4, 64])?, self.pool.tensor(&[PAGES as usize, 16, 2, 64])?);
            let out = Out::new(self.o[at].tensor_mut(&[rows, 4, 64])?);
            match layer {
                Some(layer) => plan.run_as(layer, on, q, Kv::paged(pool, pool), out),
                None => plan.run(on, q, Kv::paged(pool, pool), out),
            }
        }

        fn written(&self, engine: &Engine) -> [Vec<f32>; 2] {
            [0, 1].map(|at| engine.download_f32(&self.o[at]).expect("ran"))
        }
    }

    fn pages(lens: &[u32]) -> PageTableBuf {
        let mut next = 0;
        PageTableBuf::from_lens(lens, PAGE, PAGES, || {
            next = (next + 7) % PAGES as i32;
            next
        })
    }

    /// Requests that decode one query each.
    const STEPS: [&[u32]; 7] = [&[5], &[700, 33, 1], &[6], &[90, 1, 64, 900, 2], &[701, 34, 2], &[8; 8], &[702, 35]];

    #[test]
    fn steps_run_in_the_smallest_bucket_with_room_and_give_what_plans_of_their_own_give() {
        for engine in engines() {
            let near = attention(&engine, "causal + sliding_window(window=50)");
            let far = near
                .with_parameters(&Variant::parse("causal + sliding_window(window=500)").expect("stock"))
                .expect("values");
            let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
            // each with a plan of its own; then one for both
            for lists in [&[&[&near][..], &[&far]][..], &[&[&near, &far]]] {
                let mut buckets = GraphBuckets::new(&engine, lists, &capacity, &[8, 1, 4, 4]).expect("planned");
                assert!(buckets.capacities().map(|capacity| capacity.requests).eq([1, 4, 8]));
                assert_eq!(buckets.workspace_bytes() == 0, engine.is_cpu());
                let stream = engine.stream().expect("a stream");
                let mut memory = Memory::new(&engine, 8);
                for lens in STEPS {
                    let (qo, table) = (indptr(&vec![1; lens.len()]).expect("short"), pages(lens));
                    let batch = Batch::paged(&qo, &table.table());
                    let mut room = 0;
                    // SAFETY: what is used lives as long as the buckets, and is the same each time.
                    let ran = unsafe {
                        buckets.run(&stream, &batch, |step| {
                            room = step.capacity.requests;
                            for (at, layer) in [&near, &far].into_iter().enumerate() {
                                let plan = &step.plans[at.min(lists.len() - 1)];
                                let layer = (lists.len() == 1).then_some(layer);
                                memory.run(plan, layer, at, step.capacity.qo_tokens as usize, step.stream)?;
                            }
                            Ok(())
                        })
                    };
                    ran.expect("ran");
                    let want_room = [1, 4, 8].into_iter().find(|&size| size as usize >= lens.len());
                    assert!(room == 0 && !engine.is_cpu() || Some(room) == want_room);
                    let got = memory.written(&engine);
                    let mut alone = Memory::new(&engine, 8);
                    for (at, layer) in [&near, &far].into_iter().enumerate() {
                        let mut workspace = engine.workspace();
                        let plan = layer.plan(&batch, &mut workspace).expect("sound");
                        alone.run(&plan, None, at, 8, &stream).expect("runs");
                        stream.synchronize().expect("ran");
                    }
                    let want = alone.written(&engine);
                    let rows = lens.len() * ROW;
                    for at in [0, 1] {
                        let same = |(x, y): (&f32, &f32)| (x - y).abs() <= 0.02 * (1.0 + y.abs());
                        assert!(got[at].iter().zip(&want[at]).take(rows).all(same), "{engine}, layer {at}: {lens:?}");
                    }
                }
                let (qo, table) = (indptr(&[1; 9]).expect("short"), pages(&[3; 9]));
                // SAFETY: nothing is launched.
                let ran = unsafe { buckets.run(&stream, &Batch::paged(&qo, &table.table()), |_| panic!("called")) };
                let error = ran.expect_err("9 of 8 requests");
                let room = BatchError::Capacity { what: "requests", count: 9, capacity: 8 };
                assert!(matches!(&error, Error::Batch(e) if *e == room), "{error}");
            }
        }
    }

    #[test]
    fn a_batch_on_the_device_runs_in_the_bucket_of_its_arrays() {
        let engine = Engine::cpu();
        let full = attention(&engine, "full");
        let capacity = BatchCapacity::decode(4, 2000).in_pages(PAGE, PAGES);
        let mut buckets = GraphBuckets::new(&engine, &[&[&full]], &capacity, &GraphBuckets::sizes(4)).expect("planned");
        let (stream, mut memory) = (engine.stream().expect("a token"), Memory::new(&engine, 4));
        let lens = [40, 0, 700];
        let (table, kv_lens) = (pages(&lens), lens.map(|len| len as i32));
        let indices =
            DevicePages::Compressed { indptr: Ints::host(&table.indptr), indices: Ints::host(&table.indices) };
        let batch = DeviceBatch::paged(Ints::host(&[0, 1, 1, 2]), Ints::host(&kv_lens), indices);
        // SAFETY: on the CPU nothing is captured.
        let ran = unsafe {
            buckets.run_on_device(&stream, &batch, |step| {
                assert_eq!(step.capacity.requests, 4);
                memory.run(&step.plans[0], None, 0, 4, step.stream)
            })
        };
        ran.expect("ran");
        let written = &memory.written(&engine)[0];
        assert!(written[..2 * ROW].iter().all(|x| x.is_finite()) && written[2 * ROW..].iter().all(|x| x.is_nan()));
    }

    #[test]
    fn sizes_of_buckets() {
        assert_eq!(GraphBuckets::sizes(64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(GraphBuckets::sizes(5), [1, 2, 4, 5]);
        assert!(GraphBuckets::sizes(0).is_empty());
        let engine = Engine::cpu();
        let capacity = BatchCapacity::decode(4, 2000);
        for sizes in [&[][..], &[0, 1], &[5]] {
            let error = GraphBuckets::new(&engine, &[], &capacity, sizes).expect_err("no such bucket");
            assert!(matches!(error, Error::Batch(BatchError::Capacity { .. })), "{error}");
        }
    }

    #[test]
    fn a_graph_on_the_cpu_does_the_work_again() {
        let stream = Engine::cpu().stream().expect("a token");
        let mut graph = Graph::capture(&stream, || panic!("nothing is recorded")).expect("nothing to do");
        let mut times = 0;
        for _ in 0..3 {
            // SAFETY: there is nothing that could be gone.
            unsafe {
                graph.replay(&stream, || {
                    times += 1;
                    Ok(())
                })
            }
            .expect("worked");
        }
        assert_eq!(times, 3);
    }
}
