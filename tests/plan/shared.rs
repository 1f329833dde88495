//! One plan for several layers, through the public interface on the CPU: each layer gives the bits of a plan of its own
//! where the work list is the same, and the same numbers where it covers more keys.

use attn::{Error, expr::LayerError, prelude::*};
use attn_tests::setup::{BatchArrays, Tensors, cpu_attention, stock_variant};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };

struct Data {
    arrays: BatchArrays,
    tensors: Tensors,
}

impl Data {
    fn new(qo: &[u32], kv: &[u32]) -> Self {
        let [queries, keys] = [qo, kv].map(|lens| lens.iter().sum::<u32>() as usize);
        Data { arrays: BatchArrays::new(qo, kv, None), tensors: Tensors::new(HEADS, queries, &[keys]) }
    }

    fn batch(&self) -> Batch<'_> {
        self.arrays.batch()
    }

    /// The outputs of a run: o, then lse.
    fn run(&self, plan: &Plan, layer: Option<&Attention>) -> Result<Vec<f32>, Error> {
        let written = self.tensors.run_with(plan, KvScales::default(), RunOptions { layer, ..Default::default() })?;
        Ok([written.o, written.lse].concat())
    }
}

fn attention(text: &str) -> Attention {
    cpu_attention(text, HEADS, AttentionOptions::default())
}

#[test]
fn layers_that_see_the_same_keys_share_a_plan_without_being_named() {
    let data = Data::new(&[40, 1], &[500, 1300]);
    let base = attention("causal + soft_cap(cap=30) + sink(logits=[0, 1, 2, 3])");
    let plan = base.plan(&data.batch(), &mut Engine::cpu().workspace()).expect("sound");
    let with_its_own_plan = |layer: &Attention| {
        let plan = plan_with_layers(layer, &[], &data, None);
        data.run(&plan, None).expect("runs")
    };
    let capped = base
        .with_parameters(&stock_variant("causal + soft_cap(cap=2) + sink(logits=[5, -1, 2, 0.5])"))
        .expect("values");
    let scaled = capped.with_sm_scale(0.7).expect("positive");
    let written: Vec<_> = [&base, &capped, &scaled].map(|layer| data.run(&plan, Some(layer)).expect("runs")).into();
    assert_eq!(written, [&base, &capped, &scaled].map(with_its_own_plan));
    assert!(written[0] != written[1] && written[1] != written[2], "the layers differ");
    assert!(matches!(base.with_sm_scale(f32::NAN), Err(Error::Heads(_))));
}

/// Layers with windows of 70, 300 and 900 keys.
fn windows() -> [Attention; 3] {
    let near = attention("causal + sliding_window(window=70)");
    let far = near.with_parameters(&stock_variant("causal + sliding_window(window=900)")).expect("values");
    let middle = far.with_parameters(&stock_variant("causal + sliding_window(window=300)")).expect("values");
    [near, middle, far]
}

fn plan_with_layers(
    attention: &Attention,
    layers: &[&Attention],
    data: &Data,
    capacity: Option<BatchCapacity>,
) -> Plan {
    let options = PlanOptions { layers, capacity, ..Default::default() };
    attention.plan_with(&data.batch(), &mut Engine::cpu().workspace(), options).expect("sound")
}

#[test]
fn a_plan_for_several_windows_covers_the_keys_of_each() {
    let [near, middle, far] = windows();
    let first = Data::new(&[100, 1, 0, 7], &[1200, 2000, 5, 90]);
    let capacity = Some(BatchCapacity::new(4, 200, 6000));
    let fixed = plan_with_layers(&near, &[&far, &near], &first, None);
    let [mut of_near, mut of_far] = [
        plan_with_layers(&near, &[&far], &first, capacity),
        plan_with_layers(&far, &[&middle, &near], &first, capacity),
    ];
    let check = |plan: &Plan, data: &Data| {
        for layer in [&near, &far] {
            let alone = plan_with_layers(layer, &[], data, None);
            let (got, want) = (data.run(plan, Some(layer)).expect("runs"), data.run(&alone, None).expect("runs"));
            assert!(got.iter().zip(&want).all(|(x, y)| (x - y).abs() <= 1e-5 * (1.0 + y.abs()) || x == y));
        }
    };
    [&fixed, &of_near, &of_far].into_iter().for_each(|plan| check(plan, &first));
    let next = Data::new(&[1, 60], &[1900, 700]);
    let stream = Engine::cpu().stream().expect("a token");
    for plan in [&mut of_near, &mut of_far] {
        plan.update(&stream, &next.batch()).expect("within");
        check(plan, &next);
    }
}

#[test]
fn a_layer_that_the_plan_does_not_name_is_refused() {
    let [near, middle, far] = windows();
    let data = Data::new(&[100, 1, 0, 7], &[1200, 2000, 5, 90]);
    let (of_near, of_both) =
        (plan_with_layers(&near, &[], &data, None), plan_with_layers(&near, &[&far, &near], &data, None));
    // `middle` sees a part of what `far` sees, but a plan knows only whether masks are equal, and not that one is
    // within another
    for (plan, layer) in [(&of_near, &far), (&of_near, &middle), (&of_both, &middle)] {
        let error = data.run(plan, Some(layer)).expect_err("not named");
        assert!(matches!(error, Error::Layer(LayerError::NotPlanned)), "{error}");
    }
    // the window of `far`, derived another way
    let again = near.with_parameters(&stock_variant("causal + sliding_window(window=900)")).expect("values");
    data.run(&of_both, Some(&again)).expect("sees what `far` sees");
}

#[test]
fn attentions_of_another_structure_or_origin_are_refused() {
    let base = attention("causal + soft_cap(cap=30)");
    for (other, want, got) in [
        ("causal", "soft_cap(cap=30)", "nothing"),
        ("causal + soft_cap(cap=30) + output_norm", "nothing", "output_norm"),
        ("soft_cap(cap=30) + causal", "causal", "soft_cap(cap=30)"),
        ("not(causal) + soft_cap(cap=30)", "causal", "not(causal)"),
    ] {
        let error = base.with_parameters(&stock_variant(other)).expect_err(other);
        let text = error.to_string();
        let Error::Layer(LayerError::Structure(structure)) = &error else { panic!("{other}: {text}") };
        assert!(structure.want.starts_with(want) && structure.got.starts_with(got), "{other}: {text}");
    }
    let data = Data::new(&[1], &[9]);
    let plan = base.plan(&data.batch(), &mut Engine::cpu().workspace()).expect("sound");
    let unrelated = attention("causal + soft_cap(cap=30)");
    let error = data.run(&plan, Some(&unrelated)).expect_err("bound apart");
    assert!(matches!(error, Error::Layer(LayerError::Unrelated)), "{error}");
    let options = PlanOptions { layers: &[&unrelated], ..Default::default() };
    let error = base.plan_with(&data.batch(), &mut Engine::cpu().workspace(), options).expect_err("bound apart");
    assert!(matches!(error, Error::Layer(LayerError::Unrelated)), "{error}");
}
