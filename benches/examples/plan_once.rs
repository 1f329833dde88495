//! One planning step, for tools that count instructions: `plan_once CASE`. Without an argument it prints the cases.
//!
//! `cargo xtask plan-instructions` runs it under callgrind, which collects within [`measured_plan`] alone: in memory that
//! has grown to the batch, as a server plans from step to step.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program

use std::{hint::black_box, process::ExitCode};

use attn_benches::{DECODE, GROUPED, skewed, variant};
use attn_core::{
    batch::{Batch, BatchError, Layout, PageTableBuf, indptr},
    dtype::Dtypes,
    expr::{ExprError, Variant},
    lang::Dims,
    plan::{PlanBlob, PlanError, PlanScratch, WorkList},
    spec::{KernelKind, PrefillBackend, HeadDimVo},
};
use attn_kernels::{
    kernel_traits::{KernelTraitsError, KernelTraitsRequest},
    compile::Arch,
    cost::HookClass,
    select::KernelSelector,
};

/// What a case does.
#[derive(Clone, Copy)]
enum What {
    /// Makes the list.
    List,
    /// All that comes before an upload, of a batch in pages of 16: validates, makes the list, packs it.
    Step,
    /// Chooses the kernels, of a batch in which some requests have several queries.
    Choose,
}

struct Case {
    name: &'static str,
    what: What,
    requests: u32,
    variant: &'static str,
    /// Whether lengths are skewed; all are 4096 on average.
    skewed: bool,
}

const fn case(name: &'static str, what: What, requests: u32, variant: &'static str, skewed: bool) -> Case {
    Case { name, what, requests, variant, skewed }
}

const WINDOW: &str = "causal + sliding_window(window=512)";
const CASES: [Case; 10] = [
    case("list-64-equal", What::List, 64, "full", false),
    case("list-64-skewed", What::List, 64, "full", true),
    case("list-64-window", What::List, 64, WINDOW, true),
    case("list-1024-equal", What::List, 1024, "full", false),
    case("list-1024-skewed", What::List, 1024, "full", true),
    case("list-1024-window", What::List, 1024, WINDOW, true),
    case("step-64-skewed", What::Step, 64, "full", true),
    case("step-1024-skewed", What::Step, 1024, "full", true),
    case("choose-64", What::Choose, 64, "full", true),
    case("choose-1024", What::Choose, 1024, "full", true),
];

#[derive(Debug)]
#[allow(dead_code)] // said by Debug
enum Error {
    Unknown(String),
    Variant(ExprError),
    Batch(BatchError),
    Plan(PlanError),
    KernelTraits(KernelTraitsError),
    Bind(String),
}

/// A batch and all that planning it needs.
struct Planner {
    what: What,
    bound: Variant,
    qo: Vec<i32>,
    table: PageTableBuf,
    layout: Layout,
    work: WorkList,
    scratch: PlanScratch,
    blob: PlanBlob,
    families: KernelSelector,
}

impl Planner {
    fn new(case: &Case) -> Result<Self, Error> {
        let count = case.requests as usize;
        // of a mixture, each eighth request has four queries
        let several = |i: usize| matches!(case.what, What::Choose) && i.is_multiple_of(8);
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
            kind: KernelKind::Decode,
            head_dim: GROUPED.head_dim,
            head_dim_vo: HeadDimVo::Same,
            dtypes: Dtypes::bf16(),
            paged: true,
            group: GROUPED.group(),
            key_hooks: false,
            value_hooks: false,
            arch: Arch::for_device(9, 0),
            key_lists: false,
            prefill: PrefillBackend::default(),
        };
        Ok(Planner {
            what: case.what,
            bound: variant.bind(&dims).map_err(|error| Error::Bind(error.to_string()))?,
            qo,
            table,
            layout,
            work: WorkList::default(),
            scratch: PlanScratch::default(),
            blob: PlanBlob::default(),
            families: KernelSelector::new(&request, HookClass::None, GROUPED, 132).map_err(Error::KernelTraits)?,
        })
    }

    fn step(&mut self) -> Result<(), Error> {
        let Planner { what, bound, qo, table, layout, work, scratch, blob, families } = self;
        match what {
            What::List => work.rebuild_for(scratch, bound, black_box(layout), GROUPED, &DECODE).map_err(Error::Plan),
            What::Step => {
                Batch::paged(qo, &table.table()).validate_into(layout).map_err(Error::Batch)?;
                work.rebuild_for(scratch, bound, layout, GROUPED, &DECODE).map_err(Error::Plan)?;
                blob.repack(layout, work);
                Ok(())
            }
            What::Choose => {
                black_box(families.fastest(black_box(layout)));
                Ok(())
            }
        }
    }
}

/// What is counted: the name is known to `cargo xtask plan-instructions`.
#[inline(never)]
fn measured_plan(planner: &mut Planner) -> Result<(), Error> {
    black_box(planner).step()
}

fn run(name: &str) -> Result<(), Error> {
    let case = CASES.iter().find(|case| case.name == name).ok_or_else(|| Error::Unknown(name.to_owned()))?;
    let mut planner = Planner::new(case)?;
    for _ in 0..2 {
        black_box(&mut planner).step()?; // memory grows here
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
