//! Scalars of a request: a parameter tensor over the batch, indexed by `at.batch`, through the public interface on the
//! CPU.

use attn::Error;
use attn::lang::{BindError, ParamValue};
use attn::prelude::*;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::KernelSource;
use attn_tests::reference::{Attended, Formula, Shape, attend};
use attn_tests::setup::{Tensors, Written};

/// Scales the logits of each request by a number of its own.
#[derive(Clone, Debug, VariantParams)]
struct Sharpness {
    #[shape(batch)]
    by: Tensor1<f32>,
}

#[attention_variant(name = "sharpness_of_requests")]
impl AttentionVariant for Sharpness {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit * self.by[at.batch]
    }
}

const HEADS: Heads = Heads { qo: 2, kv: 1, head_dim: 4 };
/// Two requests: 2 queries on 3 keys, 1 query on 2 keys.
const INDPTR: ([i32; 3], [i32; 3]) = ([0, 2, 3], [0, 3, 5]);

fn variant(by: &[f32]) -> Variant {
    Sharpness { by: by.to_vec().into() }.into()
}

fn tensors() -> Tensors {
    Tensors::new(HEADS, 3, &[5])
}

/// Output and log-sum-exp of an attention.
fn run(attention: &Attention) -> Result<Written, Error> {
    let plan = attention.plan(&Batch::ragged(&INDPTR.0, &INDPTR.1), &mut Engine::cpu().workspace())?;
    tensors().run_with(&plan, KvScales::default(), RunOptions::default())
}

/// The same by definition.
fn by_definition(by: &[f32]) -> Attended {
    let shape = Shape { lens: vec![(2, 3), (1, 2)], qo_heads: 2, kv_heads: 1, head_dim: 4, value_dim: 4 };
    let by = by.to_vec();
    let formula = Formula::plain().logit(move |z, at| z * f64::from(by[at.b as usize]));
    attend(&formula, &shape, &tensors().packed(), 0.5)
}

fn close(got: &[f32], want: &[f64]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-5)
}

#[test]
fn each_request_has_its_own_number() {
    let attend = |by: &[f32]| {
        let attention = Engine::cpu().attention(&variant(by), HEADS, Dtypes::f32()).expect("bound");
        let Written { o, lse } = run(&attention).expect("runs");
        let want = by_definition(by);
        assert!(close(&o, &want.o) && close(&lse, &want.lse), "{by:?}: {o:?} {lse:?}, not {want:?}");
        o
    };
    let (one, other) = (attend(&[0.5, 3.0]), attend(&[0.5, -1.0]));
    // the number of the second request does not affect the first
    assert!(one[..16] == other[..16] && one[16..] != other[16..]);
    assert!(attend(&[3.0, 0.5])[..16] != one[..16]);
}

#[test]
fn other_numbers_share_the_kernel_and_do_not_change_a_bound_attention() {
    let source = |variant: &Variant| {
        let arch = "sm_90a".parse().expect("an architecture");
        let request = KernelTraitsRequest::new(KernelKind::Decode, 64, Dtypes::f16(), arch);
        KernelSource::build(variant, &KernelTraits::choose(&request).expect("a cell")).expect("supported").text
    };
    assert_eq!(source(&variant(&[0.5, 3.0])), source(&variant(&[2.0, 1.0, 4.0])), "numbers are not part of the source");

    let mut changed = variant(&[0.5, 3.0]);
    let bound = Engine::cpu().attention(&changed, HEADS, Dtypes::f32()).expect("bound");
    changed.set("by", ParamValue::List([2.0, 1.0].map(ParamValue::Float).into())).expect("a list of numbers");
    let again = Engine::cpu().attention(&changed, HEADS, Dtypes::f32()).expect("bound");
    for (attention, by) in [(&bound, [0.5, 3.0]), (&again, [2.0, 1.0])] {
        assert!(close(&run(attention).expect("runs").o, &by_definition(&by).o), "{by:?}");
    }
}

#[test]
fn planning_checks_the_length_of_a_tensor_over_the_batch() {
    let attention = Engine::cpu().attention(&variant(&[1.0]), HEADS, Dtypes::f32()).expect("no batch is known yet");
    let error = run(&attention).expect_err("two requests, one number");
    assert!(matches!(&error, Error::Bind(e) if matches!(e.root(), BindError::Outgrown { .. })), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("`by`") && text.contains("[1]") && text.contains("[2]"), "{text}");
}
