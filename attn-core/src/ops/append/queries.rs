//! The queries of new keys, which an append transforms beside them.

use super::{Append, Transform, append, check_scale, scales_of_heads};
use crate::dtype::Dtype;
use crate::lang::{Hook, RowIndex};
use crate::ops::{KvMut, KvRef, OpError, check, elements};
use crate::tensor::TensorRef;

/// The names of the tensors, for errors.
const FROM: [&str; 2] = ["q", "q rest"];
/// The names of the outputs.
pub const TO: [&str; 2] = ["q out", "q out rest"];

/// Checks everything except the entries of arrays. Without `q` the rows of `q_out` are transformed in place.
///
/// # Errors
///
/// The errors of [`check()`](super::check()), queries that do not fit the keys or the transform, a transform of queries
/// that reads coordinates which an append does not know.
pub fn check_queries(
    q: Option<&KvRef<'_>>,
    q_out: &KvMut<'_>,
    kv: &KvRef<'_>,
    pools: &KvMut<'_>,
    append: &Append<'_>,
    transform: &Transform,
) -> Result<(), OpError> {
    super::check(kv, pools, append, Some(transform))?;
    let from = check::Side { name: "the queries", k: FROM[0], v: FROM[1], paged: false };
    let to = check::Side { name: "the output", k: TO[0], v: TO[1], paged: false };
    let out = q_out.as_ref();
    let source = q.copied().unwrap_or(out);
    check::both_sides(from, &source, to, q_out, None)?;
    let heads = transform.heads();
    let keys = kv.parts().next().map_or((0, Dtype::U8), |keys| (keys.shape()[0], keys.dtype()));
    for (name, rows) in FROM.into_iter().zip(source.parts()) {
        check::extent(name, &rows, 0, "tokens", keys.0)?;
        check::extent(name, &rows, 1, "heads", heads.qo as usize)?;
        check::dtype(name, rows.dtype(), &[Dtype::F16, Dtype::Bf16, Dtype::F32])?;
        check::dtype(name, rows.dtype(), &[keys.1])?;
    }
    for (name, rows) in TO.into_iter().zip(out.parts()) {
        check::dtype(name, rows.dtype(), &Dtype::ALL)?;
    }
    // a second tensor has elements that the transform leaves out
    let first = source.parts().next();
    first.map_or(Ok(()), |rows| check::extent(FROM[0], &rows, 2, "values per head", heads.head_dim as usize))?;
    check_scale(["q_scale", "q_scales"], &append.q_scale, heads.qo as usize)?;
    check_hooks(append, transform)?;
    let paged = pools.as_ref();
    let mut outputs: Vec<_> = check::named(&out, TO).collect();
    let rows: Vec<_> = check::named(kv, ["k", "v"]).chain(q.iter().flat_map(|q| check::named(q, FROM))).collect();
    let inputs = rows.iter().map(|(name, tensor)| (*name, tensor.reach()));
    check::apart(&outputs, inputs.chain(append.slot_mapping.arrays()))?;
    outputs.extend(check::named(&paged, ["k pool", "v pool"]));
    let of_queries = rows.iter().filter(|(name, _)| FROM.contains(name)).map(|(name, tensor)| (*name, tensor.reach()));
    check::apart(&outputs, of_queries)
}

/// Refuses transforms of queries by what is not known where keys are appended.
fn check_hooks(append: &Append<'_>, transform: &Transform) -> Result<(), OpError> {
    let variant = transform.variant();
    let hooks = [Hook::QueryTransform, Hook::RemapQoPos];
    let cuda: Vec<_> = (variant.parts().flat_map(|part| part.desc().hooks))
        .filter(|hook| hooks.contains(&hook.hook))
        .map(|hook| hook.cuda)
        .collect();
    for (word, in_text) in [("qo_row", ".qo_row"), ("qo_len", ".qo_len"), ("kv_len", ".kv_len"), ("batch", ".batch")] {
        if cuda.iter().any(|cuda| cuda.contains(in_text)) {
            return Err(OpError::QueryWord { variant: variant.to_string(), word });
        }
    }
    let unknown = variant.has(Hook::QueryTransform) && !append.slot_mapping.has_positions();
    if unknown { Err(OpError::Positions { variant: variant.to_string() }) } else { Ok(()) }
}

/// Appends on the CPU, and transforms queries.
///
/// # Errors
///
/// Device memory, and the errors of [`append()`](super::append()) and [`check_queries`]. Nothing is written then.
pub fn append_with_queries(
    q: Option<&KvRef<'_>>,
    q_out: &mut KvMut<'_>,
    kv: &KvRef<'_>,
    pools: &mut KvMut<'_>,
    how: &Append<'_>,
    transform: &Transform,
) -> Result<(), OpError> {
    check_queries(q, q_out, kv, pools, how, transform)?;
    let on_device = |names: [&'static str; 2], rows: &KvRef<'_>| {
        let mut named = names.into_iter().zip(rows.parts());
        named.find(|(_, rows)| rows.device_ptr().is_some()).map(|(name, _)| elements::on_device(name))
    };
    let elsewhere = q.and_then(|q| on_device(FROM, q)).or_else(|| on_device(TO, &q_out.as_ref()));
    elsewhere.map_or(Ok(()), Err)?;
    let heads = transform.heads();
    let scales = scales_of_heads(&how.q_scale, "q_scales", heads.qo as usize)?;
    append(kv, pools, how, Some(transform))?;
    let positions = how.slot_mapping.positions().map(|positions| positions.on_host("positions")).transpose()?;
    let variant = transform.current();
    let parts = q_out.as_ref().parts().count();
    for (part, name) in TO.into_iter().enumerate().take(parts) {
        let mut to = q_out.part(part)?;
        let (dtype, shape) = (to.dtype(), to.shape().to_vec());
        if shape.contains(&0) {
            continue; // rows of no elements have no memory
        }
        let source = q.and_then(|q| q.parts().nth(part));
        let mut row = vec![0.0; shape[2]];
        for token in 0..shape[0] {
            for (head, scale) in scales.iter().enumerate() {
                let at = [token, head];
                match &source {
                    Some(source) => read(source, at, &mut row)?,
                    None => read(&to.as_ref(), at, &mut row)?,
                }
                if part == 0 {
                    let (qo_head, kv_head) = (head as i32, head as i32 / heads.group() as i32);
                    let qo_pos = positions.map_or(0, |positions| positions[token]);
                    let index = RowIndex { qo_pos, qo_token: token as i32, qo_head, kv_head, ..RowIndex::default() };
                    variant.query_row(&mut row, index);
                }
                let inverse = 1.0 / scale;
                row.iter_mut().for_each(|x| *x *= inverse);
                let to = to.host_row_mut(&at, shape[2]).ok_or_else(|| elements::on_device(name))?;
                elements::write(dtype, to, &row);
            }
        }
    }
    Ok(())
}

/// A row of numbers in host memory.
fn read(rows: &TensorRef<'_>, at: [usize; 2], row: &mut [f32]) -> Result<(), OpError> {
    let bytes = rows.host_bytes().ok_or_else(|| elements::on_device(FROM[0]))?;
    elements::read(rows.dtype(), &bytes[elements::offset(&rows.strides()[..2], &at, rows.dtype().size())..], row);
    Ok(())
}
