//! What must not change a bit: where keys lie, what lies beside them, what a workspace held before, and who else is in a batch.

use serde::Serialize;

use crate::batch::{BatchCapacity, PageTableBuf};
use crate::spec::KernelKind;
use crate::{AttentionOptions, Batch, Engine, Variant};

use super::inputs::Inputs;
use super::keys::Keys;
use super::place::Place;
use super::tensors::{Tensors, Written};
use super::{Case, LayoutKind, Lens, Order, Pool, TestError, case_variant};

/// Keys between two cuts, where results must not depend on who else is in a batch.
const CUT: u32 = 256;

/// What was compared, and what differed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SameResult {
    /// Pairs of runs that were compared.
    pub compared: usize,
    /// Those that gave other bits, in words.
    pub different: Vec<String>,
    /// What ran: kernel family and device.
    pub ran: String,
    /// Whether there were some, and none differed.
    pub passed: bool,
}

/// How a run is made ready.
#[derive(Clone, Copy)]
struct How {
    /// What memory holds that the workspace gets.
    dirt: u8,
    /// Requests that the plan has room for beyond those there are, which are there without queries; of a replayed graph.
    room: Option<usize>,
    /// Cut where the batch does not matter.
    invariant: bool,
}

impl How {
    const PLAIN: How = How { dirt: 0xff, room: None, invariant: false };
}

/// Runs a case in several ways that must give the same bits of output and log-sum-exp:
///
/// - its keys in ragged tensors, page tables and block tables (whose words are u32) of several page sizes, NHD and HND, split, fused, padded and packed:
///   every layout against the ragged one, in the case's kernel;
/// - NaN against zeros in slots, pages and rows that are nothing;
/// - a workspace of just the size asked for, in memory that held 0xff, zeros, and other bytes;
/// - in a graph with room for more requests, against one without, and against a plan of its own where both run the same decode tile: not in a mixed launch;
/// - each request alone against all together, under [`batch_invariant`](AttentionOptions::batch_invariant).
///
/// What the case says of its layout is not read; of levels neither. A variant whose tensors are over a batch runs all but the last two.
///
/// # Errors
///
/// A run failed.
pub fn same(case: &Case, engine: &Engine) -> Result<SameResult, TestError> {
    let variant = case_variant(case)?;
    let ragged = Case {
        kv_layout: LayoutKind::Ragged,
        page_order: Order::Nhd,
        pool: Pool::Split,
        levels: Vec::new(),
        ..case.clone()
    };
    let inputs = Inputs::new(&ragged, false)?;
    let (want, ran) = run(&ragged, &variant, &inputs, engine, How::PLAIN)?;
    let mut result = SameResult { ran, ..SameResult::default() };
    let mut compare = |what: String, got: &Written| {
        result.compared += 1;
        if !want.same_bits(got) {
            result.different.push(what);
        }
    };

    for place in places(&ragged) {
        let moved = moved(&place, &inputs)?;
        let what = format!("{:?} {} {:?} {:?}", place.kv_layout, place.page_size, place.page_order, place.pool);
        compare(what.clone(), &run(&place, &variant, &moved, engine, How::PLAIN)?.0);
        if place.kv_layout.paged() && place.pool == Pool::Split {
            let mut zeros = moved;
            zeros.replace_nan();
            compare(format!("zeros beside the keys of {what}"), &run(&place, &variant, &zeros, engine, How::PLAIN)?.0);
        }
    }
    let paged = Case { kv_layout: LayoutKind::Paged, page_size: 16, ..ragged.clone() };
    let in_pages = moved(&paged, &inputs)?;
    for dirt in [0x00, 0x7f, 0x01] {
        let how = How { dirt, ..How::PLAIN };
        compare(format!("a workspace of bytes {dirt:#x}"), &run(&paged, &variant, &in_pages, engine, how)?.0);
    }
    if over_a_batch(&variant, case) {
        result.passed = result.different.is_empty();
        return Ok(result);
    }
    let with_room = |room| run(&paged, &variant, &in_pages, engine, How { room: Some(room), ..How::PLAIN });
    let replayed = with_room(0)?.0;
    let more = with_room(3)?.0;
    result.compared += 1;
    if !replayed.same_bits(&more) {
        result.different.push("a graph with room for 3 more requests".into());
    }
    // the decode tile of a mixed launch is that of the longest request that there is room for
    if case.kernel != KernelKind::Mixed.to_string() {
        result.compared += 1;
        if !want.same_bits(&replayed) {
            result.different.push("a graph with room for the batch".into());
        }
    }
    alone(&ragged, &variant, &inputs, engine, &mut result)?;
    result.passed = result.different.is_empty();
    Ok(result)
}

/// Whether tensors of a variant have elements for each request or token.
fn over_a_batch(variant: &Variant, case: &Case) -> bool {
    let mut other = case.clone();
    (other.qo_lens, other.kv_lens) = (Lens::List(vec![3, 4]), Lens::List(vec![5, 6]));
    let dims = crate::lang::Dims { batch: Some(case.qo_lens.requests() as i64 + 1), ..other.dims() };
    variant.bind(&case.dims()).is_err() || variant.bind(&dims).is_err()
}

/// Every request by itself, with cuts that do not depend on the batch.
fn alone(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    engine: &Engine,
    result: &mut SameResult,
) -> Result<(), TestError> {
    let how = How { invariant: true, ..How::PLAIN };
    let all = match run(case, variant, inputs, engine, how) {
        Ok((all, _)) => all,
        // one list cannot run two families
        Err(TestError::Attn(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let (o, row) = (all.o.to_f32(), (case.qo_heads * case.values.dim(case.heads())) as usize);
    for request in 0..case.qo_lens.requests() {
        let [qo, kv] = [&case.qo_lens, &case.kv_lens].map(|lens| Lens::List(vec![lens.to_vec()[request]]));
        let one = Case { qo_lens: qo, kv_lens: kv, ..case.clone() };
        let mut of_one = Inputs::new(&one, false)?;
        of_one.take(inputs, &[request])?;
        let (got, _) = run(&one, variant, &of_one, engine, how)?;
        result.compared += 1;
        let first = inputs.qo_indptr[request] as usize;
        let tokens = inputs.qo_indptr[request + 1] as usize - first;
        let equal = |a: &[f32], b: &[f32]| a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()));
        let heads = case.qo_heads as usize;
        let same = equal(&got.o.to_f32(), &o[first * row..][..tokens * row])
            && equal(&got.lse, &all.lse[first * heads..][..tokens * heads]);
        if !same {
            result.different.push(format!("request {request} alone"));
        }
    }
    Ok(())
}

/// The case in every layout.
fn places(ragged: &Case) -> Vec<Case> {
    let mut places = Vec::new();
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
                let packed = kv_layout == LayoutKind::Ragged && page_order == Order::Nhd;
                let woven = pool == Pool::Split || ragged.values == crate::ValueRows::Same;
                if woven && (pool != Pool::Packed || packed) {
                    places.push(Case { kv_layout, page_size, page_order, pool, ..ragged.clone() });
                }
            }
        }
    }
    places
}

/// The inputs of a case whose rows are those of another with the same lengths.
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

/// Runs a case once, from a plan of its own.
fn run(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    engine: &Engine,
    how: How,
) -> Result<(Written, String), TestError> {
    let kernel = match case.kernel.as_str() {
        "auto" => None,
        named => Some(named.parse::<KernelKind>()?),
    };
    let batch_invariant = how.invariant.then_some(CUT);
    let options = AttentionOptions {
        sm_scale: case.sm_scale,
        kernel,
        prefill: case.prefill,
        values: case.values,
        batch_invariant,
        ..AttentionOptions::default()
    };
    let attention = engine.attention_with(variant, case.heads(), case.dtypes()?, options)?;
    let (place, stream) = (Place::of(engine), engine.stream()?);
    let mut tensors = Tensors::put(&place, case, inputs)?;
    let batch = inputs.batch(&[]);
    // the graph is dropped first
    let (_workspace, plan, mut graph) = match how.room {
        None => {
            let mut memory = place.workspace(engine, attention.workspace_size(&batch)?, how.dirt)?;
            let plan = attention.plan(&batch, &mut memory.workspace)?;
            (memory, plan, None)
        }
        Some(room) => {
            let own = BatchCapacity::of(&batch.validate()?);
            let capacity = BatchCapacity { requests: own.requests + room as u32, ..own };
            let bytes = attention.workspace_size_with_capacity(&capacity)?;
            let mut memory = place.workspace(engine, bytes, how.dirt)?;
            let mut table = page_table(inputs);
            let none = PageTableBuf { indptr: vec![0], indices: vec![], last_page_len: vec![], ..table };
            let nobody = Batch::paged(&[0], &none.table());
            let mut plan = attention.plan_with_capacity(&nobody, &capacity, &mut memory.workspace)?;
            tensors.run(&plan, &stream)?;
            let graph = place.capture(&stream, || tensors.run(&plan, &stream))?;
            // behind the requests there are some without queries
            let (mut qo, pages) = (inputs.qo_indptr.clone(), table.indices.len() as i32);
            qo.resize(qo.len() + room, inputs.qo_indptr[inputs.qo_indptr.len() - 1]);
            table.indptr.resize(table.indptr.len() + room, pages);
            table.last_page_len.resize(table.last_page_len.len() + room, 0);
            plan.update(&stream, &Batch::paged(&qo, &table.table()))?;
            (memory, plan, graph)
        }
    };
    stream.synchronize()?;
    tensors.poison()?;
    match &mut graph {
        Some(graph) => graph.launch(&stream)?,
        None => tensors.run(&plan, &stream)?,
    }
    stream.synchronize()?;
    let written = tensors.written()?;
    Ok((written, super::setup::ran(&plan, engine)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::grid;

    #[test]
    fn nothing_beside_its_keys_changes_a_bit_of_a_result() {
        for case in grid::same().into_iter().step_by(11) {
            let case = Case { kernel: "auto".to_owned(), ..case };
            let result = same(&case, &Engine::cpu()).expect("it runs");
            assert!(result.passed && result.compared > 40, "{}: {result:?}", case.title());
        }
    }

    #[test]
    fn other_keys_are_seen() {
        let case = &grid::same()[0];
        let (a, mut b) = (Inputs::new(case, false).expect("sound"), Inputs::new(case, false).expect("sound"));
        b.k.copy_row(0, &a.v, 0, 64);
        let variant = case_variant(case).expect("stock");
        let run = |inputs: &Inputs| run(case, &variant, inputs, &Engine::cpu(), How::PLAIN).expect("it runs").0;
        assert!(run(&a).same_bits(&run(&a)) && !run(&a).same_bits(&run(&b)));
    }
}
