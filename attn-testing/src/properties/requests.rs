//! A request in a batch has the results that it has alone.

use attn::batch::Batch;
use attn::expr::Node;
use attn::lang::{Dims, FieldType, Hook, KvIndex, LogitIndex, ParamValue, RowIndex, RowState};
use attn::{Error, Variant};

use super::{HEADS, Sample, samples, violated};
use crate::TestError;

/// The query heads that are looked at: of both KV heads.
const QO_HEADS: [usize; 3] = [0, 3, 6];

/// Compares what every hook gives for a request of a batch of several with what it gives for that request alone, whose
/// tensors over tokens and requests are its part of the batch's. The bits must be the same.
///
/// Not compared are variants that draw random numbers, which may differ between requests by design; variants with
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

fn same(batch: &Sample, request: usize, alone: &Sample) -> Result<(), TestError> {
    let compare = |what: &str, [a, b]: [Vec<u32>; 2]| match a.iter().zip(&b).position(|(a, b)| a != b) {
        None if a.len() == b.len() => Ok(()),
        at => {
            let at = at.unwrap_or(0);
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

    for qo_row in 0..qo_len {
        for qo_head in QO_HEADS {
            for (hook, results) in of_query(of, qo_row, qo_head, &logits, &row) {
                compare(&format!("`{}` of query {qo_row}, head {qo_head}", hook.method()), results)?;
            }
        }
    }
    for key in 0..kv_len {
        for kv_head in 0..HEADS.kv as usize {
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

/// What the hooks of a query row give, in the batch and alone.
fn of_query(
    of: [(&Sample, usize); 2],
    qo_row: usize,
    qo_head: usize,
    logits: &[f32],
    row: &[f32],
) -> Vec<(Hook, [Vec<u32>; 2])> {
    let variant = &of[0].0.variant;
    let at = |(sample, request): (&Sample, usize)| -> LogitIndex {
        let row: RowIndex = sample.layout.row(HEADS, request, qo_row, qo_head);
        LogitIndex { row, kv_pos: 0, kv_token: sample.layout.kv_indptr()[request], kv_slot: 0 }
    };
    let give = |hook: Hook, give: &dyn Fn(&Variant, LogitIndex) -> Vec<u32>| {
        let needed = variant.has(hook) || hook == Hook::KvListLen && variant.has_kv_list();
        needed.then(|| (hook, of.map(|of| give(&of.0.variant, at(of)))))
    };
    let state = RowState { row_max: 1.5, denominator: 3.0, lse: 2.5 };
    let on_row = |change: &dyn Fn(&mut [f32])| {
        let mut row = row.to_vec();
        change(&mut row);
        bits(&row)
    };
    let on_logits = |change: &dyn Fn(&mut [f32])| {
        let mut logits = logits.to_vec();
        change(&mut logits);
        bits(&logits)
    };
    let results = [
        give(Hook::QueryTransform, &|v, at| on_row(&|q| v.query_row(q, at.row))),
        give(Hook::LogitsMask, &|v, at| {
            let mut keep = vec![true; logits.len()];
            v.mask_tile(&mut keep, at);
            keep.into_iter().map(|keep| f32::from(u8::from(keep)).to_bits()).collect()
        }),
        give(Hook::LogitsTransform, &|v, at| on_logits(&|logits| v.logits_tile(logits, at))),
        give(Hook::Weight, &|v, at| on_logits(&|logits| v.weight_tile(logits, 0.0, at))),
        give(Hook::Denominator, &|v, at| {
            let mut out = logits.to_vec();
            v.denominator_tile(&mut out, logits, 0.0, at);
            bits(&out)
        }),
        give(Hook::SinkLogit, &|v, at| bits(&[v.sink_logit(at.row)])),
        give(Hook::OutputTransform, &|v, at| on_row(&|o| v.output_row(o, state, at.row))),
        give(Hook::KvListLen, &|v, at| {
            let blocks = (0..v.kv_list_len(at.row)).map(|n| v.kv_list_block(at.row, n));
            blocks.map(|block| (block as f32).to_bits()).collect()
        }),
    ];
    results.into_iter().flatten().collect()
}
