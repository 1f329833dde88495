//! Bit-exactness: results do not depend on the layout of keys, unused memory, the previous content of the workspace, or
//! other requests in the batch.

use std::collections::BTreeSet;

use serde::Serialize;

use attn::{AttentionOptions, Batch, Engine, Graph, PlanOptions, Variant};
use attn_core::batch::{BatchCapacity, PageTableBuf};
use attn_core::spec::KernelKind;

use crate::engine_memory::{launch, workspace};
use crate::inputs::Inputs;
use crate::keys::Keys;
use crate::tensors::{Tensors, Written, equal_bits};
use crate::{Case, LayoutKind, Lens, Order, Pool, TestError, case_variant};

/// The split size in keys for batch-invariant runs.
const SPLIT_KEYS: u32 = 256;

/// The comparisons of a case, and those that differed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BitExactResult {
    /// The number of compared pairs of runs.
    pub compared: usize,
    /// The pairs with different bits, in words.
    pub different: Vec<String>,
    /// The kernel and the device.
    pub ran: String,
    /// Whether pairs were compared and none differed.
    pub passed: bool,
    /// The keys of the main kernels' sources; none on the CPU.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub keys: BTreeSet<String>,
    /// The keys of what a GPU executes of them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub codes: BTreeSet<String>,
}

/// What a run gave.
struct Run {
    written: Written,
    /// The kernel and the device.
    ran: String,
    /// The keys of the main kernel, of its source and of its code.
    keys: (Option<String>, Option<String>),
}

/// The conditions of a run, on which its bits must not depend.
#[derive(Clone, Copy)]
struct RunSetup {
    /// The byte that fills the workspace before planning.
    dirt: u8,
    /// For a replayed graph: the number of requests of the capacity beyond those of the batch. They are padded with
    /// requests without queries.
    extra_requests: Option<usize>,
    /// Whether splits do not depend on the batch.
    invariant: bool,
}

impl BitExactResult {
    /// Adds the comparison of a run with another.
    fn compare(&mut self, what: String, want: &Written, got: Run) {
        self.add_keys(got.keys);
        self.add(what, want.same_and_inside(&got.written));
    }

    fn add_keys(&mut self, (key, code): (Option<String>, Option<String>)) {
        self.keys.extend(key);
        self.codes.extend(code);
    }

    fn add(&mut self, what: String, same: bool) {
        self.compared += 1;
        self.passed &= same;
        if !same {
            self.different.push(what);
        }
    }
}

impl RunSetup {
    const PLAIN: RunSetup = RunSetup { dirt: 0xff, extra_requests: None, invariant: false };
}

/// Runs a case in several ways that must give the same bits of output and log-sum-exp:
///
/// - every layout against the ragged one, in the case's kernel: ragged tensors, page tables and block tables (with u32
///   entries) of several page sizes, NHD and HND, split, fused, padded and packed;
/// - NaN against zeros in unused slots, pages and rows;
/// - a workspace of exactly the needed size, filled with 0xff, zeros and other bytes;
/// - a graph whose capacity holds more requests against one without, and against a plan of its own where both use the
///   same decode tile (not in a mixed launch);
/// - each request alone against all together, under [`fixed_split_size`](AttentionOptions::fixed_split_size).
///
/// The layout and the levels of the case are ignored. A variant whose tensors have elements for each request or token
/// skips the last two comparisons.
///
/// # Errors
///
/// A run failed.
pub fn bit_exact(case: &Case, engine: &Engine) -> Result<BitExactResult, TestError> {
    let variant = case_variant(case)?;
    let ragged = Case {
        kv_layout: LayoutKind::Ragged,
        page_order: Order::Nhd,
        pool: Pool::Split,
        levels: Vec::new(),
        ..case.clone()
    };
    let inputs = Inputs::new(&ragged, false)?;
    let Run { written: want, ran, keys } = run(&ragged, &variant, &inputs, engine, RunSetup::PLAIN)?;
    let mut result = BitExactResult { ran, passed: true, ..BitExactResult::default() };
    result.add_keys(keys);
    let mut compare = |what: String, got: Run| result.compare(what, &want, got);

    for layout_case in layout_cases(&ragged, inputs.kv_shape == inputs.v_shape)? {
        let moved = moved(&layout_case, &inputs)?;
        let what = format!(
            "{:?} {} {:?} {:?}",
            layout_case.kv_layout, layout_case.page_size, layout_case.page_order, layout_case.pool
        );
        compare(what.clone(), run(&layout_case, &variant, &moved, engine, RunSetup::PLAIN)?);
        if layout_case.kv_layout.paged() && layout_case.pool == Pool::Split {
            let mut zeros = moved;
            zeros.replace_nan();
            compare(
                format!("zeros in unused slots of {what}"),
                run(&layout_case, &variant, &zeros, engine, RunSetup::PLAIN)?,
            );
        }
    }
    let paged = Case { kv_layout: LayoutKind::Paged, page_size: 16, ..ragged.clone() };
    let in_pages = moved(&paged, &inputs)?;
    for dirt in [0x00, 0x7f, 0x01] {
        let how = RunSetup { dirt, ..RunSetup::PLAIN };
        compare(format!("a workspace of bytes {dirt:#x}"), run(&paged, &variant, &in_pages, engine, how)?);
    }
    if over_a_batch(&variant, case) {
        return Ok(result);
    }
    let with_extra =
        |extra| run(&paged, &variant, &in_pages, engine, RunSetup { extra_requests: Some(extra), ..RunSetup::PLAIN });
    let replayed = with_extra(0)?;
    let more = with_extra(3)?;
    result.compare("a graph whose capacity holds 3 more requests".to_owned(), &replayed.written, more);
    // a mixed launch selects its decode tile by the longest request of the capacity
    if case.kernel != KernelKind::Mixed.to_string() {
        result.compare("a graph whose capacity is the batch".to_owned(), &want, replayed);
    }
    alone(&ragged, &variant, &inputs, engine, &mut result)?;
    Ok(result)
}

/// Cases whose kernels are those that [`bit_exact()`] runs for a case: in both layouts of keys, with splits of the
/// batch's choice and with fixed ones, and for a capacity.
#[must_use]
pub fn bit_exact_runs(case: &Case) -> Vec<Case> {
    let of = |kv_layout, fixed_split_size| Case { kv_layout, fixed_split_size, levels: Vec::new(), ..case.clone() };
    let layouts = [LayoutKind::Ragged, LayoutKind::Paged];
    let mut runs: Vec<_> =
        layouts.into_iter().flat_map(|layout| [None, Some(SPLIT_KEYS)].map(|size| of(layout, size))).collect();
    if case.kernel == KernelKind::Mixed.to_string() {
        // the decode tile of a capacity holds its longest request, or else one query
        let longest = case.qo_lens.to_vec().into_iter().max().unwrap_or(1);
        let lens = Lens::List(vec![longest, 1]);
        runs.push(Case { qo_lens: lens.clone(), kv_lens: lens, ..of(LayoutKind::Paged, None) });
    }
    runs
}

/// Whether tensors of a variant have elements for each request or token.
fn over_a_batch(variant: &Variant, case: &Case) -> bool {
    // tensors may be larger than a batch needs, but not smaller
    let dims = case.dims();
    let more = |count: Option<i64>| count.map(|count| 2 * count + 64);
    let (batch, qo_tokens, kv_tokens) = (more(dims.batch), more(dims.qo_tokens), more(dims.kv_tokens));
    variant.bind(&dims).is_err()
        || variant.bind(&attn_core::lang::Dims { batch, qo_tokens, kv_tokens, ..dims }).is_err()
}

/// Compares each request alone with the whole batch, under splits that do not depend on the batch.
fn alone(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    engine: &Engine,
    result: &mut BitExactResult,
) -> Result<(), TestError> {
    let how = RunSetup { invariant: true, ..RunSetup::PLAIN };
    let all = match run(case, variant, inputs, engine, how) {
        Ok(all) => all,
        // one plan cannot run two kernels
        Err(TestError::Attn(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    result.add_keys(all.keys);
    let all = all.written;
    let (o, row) = (all.o.to_f32(), (case.qo_heads * case.head_dim_vo.dim(case.heads())) as usize);
    for request in 0..case.qo_lens.requests() {
        let [qo, kv] = [&case.qo_lens, &case.kv_lens].map(|lens| Lens::List(vec![lens.to_vec()[request]]));
        let one = Case { qo_lens: qo, kv_lens: kv, ..case.clone() };
        let mut of_one = Inputs::new(&one, false)?;
        of_one.take(inputs, &[request])?;
        let Run { written: got, keys, .. } = run(&one, variant, &of_one, engine, how)?;
        result.add_keys(keys);
        let first = inputs.qo_indptr[request] as usize;
        let tokens = inputs.qo_indptr[request + 1] as usize - first;
        let heads = case.qo_heads as usize;
        let same = equal_bits(&got.o.to_f32(), &o[first * row..][..tokens * row])
            && equal_bits(&got.lse, &all.lse[first * heads..][..tokens * heads]);
        result.add(format!("request {request} alone"), same);
    }
    Ok(())
}

/// The case in every layout. Keys and values whose rows have different bytes are in pools of their own, and of a KV
/// format are no queries.
fn layout_cases(ragged: &Case, same_rows: bool) -> Result<Vec<Case>, TestError> {
    let mut layout_cases = Vec::new();
    let of_format = ragged.dtypes()?.format.is_some();
    for (kv_layout, page_size) in [
        (LayoutKind::Ragged, 16),
        (LayoutKind::Paged, 1),
        (LayoutKind::Paged, 5),
        (LayoutKind::Paged, 16),
        (LayoutKind::BlockTable, 16),
        (LayoutKind::BlockTable, 64),
    ] {
        for page_order in [Order::Nhd, Order::Hnd] {
            for pool in [Pool::Split, Pool::Fused, Pool::Padded, Pool::Packed] {
                let packed = kv_layout == LayoutKind::Ragged && page_order == Order::Nhd && !of_format;
                let interleaved = pool == Pool::Split || same_rows && ragged.head_dim_vo == attn::HeadDimVo::Same;
                if interleaved && (pool != Pool::Packed || packed) {
                    layout_cases.push(Case { kv_layout, page_size, page_order, pool, ..ragged.clone() });
                }
            }
        }
    }
    Ok(layout_cases)
}

/// The inputs of a case with the rows of other inputs of the same lengths.
fn moved(case: &Case, from: &Inputs) -> Result<Inputs, TestError> {
    let mut inputs = Inputs::new(case, false)?;
    inputs.take(from, &(0..case.qo_lens.requests()).collect::<Vec<_>>())?;
    Ok(inputs)
}

/// The page table of inputs in pages.
fn page_table(inputs: &Inputs) -> PageTableBuf {
    match &inputs.keys {
        Keys::Paged(table) => table.clone(),
        _ => PageTableBuf::default(),
    }
}

/// Runs a case once, with a plan of its own.
fn run(case: &Case, variant: &Variant, inputs: &Inputs, engine: &Engine, how: RunSetup) -> Result<Run, TestError> {
    let fixed_split_size = how.invariant.then_some(SPLIT_KEYS);
    let options = AttentionOptions { fixed_split_size, ..case.attention_options()? };
    let attention = engine.attention_with(variant, case.heads(), case.dtypes()?, options)?;
    let stream = engine.stream()?;
    let mut tensors = Tensors::put(engine, case, inputs)?;
    let batch = inputs.batch(&[]);
    // the graph is dropped first
    let (_workspace, plan, mut graph) = match how.extra_requests {
        None => {
            let bytes = attention.workspace_size(&batch, PlanOptions::default())?;
            let mut memory = workspace(engine, bytes, how.dirt)?;
            let plan = attention.plan(&batch, &mut memory.workspace)?;
            (memory, plan, None)
        }
        Some(extra) => {
            let own = BatchCapacity::of(&batch.validate()?);
            let capacity = BatchCapacity { requests: own.requests + extra as u32, ..own };
            let mut table = page_table(inputs);
            let none = PageTableBuf { indptr: vec![0], indices: vec![], last_page_len: vec![], ..table };
            let empty = Batch::paged(&[0], &none.table());
            let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
            let bytes = attention.workspace_size(&empty, options)?;
            let mut memory = workspace(engine, bytes, how.dirt)?;
            let mut plan = attention.plan_with(&empty, &mut memory.workspace, options)?;
            tensors.run(&plan, &stream)?;
            let graph = Graph::capture(&stream, || tensors.run(&plan, &stream))?;
            // pad with requests without queries
            let (mut qo, pages) = (inputs.qo_indptr.clone(), table.indices.len() as i32);
            qo.resize(qo.len() + extra, inputs.qo_indptr[inputs.qo_indptr.len() - 1]);
            table.indptr.resize(table.indptr.len() + extra, pages);
            table.last_page_len.resize(table.last_page_len.len() + extra, 0);
            plan.update(&stream, &Batch::paged(&qo, &table.table()))?;
            (memory, plan, Some(graph))
        }
    };
    stream.synchronize()?;
    tensors.poison()?;
    launch(graph.as_mut(), &stream, || tensors.run(&plan, &stream))?;
    stream.synchronize()?;
    let written = tensors.written()?;
    Ok(Run { written, ran: crate::setup::ran(&plan, engine), keys: crate::setup::keys(&plan) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::grid;

    #[test]
    fn layouts_and_unused_memory_do_not_change_a_bit() {
        for case in grid::bit_exact().into_iter().step_by(11) {
            let case = Case { kernel: "auto".to_owned(), ..case };
            let result = bit_exact(&case, &Engine::cpu()).expect("it runs");
            assert!(result.passed && result.compared > 40, "{}: {result:?}", case.title());
        }
    }

    #[test]
    fn pairs_of_kv_formats_have_pools_of_their_own() {
        // rows of other bytes, rows of the same bytes in one format, and side data
        for (format, least) in [("int8 / int4(group=32)", 15), ("turbo4 / f16", 15), ("int8", 25), ("nvfp4", 25)] {
            let case = Case { kv_dtype: Some(format.to_owned()), kernel: "auto".to_owned(), ..Case::new("causal") };
            let result = bit_exact(&case, &Engine::cpu()).expect(format);
            assert!(result.passed && result.compared >= least, "{format}: {result:?}");
        }
    }

    #[test]
    fn other_keys_are_reported() {
        let case = &grid::bit_exact()[0];
        let (a, mut b) = (Inputs::new(case, false).expect("sound"), Inputs::new(case, false).expect("sound"));
        b.k.copy_row(0, &a.v, 0, 64);
        let variant = case_variant(case).expect("stock");
        let run =
            |inputs: &Inputs| run(case, &variant, inputs, &Engine::cpu(), RunSetup::PLAIN).expect("it runs").written;
        assert!(run(&a).same_bits(&run(&a)) && !run(&a).same_bits(&run(&b)));
    }
}
