//! One planning step, for tools that count instructions: `plan_once CASE`. Without an argument it prints the cases.
//!
//! `cargo xtask plan-instructions` runs it under callgrind, which counts within [`measured_plan`] alone. Buffers have
//! grown to the batch by then, as in a server that plans step after step.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program

use std::{hint::black_box, process::ExitCode};

use attn_benches::{DECODE, GROUPED, skewed, variant};
use attn_core::{
    batch::{Batch, BatchError, Layout, PageTableBuf, indptr},
    dtype::Dtypes,
    expr::{ExprError, Variant},
    lang::Dims,
    plan::{PlanBlob, PlanError, PlanScratch, WorkList},
    spec::KernelKind,
};
use attn_kernels::{
    compile::Arch,
    cost::HookClass,
    kernel_traits::{KernelTraitsError, KernelTraitsRequest},
    select::KernelSelector,
};

/// The part of planning that a case measures.
#[derive(Clone, Copy)]
enum Step {
    /// Builds the work list.
    List,
    /// Everything before the upload, for a batch in pages of 16: validates it, builds the work list, packs both.
    Whole,
    /// Selects the kernels for a batch in which some requests have several queries.
    Choose,
}

struct Case {
    name: &'static str,
    step: Step,
    requests: u32,
    variant: &'static str,
    /// Whether lengths are skewed; all are 4096 on average.
    skewed: bool,
}

const fn case(name: &'static str, step: Step, requests: u32, variant: &'static str, skewed: bool) -> Case {
    Case { name, step, requests, variant, skewed }
}

const WINDOW: &str = "causal + sliding_window(window=512)";
const CASES: [Case; 10] = [
    case("list-64-equal", Step::List, 64, "full", false),
    case("list-64-skewed", Step::List, 64, "full", true),
    case("list-64-window", Step::List, 64, WINDOW, true),
    case("list-1024-equal", Step::List, 1024, "full", false),
    case("list-1024-skewed", Step::List, 1024, "full", true),
    case("list-1024-window", Step::List, 1024, WINDOW, true),
    case("step-64-skewed", Step::Whole, 64, "full", true),
    case("step-1024-skewed", Step::Whole, 1024, "full", true),
    case("choose-64", Step::Choose, 64, "full", true),
    case("choose-1024", Step::Choose, 1024, "full", true),
];

#[derive(Debug)]
#[allow(dead_code)] // read by Debug
enum Error {
    Unknown(String),
    Variant(ExprError),
    Batch(BatchError),
    Plan(PlanError),
    KernelTraits(KernelTraitsError),
    Bind(String),
}

/// A batch, and the buffers that planning it needs.
struct Planner {
    step: Step,
    bound: Variant,
    qo: Vec<i32>,
    table: PageTableBuf,
    layout: Layout,
    work: WorkList,
    scratch: PlanScratch,
    blob: PlanBlob,
    selector: KernelSelector,
}

impl Planner {
    fn new(case: &Case) -> Result<Self, Error> {
        let count = case.requests as usize;
        // in a mixed batch each eighth request has four queries
        let several = |i: usize| matches!(case.step, Step::Choose) && i.is_multiple_of(8);
        let qo_lens: Vec<u32> = (0..count).map(|i| if several(i) { 4 } else { 1 }).collect();
        let kv_lens = if case.skewed { skewed(case.requests, 4096) } else { vec![4096; count] };
        let qo = indptr(&qo_lens).map_err(Error::Batch)?;
        let pages = kv_lens.iter().map(|len| len.div_ceil(16)).sum();
        let mut next = 0..;
        let table = PageTableBuf::from_lens(&kv_lens, 16, pages, || next.next().unwrap_or(0));
        let layout = Batch::paged(&qo, &table.table()).validate().map_err(Error::Batch)?;
        let size = |n: usize| i64::try_from(n).ok();
        let dims = Dims {
            qo_heads: Some(GROUPED.qo.into()),
            kv_heads: Some(GROUPED.kv.into()),
            head_dim: Some(GROUPED.head_dim.into()),
            value_dim: Some(GROUPED.head_dim.into()),
            batch: size(layout.batch()),
            qo_tokens: size(layout.qo_tokens()),
            kv_tokens: size(layout.kv_tokens()),
        };
        let variant = variant(case.variant).map_err(Error::Variant)?;
        let request = KernelTraitsRequest {
            group: GROUPED.group(),
            ..KernelTraitsRequest::new(KernelKind::Decode, GROUPED.head_dim, Dtypes::bf16(), Arch::for_device(9, 0))
        };
        Ok(Planner {
            step: case.step,
            bound: variant.bind(&dims).map_err(|error| Error::Bind(error.to_string()))?,
            qo,
            table,
            layout,
            work: WorkList::default(),
            scratch: PlanScratch::default(),
            blob: PlanBlob::default(),
            selector: KernelSelector::new(&request, HookClass::None, GROUPED, 132).map_err(Error::KernelTraits)?,
        })
    }

    fn run(&mut self) -> Result<(), Error> {
        let Planner { step, bound, qo, table, layout, work, scratch, blob, selector } = self;
        match step {
            Step::List => {
                work.rebuild_for(scratch, bound, &[], black_box(layout), GROUPED, &DECODE.into()).map_err(Error::Plan)
            }
            Step::Whole => {
                Batch::paged(qo, &table.table()).validate_into(layout).map_err(Error::Batch)?;
                work.rebuild_for(scratch, bound, &[], layout, GROUPED, &DECODE.into()).map_err(Error::Plan)?;
                blob.repack(layout, work);
                Ok(())
            }
            Step::Choose => {
                black_box(selector.fastest(black_box(layout)));
                Ok(())
            }
        }
    }
}

/// The function whose instructions are counted. `cargo xtask plan-instructions` knows its name.
#[inline(never)]
fn measured_plan(planner: &mut Planner) -> Result<(), Error> {
    black_box(planner).run()
}

fn run(name: &str) -> Result<(), Error> {
    let case = CASES.iter().find(|case| case.name == name).ok_or_else(|| Error::Unknown(name.to_owned()))?;
    let mut planner = Planner::new(case)?;
    for _ in 0..2 {
        black_box(&mut planner).run()?; // buffers grow here
    }
    measured_plan(&mut planner)
}

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        CASES.iter().for_each(|case| println!("{}", case.name));
        return ExitCode::SUCCESS;
    };
    match run(&name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plan_once: {error:?}");
            ExitCode::FAILURE
        }
    }
}
