//! A request in a batch has the results that it has alone.

use attn::{Error, Variant};
use attn_core::batch::Batch;
use attn_core::expr::Node;
use attn_core::lang::{Dims, FieldType, Hook, KvIndex, LogitIndex, ParamValue, RowIndex, RowState};

use super::{HEADS, Sample, samples, violated};
use crate::TestError;

/// The query heads that are looked at: of both KV heads.
const QO_HEADS: [usize; 3] = [0, 3, 6];

/// Compares what every hook gives for a request of a batch of several with what it gives for that request alone, whose
/// tensors over tokens and requests are its part of the batch's. The bits must be the same. Hooks on logits count where
/// the mask attends, and those on keys and values for keys that a query of the request attends to: what they give
/// elsewhere changes nothing.
///
/// A variant that means the place of a request in its batch, or all packed tokens, says so ([`batch_wide`]). Not
/// compared are variants that draw random numbers, which may differ between requests by design; variants with
/// tensors whose shape is made of the batch in another way, such as `batch + 1`; and those with `remap`.
///
/// # Errors
///
/// The first hook and place that differ.
pub fn requests(variant: &Variant) -> Result<(), TestError> {
    if !can_be_cut(variant) {
        return Ok(());
    }
    for sample in samples(variant, 12) {
        let sample = sample?;
        for request in 0..sample.layout.batch() {
            if let Some(alone) = cut(&sample, request)? {
                same(&sample, request, &alone)?;
            }
        }
    }
    Ok(())
}

/// The test of a variant that says that it is `#[batch_wide]`: it means `at.batch`, or packed tokens, so that a request
/// may have other results in another batch. That must be so, or [`requests`] is its test.
///
/// # Errors
///
/// Every request has the results that it has alone.
pub fn batch_wide(variant: &Variant) -> Result<(), TestError> {
    match requests(variant) {
        Err(TestError::Broken { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => {
            let why = "every request has what it has alone, as far as it is compared; leave `#[batch_wide]` out";
            Err(violated("the variant does not depend on the batch", why))
        }
    }
}

fn can_be_cut(variant: &Variant) -> bool {
    let remaps = variant.nodes().iter().any(|node| matches!(node, Node::Remap { .. }));
    let draws = |cuda: &str| cuda.contains("random::");
    !remaps
        && variant.parts().all(|part| {
            let desc = part.desc();
            let draws = desc.hooks.iter().any(|hook| draws(hook.cuda)) || desc.device_fns.iter().any(|f| draws(f.cuda));
            !draws && !desc.fields.iter().any(|field| field.computes_extent_of(&Dims::OF_BATCH))
        })
}

/// A request alone, and the variant with its part of the tensors. `None` without queries or keys, and where a condition
/// on a tensor does not hold for the part.
fn cut(sample: &Sample, request: usize) -> Result<Option<Sample>, TestError> {
    let (layout, variant) = (&sample.layout, &sample.variant);
    let (qo_len, kv_len) = (layout.qo_len(request), layout.kv_len(request));
    if layout.batch() < 2 || qo_len == 0 || kv_len == 0 {
        return Ok(None);
    }
    let (qo, kv) = (layout.qo_indptr(), layout.kv_indptr());
    let range = |indptr: &[i32]| indptr[request] as usize..indptr[request + 1] as usize;
    let mut alone = variant.clone();
    for (number, part) in variant.parts().enumerate() {
        for field in part.desc().fields {
            let FieldType::Tensor { .. } = field.ty else { continue };
            let of = part.to_values();
            let Some(value) = of.get(field.name) else { continue };
            let ranges = field.extents().map(|extent| match extent {
                "batch" => Some(request..request + 1),
                "qo_tokens" => Some(range(qo)),
                "kv_tokens" => Some(range(kv)),
                _ => None,
            });
            let value = part_of(value, &ranges.collect::<Vec<_>>());
            if alone.set_in(number, field.name, value).is_err() {
                return Ok(None);
            }
        }
    }
    let layout = Batch::ragged(&[0, qo_len as i32], &[0, kv_len as i32]).validate()?;
    let dims: Dims = layout.dims(HEADS);
    let bound = alone.bind(&dims).map_err(Error::from).ok();
    Ok(bound.map(|variant| Sample { variant, layout, random: sample.random.clone() }))
}

/// The part of nested lists in a range of each axis.
fn part_of(value: &ParamValue, ranges: &[Option<std::ops::Range<usize>>]) -> ParamValue {
    let (ParamValue::List(items), [range, inner @ ..]) = (value, ranges) else { return value.clone() };
    let range = range.clone().unwrap_or(0..items.len());
    ParamValue::List(items[range].iter().map(|item| part_of(item, inner)).collect())
}

/// The keys to which a query row attends, as runs in which one call of a hook may cover: where each begins, its length,
/// and its index of a key list.
fn attended(sample: &Sample, request: usize, row: RowIndex) -> Vec<(usize, usize, i32)> {
    let (variant, kv_len) = (&sample.variant, sample.layout.kv_len(request));
    let whole = match variant.kv_list_sizes() {
        None => vec![(0, kv_len, 0)],
        Some((size, _)) => (0..variant.kv_list_len(row))
            .filter_map(|n| Some((usize::try_from(variant.kv_list_block(row, n)).ok()? * size as usize, n)))
            .map(|(begin, n)| (begin, (begin + size as usize).min(kv_len), n))
            .collect(),
    };
    let mut runs = Vec::new();
    for (begin, end, kv_slot) in whole.into_iter().filter(|(begin, end, _)| begin < end) {
        let mut keep = vec![true; end - begin];
        variant.mask_tile(&mut keep, logit_index(sample, request, row, (begin, kv_slot)));
        let mut at = 0;
        for run in keep.chunk_by(|a, b| a == b) {
            if run[0] {
                runs.push((begin + at, run.len(), kv_slot));
            }
            at += run.len();
        }
    }
    runs
}

fn logit_index(sample: &Sample, request: usize, row: RowIndex, (key, kv_slot): (usize, i32)) -> LogitIndex {
    let kv_token = sample.layout.kv_indptr()[request] + key as i32;
    LogitIndex { row, kv_pos: key as i32, kv_token, kv_slot }
}

fn same(batch: &Sample, request: usize, alone: &Sample) -> Result<(), TestError> {
    let compare = |what: &str, [a, b]: [Vec<u32>; 2]| match a.iter().zip(&b).position(|(a, b)| a != b) {
        None if a.len() == b.len() => Ok(()),
        at => {
            let at = at.unwrap_or(a.len().min(b.len()));
            let read = |bits: &[u32]| bits.get(at).map_or(f32::NAN, |bits| f32::from_bits(*bits));
            let (requests, a, b) = (batch.layout.batch(), read(&a), read(&b));
            let why = format!("{what}, element {at}: {a:e} as request {request} of {requests}, {b:e} alone");
            Err(violated("a request has another result in a batch than alone", why))
        }
    };
    let (qo_len, kv_len) = (batch.layout.qo_len(request), batch.layout.kv_len(request));
    let mut random = batch.random.clone();
    let mut values = |len: usize| (0..len).map(|_| random.normal()).collect::<Vec<f32>>();
    let (logits, row) = (values(kv_len), values(HEADS.head_dim as usize));
    let of = [(batch, request), (alone, 0)];

    let mut is_read = vec![[false; HEADS.kv as usize]; kv_len];
    for qo_row in 0..qo_len {
        for qo_head in 0..HEADS.qo as usize {
            let at = |(sample, request): (&Sample, usize)| sample.layout.row(HEADS, request, qo_row, qo_head);
            let runs = attended(batch, request, at(of[0]));
            let kv_head = qo_head / HEADS.group() as usize;
            runs.iter()
                .for_each(|&(key, len, _)| is_read[key..key + len].iter_mut().for_each(|read| read[kv_head] = true));
            if !QO_HEADS.contains(&qo_head) {
                continue;
            }
            let here = |what: &str| format!("{what} of query {qo_row}, head {qo_head}");
            compare(&here("`logits_mask`"), of.map(|of| keys_of(&attended(of.0, of.1, at(of)), kv_len)))?;
            for (hook, results) in of_query(of, qo_row, qo_head, &runs, &logits, &row) {
                compare(&here(&format!("`{}`", hook.method())), results)?;
            }
        }
    }
    for (key, is_read) in is_read.iter().enumerate() {
        for kv_head in (0..HEADS.kv as usize).filter(|&kv_head| is_read[kv_head]) {
            for hook in [Hook::KeyTransform, Hook::ValueTransform] {
                if !batch.variant.has(hook) {
                    continue;
                }
                let results = of.map(|(sample, request)| {
                    let mut row = row.clone();
                    let at = KvIndex {
                        batch: request as i32,
                        kv_pos: key as i32,
                        kv_token: sample.layout.kv_indptr()[request] + key as i32,
                        kv_head: kv_head as i32,
                        kv_len: kv_len as i32,
                    };
                    match hook {
                        Hook::KeyTransform => sample.variant.key_row(&mut row, at),
                        _ => sample.variant.value_row(&mut row, at),
                    }
                    bits(&row)
                });
                compare(&format!("`{}` of key {key}, head {kv_head}", hook.method()), results)?;
            }
        }
    }
    Ok(())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// For each key whether it is in one of the runs, as numbers.
fn keys_of(runs: &[(usize, usize, i32)], kv_len: usize) -> Vec<u32> {
    let mut keys = vec![0f32.to_bits(); kv_len];
    runs.iter().for_each(|&(key, len, _)| keys[key..key + len].fill(1f32.to_bits()));
    keys
}

/// What the hooks of a query row give, in the batch and alone. `runs`: the keys that it attends to.
fn of_query(
    of: [(&Sample, usize); 2],
    qo_row: usize,
    qo_head: usize,
    runs: &[(usize, usize, i32)],
    logits: &[f32],
    row: &[f32],
) -> Vec<(Hook, [Vec<u32>; 2])> {
    let variant = &of[0].0.variant;
    let index = |(sample, request): (&Sample, usize)| sample.layout.row(HEADS, request, qo_row, qo_head);
    let give = |hook: Hook, give: &dyn Fn(&Variant, RowIndex) -> Vec<u32>| {
        let needed = variant.has(hook) || hook == Hook::KvListLen && variant.has_kv_list();
        needed.then(|| (hook, of.map(|of| give(&of.0.variant, index(of)))))
    };
    let on_row = |change: &dyn Fn(&mut [f32])| {
        let mut row = row.to_vec();
        change(&mut row);
        bits(&row)
    };
    // run by run; the second logits are those before `change`
    type Change<'a> = &'a dyn Fn(&Variant, &mut [f32], &[f32], LogitIndex);
    let give_keys = |hook: Hook, change: Change<'_>| {
        let of_runs = |(sample, request): (&Sample, usize)| {
            let of_run = |&(key, len, kv_slot): &(usize, usize, i32)| {
                let mut out = logits[key..key + len].to_vec();
                let at = logit_index(sample, request, index((sample, request)), (key, kv_slot));
                change(&sample.variant, &mut out, &logits[key..key + len], at);
                bits(&out)
            };
            runs.iter().flat_map(of_run).collect::<Vec<_>>()
        };
        variant.has(hook).then(|| (hook, of.map(of_runs)))
    };
    let state = RowState { row_max: 1.5, denominator: 3.0, lse: 2.5 };
    let results = [
        // a query without keys has no logit
        give(Hook::QueryTransform, &|v, at| on_row(&|q| v.query_row(q, at))).filter(|_| !runs.is_empty()),
        give_keys(Hook::LogitsTransform, &|v, out, _, at| v.logits_tile(out, at)),
        give_keys(Hook::Weight, &|v, out, _, at| v.weight_tile(out, 0.0, at)),
        give_keys(Hook::Denominator, &|v, out, logits, at| v.denominator_tile(out, logits, 0.0, at)),
        give(Hook::SinkLogit, &|v, at| bits(&[v.sink_logit(at)])),
        give(Hook::OutputTransform, &|v, at| on_row(&|o| v.output_row(o, state, at))),
        give(Hook::KvListLen, &|v, at| {
            let blocks = (0..v.kv_list_len(at)).map(|n| v.kv_list_block(at, n));
            blocks.map(|block| (block as f32).to_bits()).collect()
        }),
    ];
    results.into_iter().flatten().collect()
}
