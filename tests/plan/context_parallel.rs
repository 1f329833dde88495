//! Context parallelism: ranks over their own keys or queries together give one run's outputs, which one engine
//! computes. Ranks are threads.

use std::thread;
use std::time::{Duration, Instant};

use attn::parallel::{
    Communicator, DecodeContextParallel, HeadParallel, InterleavedShard, ParallelError, PrefillContextParallel,
    ZigzagShard,
};
use attn::prelude::*;
use attn::{DeviceBuffer, Error, Out};
use attn_tests::setup::Written;
use attn_tests::synthetic::values;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
const ROW: usize = 2 * 8;
/// Queries and keys of the requests of a decoding batch.
const QO: [i32; 3] = [0, 3, 8];
const KEYS: [usize; 2] = [70, 9];
const ROWS: usize = 8 * 4;

/// Outputs that are not divided: they have no log-sum-exps.
const UNDIVIDED: &str = "causal + sigmoid";

/// Masks, scores and transforms of positions, sinks, and other normalisers.
const VARIANTS: [&str; 6] = [
    "causal",
    "causal + sliding_window(window=20)",
    "causal + alibi + sink(logits=[0.5, -1, 2, 30])",
    "causal + rope + soft_cap(cap=3)",
    "causal + softmax_n(n=2)",
    "full",
];

fn attention(engine: &Engine, variant: &str) -> Result<Attention, Error> {
    engine.attention(&Variant::parse(variant)?, HEADS, Dtypes::f32())
}

/// Runs each rank in a thread of its own, and returns their results in order.
fn on_threads<T: Send>(ranks: Vec<Communicator>, run: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(&rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn group(ranks: usize) -> Vec<Communicator> {
    Communicator::threads(ranks, Duration::from_secs(60))
}

/// Memory for the outputs of rows, poisoned.
struct Outputs {
    o: DeviceBuffer,
    lse: DeviceBuffer,
    tokens: usize,
    heads: usize,
}

impl Outputs {
    fn new(engine: &Engine, tokens: usize, heads: usize) -> Result<Self, Error> {
        let rows = tokens * heads;
        let (o, lse) = (engine.upload(&vec![f32::NAN; rows * 8])?, engine.upload(&vec![f32::NAN; rows])?);
        Ok(Outputs { o, lse, tokens, heads })
    }

    fn out(&mut self) -> Result<Out<'_>, Error> {
        let (tokens, heads) = (self.tokens, self.heads);
        Ok(Out::with_lse(self.o.tensor_mut(&[tokens, heads, 8])?, self.lse.tensor_mut(&[tokens, heads])?))
    }

    fn read(&self, engine: &Engine) -> Result<Written, Error> {
        Ok(Written { o: engine.download(&self.o)?, lse: engine.download(&self.lse)? })
    }
}

/// One run of ragged requests, whose keys and values are given.
fn whole(variant: &str, qo: &[i32], lens: &[usize], q: &[f32], k: &[f32], v: &[f32]) -> Result<Written, Error> {
    let engine = Engine::cpu();
    let mut indptr = vec![0];
    indptr.extend(lens.iter().scan(0, |end, len| {
        *end += *len as i32;
        Some(*end)
    }));
    let (tokens, keys) = (q.len() / 32, k.len() / ROW);
    let plan = attention(&engine, variant)?.plan(&Batch::ragged(qo, &indptr), &mut engine.workspace())?;
    let [q, k, v] = [q, k, v].map(|rows| engine.upload(rows));
    let (q, k, v, mut out) = (q?, k?, v?, Outputs::new(&engine, tokens, 4)?);
    let kv = Kv::ragged(k.tensor(&[keys, 2, 8])?, v.tensor(&[keys, 2, 8])?);
    plan.run(&engine.stream()?, q.tensor(&[tokens, 4, 8])?, kv, out.out()?)?;
    out.read(&engine)
}

/// What a rank computes of the decoding batch over its keys.
fn decode(
    engine: &Engine,
    rank: &Communicator,
    interleave: usize,
    scatter_heads: bool,
    variant: &str,
    [q, k, v]: [&[f32]; 3],
) -> Result<Written, Error> {
    let shard = InterleavedShard { ranks: rank.ranks(), rank: rank.rank(), interleave };
    let (mut indptr, mut own) = (vec![0], [Vec::new(), Vec::new()]);
    for (request, &keys) in KEYS.iter().enumerate() {
        let first: usize = KEYS[..request].iter().sum();
        for key in (0..shard.kv_len(keys)).map(|of| first + shard.position(of)) {
            own.iter_mut().zip([k, v]).for_each(|(own, all)| own.extend_from_slice(&all[key * ROW..][..ROW]));
        }
        indptr.push((own[0].len() / ROW) as i32);
    }
    let positions = QO.windows(2).zip(KEYS).flat_map(|(ends, keys)| keys - (ends[1] - ends[0]) as usize..keys);
    let positions: Vec<_> = positions.map(|position| position.to_string()).collect();
    let (ranks, number, of_query) = (rank.ranks(), rank.rank(), positions.join(", "));
    let map = format!("ranks={ranks}, rank={number}, interleave={interleave}, of_query=[{of_query}]");
    let remapped = format!("remap(interleaved_positions({map}), {variant})");
    let attention = attention(engine, &remapped)?;
    let plan = attention.plan(&Batch::ragged(&QO, &indptr), &mut engine.workspace())?;
    let mut parallel = DecodeContextParallel::new(engine, &attention, rank, 10, scatter_heads)?;
    let (stream, keys) = (engine.stream()?, own[0].len() / ROW);
    // memory of at least one key, of which an empty shard reads nothing
    own.iter_mut().for_each(|rows| rows.resize(rows.len().max(ROW), f32::NAN));
    let (q, k, v) = (engine.upload(q)?, engine.upload(&own[0])?, engine.upload(&own[1])?);
    let mut out = Outputs::new(engine, 8, if scatter_heads { 4 / ranks } else { 4 })?;
    let kv = Kv::ragged(k.tensor(&[keys, 2, 8])?, v.tensor(&[keys, 2, 8])?);
    let Out { o, lse, .. } = out.out()?;
    let to = if variant == UNDIVIDED { Out::new(o) } else { Out { lse, ..Out::new(o) } };
    parallel.run(rank, &plan, &stream, q.tensor(&[8, 4, 8])?, kv, to, None)?;
    rank.wait(&stream)?;
    let mut written = out.read(engine)?;
    if variant == UNDIVIDED {
        written.lse.fill(0.0);
    }
    Ok(written)
}

/// The largest difference, relative above 1.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let one = |(a, b): (&f32, &f32)| if a == b { 0.0 } else { (a - b).abs() / (1.0 + b.abs()) };
    // NaN is as far apart as can be
    a.iter().zip(b).map(one).fold(0.0, |most, one| if one <= most { most } else { one })
}

fn check(got: &Written, want: &Written, of: &str) {
    let apart = [apart(&got.o, &want.o), apart(&got.lse, &want.lse)];
    assert!(apart[0] < 1e-4 && apart[1] < 1e-4, "{of}: {apart:?}");
}

#[test]
fn decoding_over_interleaved_keys_is_one_run() {
    let keys = KEYS[0] + KEYS[1];
    let (q, k, v) = (values(ROWS * 8, 1), values(keys * ROW, 2), values(keys * ROW, 3));
    for variant in VARIANTS.into_iter().chain([UNDIVIDED]) {
        let mut whole = whole(variant, &QO, &KEYS, &q, &k, &v).expect("runs");
        if variant == UNDIVIDED {
            whole.lse.fill(0.0);
        }
        // more ranks than keys of a request: some have none
        for (ranks, interleave) in [(1, 1), (2, 1), (3, 4), (4, 2), (8, 1), (8, 16)] {
            let of = format!("{variant}, {ranks} ranks of {interleave}");
            let run = |rank: &Communicator, scatter_heads| {
                decode(&Engine::cpu(), rank, interleave, scatter_heads, variant, [&q, &k, &v]).expect("runs")
            };
            let results = on_threads(group(ranks), |rank| run(rank, false));
            results.iter().for_each(|got| check(got, &whole, &of));
            assert!(results.iter().all(|got| got.bits() == results[0].bits()), "all ranks have the same bits");
            if 4 % ranks != 0 {
                continue;
            }
            // heads of the ranks beside each other, with the bits of before
            let parts = on_threads(group(ranks), |rank| run(rank, true));
            let rows = |part: fn(&Written) -> &[f32], of_head: usize| {
                let tokens = (0..8).flat_map(|token| parts.iter().map(move |of| (token, part(of))));
                let heads = 4 / ranks * of_head;
                tokens.flat_map(|(token, of)| of[token * heads..][..heads].iter().copied()).collect::<Vec<f32>>()
            };
            let (o, lse) = (rows(|of| &of.o, 8), rows(|of| &of.lse, 1));
            assert_eq!(Written { o, lse }.bits(), results[0].bits(), "{of}");
        }
    }
}

/// What a rank computes of prompts, of which it has the tokens of its shard.
fn prefill(
    engine: &Engine,
    rank: &Communicator,
    variant: &str,
    lens: &[usize],
    [q, k, v]: [&[f32]; 3],
) -> Result<Written, Error> {
    let attention = attention(engine, variant)?;
    let mut parallel = PrefillContextParallel::new(engine, &attention, rank, lens)?;
    let own = tokens_of(PrefillContextParallel::shard(rank), lens);
    let of = |all: &[f32], row: usize| {
        let rows: Vec<f32> = own.iter().flat_map(|&token| all[token * row..][..row].iter().copied()).collect();
        engine.upload(&rows)
    };
    let (q, k, v) = (of(q, 32)?, of(k, ROW)?, of(v, ROW)?);
    let (stream, mut out, tokens) = (engine.stream()?, Outputs::new(engine, own.len(), 4)?, own.len());
    let (k, v) = (k.tensor(&[tokens, 2, 8])?, v.tensor(&[tokens, 2, 8])?);
    parallel.run(rank, &stream, q.tensor(&[tokens, 4, 8])?, k, v, out.out()?, None)?;
    rank.wait(&stream)?;
    out.read(engine)
}

/// The tokens of a rank in the order of its tensors.
fn tokens_of(shard: ZigzagShard, lens: &[usize]) -> Vec<usize> {
    let firsts = lens.iter().scan(0, |end, len| {
        *end += len;
        Some(*end - len)
    });
    firsts
        .zip(lens)
        .flat_map(|(first, &len)| shard.chunks(len).into_iter().flatten().map(move |of| first + of))
        .collect()
}

#[test]
fn prefill_over_chunks_of_all_ranks_is_one_run() {
    // prompts shorter than a page, none at all, and one that ends within a page
    let lens = [700, 0, 90, 1];
    let tokens = lens.iter().sum::<usize>();
    let (q, k, v) = (values(tokens * 32, 1), values(tokens * ROW, 2), values(tokens * ROW, 3));
    let qo = [0, 700, 700, 790, 791];
    for variant in VARIANTS.into_iter().filter(|variant| *variant != "full") {
        let whole = whole(variant, &qo, &lens, &q, &k, &v).expect("runs");
        for ranks in [1, 2, 3, 8] {
            let run = |rank: &Communicator| prefill(&Engine::cpu(), rank, variant, &lens, [&q, &k, &v]).expect("runs");
            for (rank, got) in on_threads(group(ranks), run).into_iter().enumerate() {
                let own = tokens_of(ZigzagShard { ranks, rank, page: 128 }, &lens);
                let rows = |all: &[f32], row: usize| {
                    own.iter().flat_map(|&token| all[token * row..][..row].iter().copied()).collect::<Vec<_>>()
                };
                let want = Written { o: rows(&whole.o, 32), lse: rows(&whole.lse, 4) };
                check(&got, &want, &format!("{variant}, rank {rank} of {ranks}"));
            }
        }
    }
}

#[test]
fn heads_shared_out_are_one_run() {
    let lens = [40, 0, 21];
    let tokens = 61;
    let (q, k, v) = (values(tokens * 32, 1), values(tokens * ROW, 2), values(tokens * ROW, 3));
    let qo = [0, 40, 40, 61];
    // masks of later keys, outputs that are not divided, and those that a transform changes
    for variant in ["causal", "bidirectional_window(left=9, right=4)", "sigmoid", "causal + output_norm"] {
        let whole = whole(variant, &qo, &lens, &q, &k, &v).expect("runs");
        // four ranks share two KV heads
        for ranks in [1, 2, 4] {
            let run = |rank: &Communicator| -> Result<Vec<f32>, Error> {
                let engine = Engine::cpu();
                let share = HeadParallel::share(rank, HEADS)?;
                assert_eq!((share.qo, share.kv), (4 / ranks as u32, if ranks == 1 { 2 } else { 1 }));
                let attention = engine.attention(&Variant::parse(variant)?, share, Dtypes::f32())?;
                let plan = attention.plan(&Batch::ragged(&qo, &qo), &mut engine.workspace())?;
                let mut parallel = HeadParallel::new(&engine, &attention, rank, HEADS, tokens)?;
                let own = parallel.tokens(rank);
                let part = |all: &[f32], row: usize| engine.upload(&all[own.start * row..own.end * row]);
                let (q, k, v) = (part(&q, 32)?, part(&k, ROW)?, part(&v, ROW)?);
                let (stream, mut o) = (engine.stream()?, engine.upload(&vec![f32::NAN; own.len() * 32])?);
                let rows = own.len();
                let (k, v) = (k.tensor(&[rows, 2, 8])?, v.tensor(&[rows, 2, 8])?);
                let out = Out::new(o.tensor_mut(&[rows, 4, 8])?);
                parallel.run(rank, &plan, &stream, q.tensor(&[rows, 4, 8])?, k, v, out, None)?;
                rank.wait(&stream)?;
                engine.download(&o)
            };
            let o = on_threads(group(ranks), |rank| run(rank).expect("runs")).concat();
            let apart = apart(&o, &whole.o);
            assert!(apart < 1e-5, "{variant}, {ranks} ranks: {apart}");
        }
    }
    let error = HeadParallel::share(&group(3)[0], HEADS).expect_err("refused").to_string();
    assert!(error.contains("4 heads do not divide among 3 ranks"), "{error}");
}

#[test]
fn what_ranks_cannot_do_is_refused_by_name() {
    let engine = Engine::cpu();
    let rank = &group(3)[0];
    let decode = |variant: &str, scatter_heads| {
        let attention = attention(&engine, variant).expect("binds");
        DecodeContextParallel::new(&engine, &attention, rank, 4, scatter_heads).expect_err("refused").to_string()
    };
    assert!(decode("causal + output_norm", false).contains("`output_transform`"));
    assert!(decode("causal + sigmoid", false).contains("`qo_pos` that `causal` reads"));
    assert!(decode("full", true).contains("4 heads do not divide among 3 ranks"));
    let of_keys = "`qo_pos` that `alibi` reads in `logits_transform` is counted over the keys of a rank";
    assert!(decode("alibi", false).contains(of_keys), "{}", decode("alibi", false));
    let map = "remap(interleaved_positions(ranks=3, rank=0, of_query=[1]), causal)";
    assert!(decode(&format!("{map} + rope"), false).contains("that `rope` reads in `query_transform`"));
    let tree = map.replace("causal", "tree(width=1, ancestors=[[true]])");
    assert!(decode(&tree, false).contains("`kv_len` that `tree` reads in `logits_mask`"));
    assert!(decode("remap(cache_positions(sink=1, window=9), causal)", false).contains("`kv_len`"));
    let dtypes = Dtypes::f32().with_output(Dtype::E4m3);
    let stored = engine.attention(&Variant::parse("full").expect("parses"), HEADS, dtypes).expect("binds");
    let error = DecodeContextParallel::new(&engine, &stored, rank, 4, false).expect_err("refused").to_string();
    assert!(error.contains("outputs of 8 bits"), "{error}");
    let attention = attention(&engine, "full").expect("binds");
    let error = PrefillContextParallel::new(&engine, &attention, rank, &[900]).expect_err("refused");
    assert!(error.to_string().contains("queries see later keys"), "{error}");
    for (variant, what) in [
        (
            "causal + custom_mask(size=1, bits=[true], offset=[0, 0])",
            "`batch` that `custom_mask` reads in `logits_mask`",
        ),
        ("causal + relu(mean=true)", "`kv_len` that `relu` reads in `weight` is that of a chunk of a prompt"),
        ("causal + dropout(rate=0.1, seed=3)", "`batch` that `dropout` reads"),
        ("causal + tree(width=1, ancestors=[[true]])", "`qo_len` that `tree` reads"),
    ] {
        let attention = self::attention(&engine, variant).expect("binds");
        let error = PrefillContextParallel::new(&engine, &attention, rank, &[90, 128]).expect_err("refused");
        assert!(error.to_string().contains(what), "{error}");
    }
    let variant = Variant::parse("dropout(rate=0.1, seed=3)").expect("parses");
    let rank = &group(2)[0];
    let share = HeadParallel::share(rank, HEADS).expect("divides");
    let attention = engine.attention(&variant, share, Dtypes::f32()).expect("binds");
    let error = HeadParallel::new(&engine, &attention, rank, HEADS, 9).expect_err("refused").to_string();
    assert!(error.contains("`qo_head` that `dropout` reads in `weight` is counted from 0 on each rank"), "{error}");
}

/// Outputs that are not divided have no log-sum-exps over several ranks.
#[test]
fn sums_have_no_log_sum_exps() {
    let rank = &group(1)[0];
    let engine = Engine::cpu();
    let attention = attention(&engine, "sigmoid").expect("binds");
    let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 1]), &mut engine.workspace()).expect("sound");
    let mut parallel = DecodeContextParallel::new(&engine, &attention, rank, 1, false).expect("memory");
    let (stream, rows) = (engine.stream().expect("a token"), engine.upload(&[0f32; 32]).expect("memory"));
    let kv = Kv::ragged(rows.tensor(&[1, 2, 8]).expect("fits"), rows.tensor(&[1, 2, 8]).expect("fits"));
    let mut out = Outputs::new(&engine, 1, 4).expect("memory");
    let (q, out) = (rows.tensor(&[1, 4, 8]).expect("fits"), out.out().expect("fits"));
    let error = parallel.run(rank, &plan, &stream, q, kv, out, None).expect_err("refused").to_string();
    assert!(error.contains("log-sum-exps of outputs that are not divided"), "{error}");
}

/// A rank whose own run fails: the others are told, long before the limit.
#[test]
fn a_rank_that_fails_is_an_error_of_the_others() {
    let (start, keys) = (Instant::now(), KEYS[0] + KEYS[1]);
    let (q, k, v) = (values(ROWS * 8, 1), values(keys * ROW, 2), values(keys * ROW, 3));
    let errors = on_threads(group(3), |rank| {
        let engine = Engine::cpu();
        if rank.rank() == 1 {
            let attention = attention(&engine, "full").expect("binds");
            let plan = attention.plan(&Batch::ragged(&[0, 9], &[0, 9]), &mut engine.workspace()).expect("sound");
            let mut parallel = DecodeContextParallel::new(&engine, &attention, rank, 8, false).expect("memory");
            let (stream, rows) = (engine.stream().expect("a token"), engine.upload(&[0f32; 9 * 32]).expect("memory"));
            let kv = rows.tensor(&[9, 2, 8]).expect("fits");
            let mut out = Outputs::new(&engine, 9, 4).expect("memory");
            let q = rows.tensor(&[9, 4, 8]).expect("fits");
            let out = out.out().expect("fits");
            let error = parallel.run(rank, &plan, &stream, q, Kv::ragged(kv, kv), out, None).expect_err("9 tokens");
            // the others come meanwhile
            thread::sleep(Duration::from_millis(50));
            return error;
        }
        decode(&engine, rank, 1, false, "causal", [&q, &k, &v]).expect_err("a rank fails")
    });
    assert!(matches!(errors[1], Error::Parallel(ParallelError::Tokens { tokens: 9, most: 8 })), "{:?}", errors[1]);
    for error in [&errors[0], &errors[2]] {
        let text = error.to_string();
        assert!(text.contains("rank 1 aborted the group: 9 query tokens"), "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(30), "nothing waits for the limit");
}
