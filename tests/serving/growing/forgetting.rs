//! A tensor with a row for each key token: forget gates, which a decode loop appends to.

use attn::{
    Error, Out,
    batch::DeviceBatch,
    lang::BindError,
    ops::{self, Op, TensorRows},
    prelude::*,
};
use attn_tests::{gpu::engines, synthetic::values};

use super::support::{Captured, HEADS, PROMPT, ROW, STEPS, assert_close, content, flat, halves, ints, numbers};
use crate::captures;

/// Forgetting attention (arXiv 2503.02130): the forget gates between a key and a query weaken their logit.
#[derive(Clone, Debug, VariantParams)]
struct Forgetting {
    /// Sums of the logarithms of forget gates up to each key token.
    #[shape(kv_tokens, qo_heads)]
    log_forget: Tensor2<f32>,
}

#[attention_variant(name = "forgetting_of_a_growing_cache")]
impl AttentionVariant for Forgetting {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let query = at.kv_token - at.kv_pos + at.qo_pos;
        logit + self.log_forget[[query, at.qo_head]] - self.log_forget[[at.kv_token, at.qo_head]]
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

#[test]
fn forgetting_attention_decodes_under_one_graph() {
    const ROOM: usize = 256;
    let log_forget: Vec<f32> = values(ROOM * 4, 5)
        .into_iter()
        .scan([0.0; 4], |sums, x| {
            sums.rotate_left(1);
            sums[3] += -0.02 * x.abs();
            Some(sums[3])
        })
        .collect();
    let (all_q, all_k, all_v) = (halves(ROOM * ROW[0], 1), halves(ROOM * ROW[1], 2), halves(ROOM * ROW[1], 3));
    let _beside = captures::beside();
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        // what is not written yet poisons what reads it
        let given = log_forget.iter().enumerate().map(|(i, &x)| if i < 4 * PROMPT { x } else { f32::NAN }).collect();
        let variant = Forgetting { log_forget: Tensor2::from_values(given, [ROOM, 4]).expect("room") };
        let attention = engine.attention(&variant.into(), HEADS, Dtypes::f16()).expect("bound");
        let options = PlanOptions { capacity: Some(BatchCapacity::decode(1, ROOM as u32)), ..Default::default() };
        let mut workspace = engine.workspace();
        let first = Batch::ragged(&[0, 1], &[0, PROMPT as i32]);
        let mut plan = attention.plan_with(&first, &mut workspace, options).expect("room");
        plan.prepare_device_updates().expect("room for the capacity");
        ops::prepare(&engine, &[Op::TensorRows]).expect("a kernel");

        let (mut kv_lens, qo_indptr) = (numbers(&engine, &[0i32]), numbers(&engine, &[0i32, 1]));
        let (mut index, mut gates) = (numbers(&engine, &[0i32]), numbers(&engine, &[0f32; 4]));
        let mut q = engine.upload(&all_q[..ROW[0]]).expect("memory");
        let (k, v) = (engine.upload(&all_k).expect("memory"), engine.upload(&all_v).expect("memory"));
        let mut o = engine.alloc(Dtype::F16, ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for len in PROMPT + 1..=PROMPT + STEPS {
            let token = len - 1;
            kv_lens.write(&stream, 0, &[len as i32]).expect("fits");
            index.write(&stream, 0, &[token as i32]).expect("fits");
            gates.write(&stream, 0, &log_forget[4 * token..][..4]).expect("fits");
            let of_query = &all_q[token * ROW[0]..][..ROW[0]];
            q.write(&stream, 0, of_query).expect("fits");
            graph.step(&stream, || {
                let rows = TensorRows::at(index.array(), content(&gates));
                attention.set_tensor_rows(&stream, "log_forget", &rows)?;
                plan.update_on_device(&stream, &DeviceBatch::ragged(ints(&qo_indptr), ints(&kv_lens)))?;
                let kv = Kv::ragged(k.tensor(&[ROOM, 2, 64])?, v.tensor(&[ROOM, 2, 64])?);
                plan.run(&stream, q.tensor(&[1, 4, 64])?, kv, Out::new(o.tensor_mut(&[1, 4, 64])?))
            });
            plan.device_status(&stream).expect("sound");
            let exact = Tensor2::from_values(log_forget[..4 * len].to_vec(), [len, 4]).expect("exact");
            let exact = attention.with_parameters(&Forgetting { log_forget: exact }.into()).expect("a layer");
            let kv = [&all_k[..len * ROW[1]], &all_v[..len * ROW[1]]];
            let want = flat(&engine, &exact, of_query, kv, &Batch::ragged(&[0, 1], &[0, len as i32]));
            assert_close(&engine, &format!("{len} keys"), &engine.download_f32(&o).expect("ran"), &want, 2e-3);
        }
    }
}

#[test]
fn a_batch_that_outgrows_a_tensor_says_so() {
    let _beside = captures::beside();
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let variant = Forgetting { log_forget: Tensor2::from_values(vec![0.0; 400], [100, 4]).expect("room") };
        let attention = engine.attention(&variant.into(), HEADS, Dtypes::f16()).expect("bound");
        let options = PlanOptions { capacity: Some(BatchCapacity::decode(1, 256)), ..Default::default() };
        let mut workspace = engine.workspace();
        let batch = |len: &[i32; 2]| attention.plan(&Batch::ragged(&[0, 1], len), &mut engine.workspace()).map(drop);
        batch(&[0, 100]).expect("as large");
        let flat = batch(&[0, 101]).expect_err("one key too many").to_string();
        let mut plan = attention.plan_with(&Batch::ragged(&[0, 1], &[0, 7]), &mut workspace, options).expect("room");
        plan.update(&stream, &Batch::ragged(&[0, 1], &[0, 100])).expect("as large");
        let error = plan.update(&stream, &Batch::ragged(&[0, 1], &[0, 101])).expect_err("one key too many");
        assert!(matches!(&error, Error::Bind(e) if matches!(e.root(), BindError::Outgrown { .. })) || !engine.is_cpu());
        for text in [flat, error.to_string()] {
            assert!(text.contains("`log_forget` has room for [100, 4]") && text.contains("[101, 4]"), "{text}");
            assert!(text.contains("plan a smaller batch"), "{text}");
        }
        assert_eq!(plan.layout().kv_tokens(), 100, "the plan is unchanged");
        // on a GPU the host does not see the lengths: the capacity must fit
        let prepared = plan.prepare_device_updates();
        assert_eq!(prepared.is_err(), !engine.is_cpu(), "{prepared:?}");
        let (qo, kv) = (numbers(&engine, &[0i32, 1]), numbers(&engine, &[101i32]));
        let error = plan.update_on_device(&stream, &DeviceBatch::ragged(ints(&qo), ints(&kv))).expect_err("too many");
        assert!(error.to_string().contains("`log_forget` has room for [100, 4]"), "{error}");

        let wrong = Forgetting { log_forget: Tensor2::from_values(vec![0.0; 500], [100, 5]).expect("a shape") };
        let wrong = engine.attention(&wrong.into(), HEADS, Dtypes::f16()).expect("the batch is not known");
        let error = wrong.plan(&Batch::ragged(&[0, 1], &[0, 7]), &mut workspace).expect_err("five heads");
        assert!(error.to_string().contains("has shape [100, 5]"), "{error}");
    }
}
