//! What does not fit is refused before anything is written.

use attn::cpu::{self, CpuError, Problem};
use attn::dtype::Dtype;
use attn::lang::{AttentionVariant, Hook, KvIndex, Normalizer, Row};
use attn::plan::{PlanError, WorkList};
use attn::tensor::{Kv, Out, TensorError, TensorMut, TensorRef};
use attn::{Variant, VariantParams, attention_variant};

use super::case::Case;
use super::edges::case;

/// Runs a problem that does not fit, and checks that the output is left alone.
fn refused(problem: Problem<'_>) -> CpuError {
    let (tokens, heads) = (problem.layout.qo_tokens(), problem.heads.qo as usize);
    let mut o = vec![half::bf16::ONE; tokens * heads * 64];
    let out = Out::new(TensorMut::host(&mut o, &[tokens, heads, 64]).expect("fits"));
    let error = cpu::run(&problem, out).expect_err("it does not fit");
    assert!(o.iter().all(|x| *x == half::bf16::ONE));
    error
}

#[test]
fn work_of_another_batch_or_other_heads() {
    let setup = case().setup();
    let other = Case { lens: vec![(40, 151), (1, 700), (0, 3), (5, 0)], tile_rows: 3, ..case() }.setup();
    let fewer = Case { lens: vec![(40, 15)], ..case() }.setup();
    assert_ne!(setup.work, other.work);
    let longer = WorkList { items: other.work.items.clone(), ..fewer.work.clone() };
    assert!(matches!(refused(Problem { work: &longer, ..fewer.problem() }), CpuError::Plan(PlanError::Foreign { .. })));
    let group = WorkList { group: 1, items: vec![], merges: vec![], ..setup.work.clone() };
    assert_eq!(refused(Problem { work: &group, ..setup.problem() }), CpuError::Group { planned: 1, group: 3 });
}

#[test]
fn slots_that_nothing_fills_or_two_items_fill() {
    let setup = case().setup();
    assert!(setup.work.slots > 1);
    let mut missing = setup.work.clone();
    missing.items.retain(|item| item.partial != 1);
    assert_eq!(refused(Problem { work: &missing, ..setup.problem() }), CpuError::Slot { slot: 1 });
    let mut twice = setup.work.clone();
    twice.items.push(*twice.items.iter().find(|item| item.partial == 1).expect("there is one"));
    assert_eq!(refused(Problem { work: &twice, ..setup.problem() }), CpuError::Slot { slot: 1 });
}

#[test]
fn device_memory_and_other_types() {
    let setup = case().setup();
    let q = setup.problem().q;
    // SAFETY: the pointer is never dereferenced.
    let device = unsafe { TensorRef::device(64, Dtype::Bf16, q.shape(), q.strides()) }.expect("small");
    let error = refused(Problem { q: device, ..setup.problem() });
    assert_eq!(error, TensorError::Memory { tensor: "q", got: "device", want: "host" }.into());
    let f16 = Case { dtype: Dtype::F16, ..case() }.setup();
    let error = refused(Problem { kv: Kv::paged(f16.problem().kv.k, setup.problem().kv.v), ..setup.problem() });
    assert_eq!(error, TensorError::Dtype { tensor: "v", got: Dtype::Bf16, want: Dtype::F16 }.into());
}

#[test]
fn hooks_and_normalisers_without_a_kernel() {
    #[derive(Clone, Copy, VariantParams)]
    struct Values;
    #[attention_variant(name = "values")]
    impl AttentionVariant for Values {
        fn value_transform<R: Row>(&self, v: &mut R, _at: KvIndex) {
            v.map(|_, x| x + 1.0);
        }
    }
    #[derive(Clone, Copy, VariantParams)]
    struct Scaled;
    #[attention_variant(name = "scaled")]
    impl AttentionVariant for Scaled {
        const NORMALIZER: Normalizer = Normalizer::MaxScaled;
        fn weight(&self, logit: f32, row_max: f32, _at: attn::lang::LogitIndex) -> f32 {
            (logit - row_max).exp()
        }
    }
    let setup = case().setup();
    let values = Variant::from(Values);
    assert_eq!(
        refused(Problem { variant: &values, ..setup.problem() }),
        CpuError::Hook { variant: "values", hook: Hook::ValueTransform }
    );
    let scaled = Variant::from(Scaled);
    let error = refused(Problem { variant: &scaled, ..setup.problem() });
    assert!(matches!(error, CpuError::Normalizer { normalizer: Normalizer::MaxScaled, .. }));
    assert_eq!(cpu::oracle(&Problem { variant: &scaled, ..setup.problem() }), Err(error));
}
