//! Tensors for timing many batches one after the other, so that large ones are made once.

use attn_core::batch::{PageTableBuf, indptr};

use attn::{Attention, Batch, Engine, Graph, Plan, Stream, Workspace};

use super::clock::Clock;
use crate::engine_memory::launch;
use crate::inputs::Inputs;
use crate::keys::Keys;
use crate::tensors::Tensors;
use crate::{Case, TestError};

/// The tensors of a case, for batches that are no larger.
pub struct SharedTensors {
    engine: Engine,
    stream: Stream,
    clock: Clock,
    tensors: Tensors,
    qo_tokens: usize,
    /// Pages with keys, in the order in which requests get them.
    pages: Vec<i32>,
    page_size: u32,
    num_pages: u32,
}

/// A batch that is ready to be timed.
pub struct SharedRun<'a> {
    // dropped first: the graph uses the other fields
    graph: Graph,
    plan: Plan,
    _workspace: Workspace,
    on: &'a mut SharedTensors,
}

impl std::fmt::Debug for SharedTensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedTensors").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SharedRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedRun").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl SharedTensors {
    /// Uploads the tensors of a paged case. Its variant and kernel are ignored.
    ///
    /// # Errors
    ///
    /// A case that is not paged, or out of memory.
    pub fn new(largest: &Case, engine: &Engine) -> Result<Self, TestError> {
        let inputs = Inputs::new(largest, true)?;
        let Keys::Paged(PageTableBuf { indices, page_size, num_pages, .. }) = &inputs.keys else {
            return Err(TestError::Field { field: "kv_layout", why: "shared tensors are paged".to_owned() });
        };
        Ok(SharedTensors {
            engine: engine.clone(),
            stream: engine.stream()?,
            clock: Clock::new(engine)?,
            tensors: Tensors::put(engine, largest, &inputs)?,
            qo_tokens: inputs.qo_shape()[0],
            pages: indices.clone(),
            page_size: *page_size,
            num_pages: *num_pages,
        })
    }

    /// Plans a batch and, on a GPU, captures its run. The attention has the heads and types of the tensors.
    ///
    /// # Errors
    ///
    /// A batch larger than the tensors, or one that cannot be planned.
    pub fn prepare<'a>(
        &'a mut self,
        attention: &Attention,
        qo_lens: &[u32],
        kv_lens: &[u32],
    ) -> Result<SharedRun<'a>, TestError> {
        let wanted: usize = kv_lens.iter().map(|len| len.div_ceil(self.page_size) as usize).sum();
        if wanted > self.pages.len() {
            let why = format!("{wanted} pages of keys, of which there are {}", self.pages.len());
            return Err(TestError::Field { field: "kv_lens", why });
        }
        let tokens = qo_lens.iter().map(|&len| len as usize).sum();
        if tokens > self.qo_tokens {
            let why = format!("{tokens} queries, of which there are {}", self.qo_tokens);
            return Err(TestError::Field { field: "qo_lens", why });
        }
        self.tensors.set_tokens(tokens);
        let mut pages = self.pages.iter().copied();
        let table = PageTableBuf::from_lens(kv_lens, self.page_size, self.num_pages, || pages.next().unwrap_or(0));
        let qo_indptr = indptr(qo_lens)?;
        let mut workspace = self.engine.workspace();
        let plan = attention.plan(&Batch::paged(&qo_indptr, &table.table()), &mut workspace)?;
        // the first run loads kernels that are loaded lazily, and checks the tensors
        self.tensors.run(&plan, &self.stream)?;
        self.stream.synchronize()?;
        let SharedTensors { stream, tensors, .. } = &mut *self;
        let graph = Graph::capture(stream, || tensors.run(&plan, stream))?;
        Ok(SharedRun { graph, plan, _workspace: workspace, on: self })
    }
}

impl SharedRun<'_> {
    /// The plan that runs.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Median milliseconds of `reps` runs (at least 1) after `warm` warm-up runs, as in [`bench`](crate::bench()).
    ///
    /// # Errors
    ///
    /// A run failed.
    pub fn time(&mut self, reps: usize, warm: usize) -> Result<f64, TestError> {
        let SharedRun { graph, plan, on, .. } = self;
        let SharedTensors { clock, stream, tensors, .. } = &mut **on;
        clock.median_ms(stream, reps, warm, || launch(Some(graph), stream, || tensors.run(plan, stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LayoutKind, Lens};
    use attn::Variant;

    #[test]
    fn smaller_batches_run_and_larger_ones_are_refused() {
        let engine = Engine::cpu();
        let largest = Case {
            kv_layout: LayoutKind::Paged,
            qo_lens: Lens::List(vec![6]),
            kv_lens: Lens::List(vec![64]),
            ..Case::new("full")
        };
        let variant = Variant::parse("full").expect("stock");
        let attention = engine.attention(&variant, largest.heads(), largest.dtypes().expect("known")).expect("bound");
        let mut shared = SharedTensors::new(&largest, &engine).expect("small");
        for (qo, kv) in [(&[1u32, 2][..], &[16u32, 48][..]), (&[6], &[17])] {
            let mut run = shared.prepare(&attention, qo, kv).expect("it fits");
            assert_eq!(run.plan().layout().batch(), qo.len());
            assert!(run.time(2, 1).expect("it runs") > 0.0);
        }
        let error = shared.prepare(&attention, &[1, 1], &[33, 33]).expect_err("6 pages");
        assert!(error.to_string().contains("6 pages"), "{error}");
        shared.prepare(&attention, &[7], &[16]).expect_err("7 queries");
        let ragged = Case { kv_layout: LayoutKind::Ragged, ..largest };
        SharedTensors::new(&ragged, &engine).expect_err("ragged");
    }
}
