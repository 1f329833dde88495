//! Problems that do not fit are refused before anything is written.

use attn_core::cpu::{self, CpuError, Problem};
use attn_core::dtype::Dtype;
use attn_core::plan::{PlanError, WorkItem, WorkList, WorkPart};
use attn_core::tensor::{Kv, KvScales, Out, Scale, TensorError, TensorMut, TensorRef};

use super::case::Case;
use super::edges::case;

/// Runs a problem that does not fit, and checks that the output is unchanged.
fn refused(problem: Problem<'_>) -> CpuError {
    let (tokens, heads) = (problem.layout.qo_tokens(), problem.heads.qo as usize);
    let mut o = vec![half::bf16::ONE; tokens * heads * 64];
    let out = Out::new(TensorMut::host(&mut o, &[tokens, heads, 64]).expect("fits"));
    let error = cpu::run(&problem, out).expect_err("it does not fit");
    assert!(o.iter().all(|x| *x == half::bf16::ONE));
    error
}

/// A work list of one part with these items, each with a worker of its own.
fn of_items(work: &WorkList, items: Vec<WorkItem>) -> WorkList {
    let part = WorkPart { items: 0..items.len(), workers: 0..0, ..work.parts[0].clone() };
    WorkList { parts: vec![part], workers: Vec::new(), items, ..work.clone() }
}

#[test]
fn lists_of_another_batch_or_other_heads_are_refused() {
    let setup = case().setup();
    let other = Case { lens: vec![(40, 151), (1, 700), (0, 3), (5, 0)], tile_rows: 3, ..case() }.setup();
    let fewer = Case { lens: vec![(40, 15)], ..case() }.setup();
    assert_ne!(setup.work, other.work);
    let longer = of_items(&fewer.work, other.work.items.clone());
    assert!(matches!(refused(Problem { work: &longer, ..fewer.problem() }), CpuError::Plan(PlanError::Foreign { .. })));
    let group = WorkList { group: 1, merges: vec![], ..of_items(&setup.work, vec![]) };
    assert_eq!(refused(Problem { work: &group, ..setup.problem() }), CpuError::Group { planned: 1, group: 3 });
}

#[test]
fn partial_rows_must_be_filled_by_one_item() {
    let setup = case().setup();
    let refused = |work: &WorkList| refused(Problem { work, ..setup.problem() });
    let (at, item) = setup.work.items.iter().enumerate().find(|(_, item)| item.partial > 0).expect("a split tile");
    let missing = setup.work.items.iter().filter(|other| other.partial != item.partial).copied().collect();
    let error = refused(&of_items(&setup.work, missing));
    let unfilled =
        PlanError::Foreign { what: "merge", index: item.merge as usize, field: "state", value: item.partial };
    assert_eq!(error, CpuError::Plan(unfilled));
    let twice = setup.work.items.iter().copied().chain([*item]).collect();
    let error = refused(&of_items(&setup.work, twice));
    assert!(
        matches!(error, CpuError::Plan(PlanError::Foreign { field: "partial", index, .. }) if index > at),
        "{error}"
    );
    let alone = setup.work.items.iter().copied().filter(|other| other.partial >= 0).collect();
    let error = refused(&of_items(&setup.work, alone));
    assert!(matches!(error, CpuError::Plan(PlanError::Foreign { what: "row", field: "writers", .. })), "{error}");
}

#[test]
fn device_memory_and_wrong_types_are_refused() {
    let setup = case().setup();
    let q = setup.problem().q;
    // SAFETY: the pointer is never dereferenced.
    let device = unsafe { TensorRef::device(64, Dtype::Bf16, q.shape(), q.strides()) }.expect("small");
    let error = refused(Problem { q: device, ..setup.problem() });
    assert_eq!(error, TensorError::Memory { tensor: "q", got: "device", want: "host" }.into());
    let kv = setup.problem().kv;
    // SAFETY: the pointer is never dereferenced.
    let heads = unsafe { TensorRef::device(64, Dtype::F32, &[2], &[1]) }.expect("small");
    let scales = KvScales { k: Scale::default(), v: Scale::per_head(heads) };
    let error = refused(Problem { kv: kv.with_scales(scales), ..setup.problem() });
    assert_eq!(error, TensorError::Memory { tensor: "v_scales", got: "device", want: "host" }.into());
    let f16 = Case { dtype: Dtype::F16, ..case() }.setup();
    let error = refused(Problem { kv: Kv::paged(f16.problem().kv.k, setup.problem().kv.v), ..setup.problem() });
    assert_eq!(error, TensorError::Dtype { tensor: "v", got: Dtype::Bf16, want: Dtype::F16 }.into());
}

#[test]
fn lists_for_another_structure_are_refused() {
    let setup = case().setup();
    let union = Case { variant: 21, ..case() }.setup();
    let lists = Case { variant: 18, ..case() }.setup();
    let error = refused(Problem { work: &setup.work, ..union.problem() });
    assert_eq!(error.to_string(), "the work was planned for no union and no lists; this variant has a union of 2");
    let error = refused(Problem { work: &lists.work, ..setup.problem() });
    assert_eq!(error.to_string(), "the work was planned for lists of keys; this variant has no union and no lists");
    let items = union.work.items[1..].to_vec();
    let fewer = WorkList { items, ..union.work.clone() };
    let error = refused(Problem { work: &fewer, ..union.problem() });
    assert!(matches!(error, CpuError::Plan(PlanError::Foreign { what: "part", .. })), "{error}");
}
