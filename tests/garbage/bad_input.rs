//! Invalid input through the public interface, on the CPU: each gives a typed error that names the value, what is
//! allowed or what to do, and nothing is written.

mod metadata;

use attn::batch::BatchError;
use attn::lang::{BindError, ParamValue};
use attn::prelude::*;
use attn::{Error, Out};
use attn_core::{spec::HeadsError, tensor::TensorError};

const HEADS: Heads = Heads { qo: 2, kv: 1, head_dim: 8 };
const TABLE: PageTable<'_> =
    PageTable { indptr: &[0, 2], indices: &[0, 1], last_page_len: &[3], page_size: 4, num_pages: 2 };

/// Checks that the message of an error has all words.
fn says<T>(result: Result<T, impl Into<Error>>, words: &[&str]) -> Error {
    let Err(error) = result.map_err(Into::into) else { panic!("nothing is wrong, it says, where {words:?} should be") };
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not all in: {text}");
    error
}

fn attention() -> Attention {
    Engine::cpu().attention(&Variant::full(), HEADS, Dtypes::f32()).expect("bound")
}

#[test]
fn heads_and_scales() {
    let bind = |heads, sm_scale| {
        let options = AttentionOptions { sm_scale, ..AttentionOptions::default() };
        Engine::cpu().attention_with(&Variant::full(), heads, Dtypes::f32(), options)
    };
    for (heads, what) in [
        (Heads { qo: 0, ..HEADS }, "qo_heads = 0"),
        (Heads { kv: 0, ..HEADS }, "kv_heads = 0"),
        (Heads { head_dim: 0, ..HEADS }, "head_dim = 0"),
        (Heads { head_dim: 65536, ..HEADS }, "head_dim = 65536"),
    ] {
        let error = says(bind(heads, None), &[what, "1 to 65535"]);
        assert!(matches!(error, Error::Heads(HeadsError::Count { .. })), "{error:?}");
    }
    says(bind(Heads { qo: 3, kv: 2, head_dim: 8 }, None), &["qo_heads = 3", "multiple of kv_heads = 2"]);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        says(bind(HEADS, Some(scale)), &[&format!("sm_scale = {scale}"), "positive and finite"]);
    }
    // no GPU kernel supports these; the CPU does
    for head_dim in [63, 80] {
        bind(Heads { head_dim, ..HEADS }, None).expect("any head_dim");
    }
}

#[test]
fn types_of_queries() {
    for qo in [Dtype::E4m3, Dtype::E5m2] {
        let error = Engine::cpu().attention(&Variant::full(), HEADS, Dtypes::new(qo, Dtype::E4m3));
        let error = says(error, &[&format!("q and o are {qo}"), "keys and values alone", "f16, bf16 or f32"]);
        assert!(matches!(error, Error::Dtypes(_)), "{error:?}");
    }
}

#[test]
fn scales() {
    let plan = attention().plan(&Batch::ragged(&[0, 1], &[0, 2]), &mut Engine::cpu().workspace()).expect("planned");
    let stream = Engine::cpu().stream().expect("a token");
    let data = vec![1f32; 128];
    let host = |shape: &[usize]| TensorRef::host(&data, shape).expect("fits");
    let run = |scales| {
        let mut o = vec![7f32; 16];
        let kv = Kv::ragged(host(&[2, 1, 8]), host(&[2, 1, 8])).with_scales(scales);
        let out = Out::new(TensorMut::host(&mut o, &[1, 2, 8]).expect("fits"));
        let result = plan.run(&stream, host(&[1, 2, 8]), kv, out);
        assert!(result.is_ok() || o.iter().all(|&x| x == 7.0), "nothing is written");
        result
    };
    let one = host(&[1]);
    run(KvScales::per_head(one, one)).expect("one KV head");
    says(run(KvScales::of(0.0, 1.0)), &["k_scale is or holds 0", "positive and finite"]);
    says(run(KvScales::of(1.0, f32::NAN)), &["v_scale is or holds NaN"]);
    says(run(KvScales::per_head(host(&[2]), one)), &["k_scales has 2 heads", "needs 1"]);
    says(run(KvScales::per_head(one, host(&[1, 1]))), &["v_scales has rank 2", "(kv_heads)"]);
    let bytes = [F8E4M3(0x38)];
    let bytes = TensorRef::host(&bytes, &[1]).expect("fits");
    says(run(KvScales::per_head(bytes, one)), &["k_scales is e4m3", "f32"]);
    // SAFETY: the pointer is never dereferenced: the CPU backend refuses device memory.
    let device = unsafe { TensorRef::device(0x1000, Dtype::F32, &[1], &[1]) }.expect("a shape");
    says(run(KvScales::per_head(one, device)), &["v_scales is in device memory", "host"]);
    let negative = [-1f32];
    let negative = TensorRef::host(&negative, &[1]).expect("fits");
    says(run(KvScales::per_head(negative, one)), &["k_scales is or holds -1"]);
}

#[test]
fn names_and_values_of_parameters() {
    // also without `inventory`
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let parse = Variant::parse;
    says(parse("causal + soft_cpa(cap=3)"), &["soft_cpa", "did you mean `soft_cap`?", "causal", "column 10"]);
    says(parse("soft_cap(cpa=3)"), &["cpa", "did you mean `cap`?", "column 10"]);
    says(parse("soft_cap"), &["`cap` (f32)", "not given"]);
    for cap in ["0", "-1", "nan", "inf"] {
        says(parse(&format!("soft_cap(cap={cap})")), &["`cap`", "cap > 0.0"]);
    }
    says(parse("soft_cap(cap=1e999)"), &["1e999", "up to 1.8e308, or `inf`"]);
    says(parse("sliding_window(window=-1)"), &["`window` = -1", "window >= 0"]);
    says(parse("sliding_window(window=1.5)"), &["`window` is i32", "1.5"]);
    says(parse("sliding_window(window=99999999999)"), &["99999999999", "2147483647"]);
    says(parse("sliding_window(window=1, window=2)"), &["given twice"]);
    says(parse("alibi(slopes=[0.5, nan])"), &["`slopes`", "nan", "is_finite"]);
    says(parse("sigmoid + sink(logits=[1, 2])"), &["sink", "softmax", "sigmoid"]);
    for text in ["", "+", "causal +", "causal causal", "soft_cap(cap=3", "soft_cap(cap=[[[[[[[[[[1"] {
        says(parse(text), &["expected", "found"]);
    }
    let mut variant = parse("causal + soft_cap(cap=30) + soft_cap(cap=20)").expect("an expression");
    says(variant.set("cap", ParamValue::Int(3)), &["several", "set_in"]);
    says(variant.set("capp", ParamValue::Int(3)), &["did you mean `cap`?"]);
    says(variant.set_in(9, "cap", ParamValue::Int(3)), &["9.cap", "1.cap, 2.cap"]);
    says(variant.set_in(1, "cap", ParamValue::Int(0)), &["`cap` = 0", "cap > 0.0"]);
    assert_eq!(variant.to_string(), "causal + soft_cap(cap=30) + soft_cap(cap=20)", "unchanged");
}

#[test]
fn values_by_field_are_checked_when_bound() {
    let bind = |variant: Variant| Engine::cpu().attention(&variant, HEADS, Dtypes::f32());
    let soft_cap = |cap| Variant::from(attn::stock::SoftCap { cap });
    for cap in [0.0, f32::NAN] {
        says(bind(soft_cap(cap)), &["soft_cap", "cap > 0.0"]);
    }
    let sink = |logits| Variant::from(attn::stock::Sink { logits });
    let error = says(bind(sink(Tensor1::unset())), &["sink", "`logits`", "not set"]);
    assert!(matches!(&error, Error::Bind(e) if matches!(e.root(), BindError::Unset { .. })), "{error:?}");
    says(bind(sink(Tensor1::from([1.0, 2.0, 3.0]))), &["`logits`", "[3]", "qo_heads", "[2]"]);
    says(bind(sink(Tensor1::from(vec![]))), &["`logits`", "[0]", "[2]"]);
}

#[test]
fn batches() {
    let attention = attention();
    let mut workspace = Engine::cpu().workspace();
    let mut plan = |batch: Batch<'_>| attention.plan(&batch, &mut workspace);
    says(plan(Batch::ragged(&[], &[0])), &["qo_indptr is empty"]);
    says(plan(Batch::ragged(&[0], &[])), &["kv_indptr is empty"]);
    says(plan(Batch::ragged(&[1, 2], &[0, 1])), &["qo_indptr[0] = 1", "start at 0"]);
    says(plan(Batch::ragged(&[0, 2, 1], &[0, 1, 2])), &["qo_indptr[2] = 1", "qo_indptr[1] = 2", "never decrease"]);
    says(plan(Batch::ragged(&[0, 1], &[0, -2])), &["kv_indptr[1] = -2"]);
    says(plan(Batch::ragged(&[0, 1], &[0, 1, 2])), &["kv_indptr has length 3", "2"]);
    says(plan(Batch::ragged(&[0, i32::MAX], &[0, 1])), &["2147483647 tokens", "1073741823"]);
    let mut paged = |table: PageTable<'_>| plan(Batch::paged(&[0, 1], &table));
    for page in [2, -1, i32::MIN] {
        let error = says(paged(PageTable { indices: &[0, page], ..TABLE }), &[&page.to_string(), "pool of 2 pages"]);
        assert!(matches!(error, Error::Batch(BatchError::PageOutOfPool { index: 1, .. })), "{error:?}");
    }
    for last in [0, 5, -1] {
        let error = says(paged(PageTable { last_page_len: &[last], ..TABLE }), &[&last.to_string(), "1 to 4"]);
        assert!(matches!(error, Error::Batch(BatchError::LastPageLen { request: 0, .. })), "{error:?}");
    }
    says(paged(PageTable { last_page_len: &[], ..TABLE }), &["last_page_len has length 0", "1"]);
    says(paged(PageTable { page_size: 0, ..TABLE }), &["page_size = 0", "1 to"]);
    says(paged(PageTable { page_size: u32::MAX, ..TABLE }), &["page_size = 4294967295"]);
    says(paged(PageTable { page_size: 1 << 30, ..TABLE }), &["1073741827", "1073741823"]);
    says(paged(PageTable { indices: &[0], ..TABLE }), &["page indices has length 1", "ends at 2"]);
    says(paged(PageTable { indptr: &[], ..TABLE }), &["page_indptr is empty"]);
    says(paged(PageTable { indptr: &[0, -2], ..TABLE }), &["page_indptr[1] = -2"]);
    says(paged(PageTable { indptr: &[1, 2], ..TABLE }), &["page_indptr[0] = 1"]);
}

#[test]
fn batches_past_a_capacity() {
    let (engine, attention) = (Engine::cpu(), attention());
    let stream = engine.stream().expect("a token");
    // 2 requests and 4 queries, at most 3 in one request
    let capacity = BatchCapacity { qo_len: 3, ..BatchCapacity::new(2, 4, 9) };
    let first = Batch::ragged(&[0, 1, 4], &[0, 2, 9]);
    let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
    let mut plan = attention.plan_with(&first, &mut engine.workspace(), options).expect("it just fits");
    let refused: [(Batch<'_>, &[&str]); 9] = [
        (Batch::ragged(&[0, 1, 2, 3], &[0, 1, 2, 3]), &["3 requests", "capacity is 2", "larger capacity"]),
        (Batch::ragged(&[0, 4], &[0, 4]), &["4 queries in one request", "capacity is 3"]),
        (Batch::ragged(&[0, 2, 5], &[0, 1, 2]), &["5 queries", "capacity is 4"]),
        (Batch::ragged(&[0, 1, 2], &[0, 5, 10]), &["10 keys", "capacity is 9"]),
        (Batch::paged(&[0, 1], &TABLE), &["in pages of 4", "that are ragged"]),
        (Batch::ragged(&[0, 2, 1], &[0, 1, 2]), &["qo_indptr[2] = 1", "never decrease"]),
        (Batch::ragged(&[0, 1], &[]), &["kv_indptr is empty"]),
        (Batch::ragged(&[0, 1], &[0, 1, 2]), &["kv_indptr has length 3"]),
        (Batch::ragged(&[0, i32::MAX], &[0, 1]), &["2147483647 tokens"]),
    ];
    for (batch, words) in refused {
        let error = says(plan.update(&stream, &batch), words);
        assert!(matches!(error, Error::Batch(_)), "{error:?}");
        assert_eq!(plan.layout(), &first.validate().expect("sound"), "the plan is unchanged");
        says(attention.plan_with(&batch, &mut engine.workspace(), options), words);
        says(attention.workspace_size(&batch, options), words);
    }
    plan.update(&stream, &Batch::ragged(&[0], &[0])).expect("no requests");

    let capacity = BatchCapacity::decode(1, 8).in_pages(4, 2);
    let batch = Batch::paged(&[0, 1], &TABLE);
    let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
    let mut plan = attention.plan_with(&batch, &mut engine.workspace(), options).expect("it just fits");
    let mut update = |table: PageTable<'_>| plan.update(&stream, &Batch::paged(&[0, 1], &table));
    let larger = PageTable { num_pages: 9, ..TABLE };
    update(larger).expect("none of the pages that there were not");
    says(
        update(PageTable { indices: &[0, 7], ..larger }),
        &["8 pages in its pool, at least; the plan\'s capacity is 2"],
    );
    says(update(PageTable { page_size: 8, ..larger }), &["in pages of 8", "that are in pages of 4"]);
    says(update(PageTable { indices: &[0, 2], ..TABLE }), &["pages", "2", "pool of 2"]);
    says(plan.update(&stream, &Batch::ragged(&[0, 1], &[0, 1])), &["ragged", "in pages of 4"]);

    let mut plan = attention.plan(&first, &mut engine.workspace()).expect("sound");
    let error = says(plan.update(&stream, &first), &["of one batch alone", "with a capacity"]);
    assert!(matches!(error, Error::Batch(BatchError::NoCapacity)) && plan.capacity().is_none(), "{error:?}");
    for (capacity, words) in [
        (BatchCapacity::new(1, u32::MAX, 1), &["qo_indptr counts 2147483647 tokens", "1073741823"][..]),
        (capacity.in_pages(0, 1), &["page_size = 0"]),
    ] {
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        says(attention.workspace_size(&first, options), words);
    }
}

#[test]
fn a_split_size_of_zero_is_refused() {
    let options = AttentionOptions { fixed_split_size: Some(0), ..AttentionOptions::default() };
    let attention = Engine::cpu().attention_with(&Variant::full(), HEADS, Dtypes::f32(), options).expect("bound");
    let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 1]), &mut Engine::cpu().workspace());
    says(plan, &["fixed_split_size", "schedule.keys", "= 0", "at least 1"]);
}

#[test]
fn tensors() {
    let plan = attention().plan(&Batch::paged(&[0, 1], &TABLE), &mut Engine::cpu().workspace()).expect("planned");
    let stream = Engine::cpu().stream().expect("a token");
    let (data, half) = (vec![0f32; 128], vec![f16::ZERO; 128]);
    let host = |shape: &[usize]| TensorRef::host(&data, shape).expect("fits");
    let (q, pool) = (host(&[1, 2, 8]), host(&[2, 4, 1, 8]));
    let kv = Kv::paged(pool, pool);
    let mut o = vec![7f32; 128];
    let mut run = |q, kv, shape: &[usize]| {
        let result = plan.run(&stream, q, kv, Out::new(TensorMut::host(&mut o, shape).expect("fits")));
        assert!(o.iter().all(|&x| x == 7.0), "nothing is written");
        result
    };
    let shape = &[1, 2, 8];
    says(run(host(&[2, 8]), kv, shape), &["q has rank 2", "3"]);
    says(run(host(&[1, 1, 8]), kv, shape), &["q has 1 heads", "2"]);
    says(run(host(&[1, 2, 16]), kv, shape), &["q has 16 values per head", "8"]);
    says(run(host(&[0, 2, 8]), kv, shape), &["q has 0 tokens", "at least 1"]);
    says(run(q.with_strides(&[16, 1, 2]).expect("fits"), kv, shape), &["q has stride 2", "must be 1"]);
    says(run(TensorRef::host(&half, shape).expect("fits"), kv, shape), &["q is f16", "f32"]);
    says(run(q, Kv::ragged(host(&[8, 1, 8]), host(&[8, 1, 8])), shape), &["k has rank 3", "4 for a paged batch"]);
    says(run(q, Kv::paged(host(&[1, 4, 1, 8]), pool), shape), &["k has 1 pages", "at least 2"]);
    says(run(q, Kv::paged(pool, host(&[2, 2, 1, 8])), shape), &["v has 2 slots", "4"]);
    says(run(q, kv, &[1, 1, 8]), &["o has 1 heads", "2"]);
    // SAFETY: the pointer is never dereferenced: the CPU backend refuses device memory.
    let device = unsafe { TensorRef::device(0x1000, Dtype::F32, &[2, 4, 1, 8], &[32, 8, 8, 1]) }.expect("a shape");
    says(run(q, Kv::paged(device, pool), shape), &["k is in device memory", "host"]);

    let out = TensorMut::host(&mut o, shape).expect("fits").with_strides(&[8, 0, 1]).expect("fits");
    let error = says(plan.run(&stream, q, kv, Out::new(out)), &["o has shape [1, 2, 8]", "overlap"]);
    assert!(matches!(error, Error::Tensor(TensorError::Overlap { .. })), "{error:?}");
    let mut lse = vec![0f32; 4];
    let lse = TensorMut::host(&mut lse, &[1, 3]).expect("fits");
    let out = Out::with_lse(TensorMut::host(&mut o, shape).expect("fits"), lse);
    says(plan.run(&stream, q, kv, out), &["lse has 3 heads", "2"]);
    for (shape, strides, words) in [
        (&[2][..], &[1][..], &["lse has rank 1", "(tokens, qo_heads)"]),
        (&[0, 2], &[2, 1], &["lse has 0 tokens", "at least 1"]),
        (&[1, 2], &[1, 0], &["lse has shape [1, 2]", "overlap"]),
    ] {
        let (mut o, mut lse) = (vec![7f32; 16], vec![7f32; 4]);
        let lse_tensor = TensorMut::host(&mut lse, shape).and_then(|lse| lse.with_strides(strides)).expect("fits");
        let out = Out::with_lse(TensorMut::host(&mut o, &[1, 2, 8]).expect("fits"), lse_tensor);
        says(plan.run(&stream, q, kv, out), words);
        assert!(o.iter().chain(&lse).all(|&x| x == 7.0), "nothing is written");
    }
    let mut half_o = vec![f16::ZERO; 16];
    let out = Out::new(TensorMut::host(&mut half_o, &[1, 2, 8]).expect("fits"));
    says(plan.run(&stream, q, kv, out), &["o is f16", "f32"]);
    // SAFETY: the pointers are never dereferenced: the CPU backend refuses device memory.
    let foreign = unsafe { TensorMut::device(0x1000, Dtype::F32, &[1, 2, 8], &[16, 8, 1]) }.expect("a shape");
    says(plan.run(&stream, q, kv, Out::new(foreign)), &["o is in device memory", "host"]);

    says(TensorRef::host(&data, &[129]), &["129", "128"]);
    says(TensorRef::host(&data, &[]), &["rank 0"]);
    says(TensorRef::host(&data, &[usize::MAX, 2]), &["too large"]);
    says(host(&[2, 2]).with_strides(&[-1, 1]), &["stride -1"]);
    says(host(&[2, 2]).with_strides(&[1]), &["1 strides", "rank 2"]);
    says(host(&[2, 2]).with_strides(&[200, 1]), &["202", "128"]);
    says(Kv::paged_fused(pool, PageOrder::Nhd), &["rank 4", "5"]);
    says(Engine::cpu().alloc(Dtype::F32, usize::MAX), &["too large"]);
}

/// Tensors of another number of tokens are those of another batch, unless a capacity says otherwise.
#[test]
fn tokens_past_the_batch() {
    let (engine, attention) = (Engine::cpu(), attention());
    let stream = engine.stream().expect("a token");
    let batch = Batch::ragged(&[0, 3], &[0, 6]);
    let data = vec![1f32; 256];
    let host = |shape: &[usize]| TensorRef::host(&data, shape).expect("fits");
    let run = |plan: &Plan, tokens: [usize; 5]| {
        let [q, k, v, of_o, of_lse] = tokens;
        let (mut o, mut lse) = (vec![7f32; of_o * 16], vec![7f32; of_lse * 2]);
        let out = Out::with_lse(
            TensorMut::host(&mut o, &[of_o, 2, 8]).expect("fits"),
            TensorMut::host(&mut lse, &[of_lse, 2]).expect("fits"),
        );
        let result = plan.run(&stream, host(&[q, 2, 8]), Kv::ragged(host(&[k, 1, 8]), host(&[v, 1, 8])), out);
        assert!(result.is_ok() || o.iter().chain(&lse).all(|&x| x == 7.0), "nothing is written");
        result.map(|()| (o, lse))
    };
    let (exact, names) = ([3, 6, 6, 3, 3], ["q", "k", "v", "o", "lse"]);
    let plan = attention.plan(&batch, &mut engine.workspace()).expect("sound");
    run(&plan, exact).expect("those of the batch");
    let options = PlanOptions { capacity: Some(BatchCapacity::new(1, 5, 9)), ..Default::default() };
    let within = attention.plan_with(&batch, &mut engine.workspace(), options).expect("sound");
    for (tensor, name) in names.into_iter().enumerate() {
        let with = |tokens: usize| {
            let mut all = exact;
            all[tensor] = tokens;
            all
        };
        for tokens in [exact[tensor] - 1, exact[tensor] + 1, 10] {
            let error = says(run(&plan, with(tokens)), &[&format!("{name} has {tokens} tokens"), "with a capacity"]);
            assert!(matches!(error, Error::Tensor(TensorError::Tokens { .. })), "{error:?}");
        }
        says(run(&within, with(exact[tensor] - 1)), &[name, "at least"]);
        let (o, lse) = run(&within, with(10)).expect("room for other batches");
        assert!(o[48..].iter().chain(&lse[6..]).all(|&x| x == 7.0), "rows past the batch stay");
        assert!(o[..48].iter().all(|&x| (x - 1.0).abs() < 1e-6));
    }
}

/// Callers of other languages pass addresses. The elements of an output are those of no other tensor.
#[test]
fn outputs_that_are_other_tensors() {
    let (engine, attention) = (Engine::cpu(), attention());
    let stream = engine.stream().expect("a token");
    let plan = attention.plan(&Batch::ragged(&[0, 3], &[0, 3]), &mut engine.workspace()).expect("sound");
    let mut memory: Vec<f32> = (0..1024).map(|i| (i as f32).sin()).collect();
    let at = memory.as_mut_ptr().cast::<u8>();
    let rows = |first: usize, heads: usize, token: i64| {
        // SAFETY: within the memory, which outlives the tensors; runs that would write to what they read are refused.
        unsafe { TensorMut::host_raw(at.add(4 * first), Dtype::F32, &[3, heads, 8], &[token, 8, 1]) }.expect("fits")
    };
    let run = |q: TensorMut<'_>, o: TensorMut<'_>| {
        let (k, v) = (rows(800, 1, 8), rows(900, 1, 8));
        plan.run(&stream, q.as_ref(), Kv::ragged(k.as_ref(), v.as_ref()), Out::new(o))
    };
    for (first, other) in [(0, "q"), (47, "q"), (800, "k"), (785, "k"), (900, "v"), (923, "v")] {
        let error = says(run(rows(0, 2, 16), rows(first, 2, 16)), &[&format!("o shares memory with {other}")]);
        assert!(matches!(error, Error::Tensor(TensorError::Shared { .. })), "{error:?}");
    }
    // q and o are the halves of wider rows
    run(rows(0, 2, 32), rows(16, 2, 32)).expect("no element is shared");
    says(run(rows(0, 2, 32), rows(15, 2, 32)), &["o shares memory with q"]);
    run(rows(0, 2, 32), rows(400, 2, 16)).expect("apart");
    for token in 0..3 {
        let [within, apart] = [16 + 32 * token, 400 + 16 * token].map(|first| memory[first..first + 16].to_vec());
        assert_eq!(within, apart);
    }
}

#[test]
fn kernel_errors_list_what_is_supported() {
    use attn_kernels::compile::Arch;
    use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsError, KernelTraitsRequest};
    let choose = |head_dim, dtypes| {
        KernelTraits::choose(&KernelTraitsRequest::new(KernelKind::Prefill, head_dim, dtypes, Arch::new(8, 0)))
    };
    for head_dim in [0, 63, 516, 528] {
        let error = choose(head_dim, Dtypes::f16()).expect_err("no kernel");
        assert!(
            matches!(error, KernelTraitsError::HeadDim { .. })
                && error.to_string().contains("multiples of 8 up to 512"),
            "{error}"
        );
    }
    for dtypes in [Dtypes::new(Dtype::F32, Dtype::F16), Dtypes::new(Dtype::F16, Dtype::Bf16)] {
        let error = choose(64, dtypes).expect_err("no kernel");
        assert!(
            matches!(error, KernelTraitsError::Dtypes { .. }) && error.to_string().contains("f16, bf16 and f32"),
            "{error}"
        );
    }
}
