//! One planning step, for tools that count instructions: `plan_once CASE`. Without an argument it prints the cases.
//!
//! `cargo xtask plan-instructions` runs it under callgrind, which counts within [`measured_plan`] alone. Buffers have
//! grown to the batch by then, as in a server that plans step after step.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program

use std::{hint::black_box, process::ExitCode};

use attn_benches::{DECODE, GROUPED, page_table, skewed, variant};
use attn_core::batch::{Batch, Layout, PageTableBuf, indptr};
use attn_core::dtype::Dtypes;
use attn_core::expr::Variant;
use attn_core::plan::{PlanBlob, PlanScratch, WorkList};
use attn_core::spec::KernelKind;
use attn_kernels::compile::Arch;
use attn_kernels::cost::{CostTable, HookClass};
use attn_kernels::kernel_traits::KernelTraitsRequest;
use attn_kernels::select::{FixedChoice, KernelSelector};

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

type Error = Box<dyn std::error::Error>;

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
        let qo = indptr(&qo_lens)?;
        let table = page_table(&kv_lens, 16);
        let layout = Batch::paged(&qo, &table.table()).validate()?;
        let variant = variant(case.variant)?;
        let request = KernelTraitsRequest {
            group: GROUPED.group(),
            ..KernelTraitsRequest::new(KernelKind::Decode, GROUPED.head_dim, Dtypes::bf16(), Arch::for_device(9, 0))
        };
        Ok(Planner {
            step: case.step,
            bound: variant.bind(&layout.dims(GROUPED))?,
            qo,
            table,
            layout,
            work: WorkList::default(),
            scratch: PlanScratch::default(),
            blob: PlanBlob::default(),
            selector: KernelSelector::new(
                &request,
                HookClass::None,
                &CostTable::default(),
                GROUPED,
                132,
                FixedChoice::default(),
            )?,
        })
    }

    fn run(&mut self) -> Result<(), Error> {
        let Planner { step, bound, qo, table, layout, work, scratch, blob, selector } = self;
        match step {
            Step::List => {
                work.rebuild_for(scratch, bound, &[], black_box(layout), GROUPED, &DECODE.into())?;
            }
            Step::Whole => {
                Batch::paged(qo, &table.table()).validate_into(layout)?;
                work.rebuild_for(scratch, bound, &[], layout, GROUPED, &DECODE.into())?;
                blob.repack(layout, work);
            }
            Step::Choose => {
                black_box(selector.fastest(black_box(layout)));
            }
        }
        Ok(())
    }
}

/// The function whose instructions are counted. `cargo xtask plan-instructions` knows its name.
#[inline(never)]
fn measured_plan(planner: &mut Planner) -> Result<(), Error> {
    black_box(planner).run()
}

fn run(name: &str) -> Result<(), Error> {
    let case = CASES.iter().find(|case| case.name == name).ok_or_else(|| format!("no case {name}"))?;
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
            eprintln!("plan_once: {error}");
            ExitCode::FAILURE
        }
    }
}
