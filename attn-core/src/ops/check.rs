//! Checks that several ops share.

use super::{ArrayMut, KvMut, KvRef, OpError};
use crate::dtype::Dtype;
use crate::lang::kv_format::{KvFormats, RowBytes};
use crate::tensor::{Reach, TensorError, TensorMut, TensorRef, sides};

pub(crate) fn rank(name: &'static str, tensor: &TensorRef<'_>, rank: usize, want: &'static str) -> Result<(), OpError> {
    let got = tensor.shape().len();
    if got == rank { Ok(()) } else { Err(TensorError::Rank { tensor: name, rank: got, want }.into()) }
}

pub(crate) fn extent(
    name: &'static str,
    tensor: &TensorRef<'_>,
    dim: usize,
    what: &'static str,
    want: usize,
) -> Result<(), OpError> {
    let got = tensor.shape()[dim];
    let wrong = || TensorError::Shape { tensor: name, dim: what, got, want, exact: true };
    if got == want { Ok(()) } else { Err(wrong().into()) }
}

pub(crate) fn dtype(name: &'static str, got: Dtype, allowed: &[Dtype]) -> Result<(), OpError> {
    if allowed.contains(&got) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    Err(OpError::Dtype { tensor: name, got, want: names.join(" or ") })
}

/// Checks that elements of the innermost dimension are contiguous.
pub(crate) fn innermost(name: &'static str, tensor: &TensorRef<'_>) -> Result<(), OpError> {
    let dim = tensor.shape().len() - 1;
    let stride = tensor.strides()[dim];
    let wrong = || TensorError::Stride { tensor: name, dim, stride, want: "1" };
    if stride == 1 || tensor.shape()[dim] <= 1 || tensor.shape().contains(&0) { Ok(()) } else { Err(wrong().into()) }
}

pub(crate) fn disjoint(name: &'static str, tensor: &TensorMut<'_>) -> Result<(), OpError> {
    let overlap = || {
        let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
        TensorError::Overlap { tensor: name, shape, strides }
    };
    if tensor.is_disjoint() { Ok(()) } else { Err(overlap().into()) }
}

/// Checks that the status array, if given, has an entry.
pub(crate) fn status(status: Option<&ArrayMut<'_, u32>>) -> Result<(), OpError> {
    let none = status.is_some_and(ArrayMut::is_empty);
    if none { Err(OpError::Len { array: "status", len: 0, want: 1, exact: false }) } else { Ok(()) }
}

/// The tensors of keys and values and of their side data, by their names.
pub(super) fn named<'a>(
    kv: &KvRef<'a>,
    [k, v]: [&'static str; 2],
) -> impl Iterator<Item = (&'static str, TensorRef<'a>)> {
    let of_sides = [(sides::NAMES[0], kv.sides().k), (sides::NAMES[1], kv.sides().v)];
    let of_rows = [k, v].into_iter().zip(kv.parts());
    of_rows.chain(of_sides.into_iter().filter_map(|(name, side)| Some((name, side?))))
}

/// Refuses outputs that share memory with each other or with an input.
pub(super) fn apart<'a>(
    outputs: &[(&'static str, TensorRef<'_>)],
    inputs: impl IntoIterator<Item = (&'static str, Reach<'a>)>,
) -> Result<(), OpError> {
    let shared = |tensor, other| TensorError::Shared { tensor, other };
    for (other, input) in inputs {
        if let Some((output, _)) = outputs.iter().find(|(_, output)| output.reach().shares(&input)) {
            return Err(shared(*output, other).into());
        }
    }
    for (i, (output, tensor)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..i].iter().find(|(_, other)| other.reach().shares(&tensor.reach())) {
            return Err(shared(*other, output).into());
        }
    }
    Ok(())
}

/// One side of an op that moves keys and values, with the names of its tensors for errors.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) k: &'static str,
    pub(super) v: &'static str,
    /// Whether tensors are pools of pages; otherwise they are contiguous rows.
    pub(super) paged: bool,
}

impl Side {
    fn check(&self, name: &'static str, tensor: &TensorRef<'_>) -> Result<(), OpError> {
        if self.paged {
            rank(name, tensor, 4, "4: (pages, slots, kv_heads, head_dim)")?;
        } else {
            rank(name, tensor, 3, "3: (tokens, kv_heads, head_dim)")?;
        }
        innermost(name, tensor)
    }
}

/// Checks keys (and values, if any) of two sides: both have the same heads and head_dim, and the tensors of one side
/// agree in the outer dimensions. With formats, rows in pages are stored in them, and rows of the other side are
/// numbers.
pub(super) fn both_sides(
    from: Side,
    source: &KvRef<'_>,
    to: Side,
    target: &KvMut<'_>,
    formats: Option<&KvFormats>,
) -> Result<(), OpError> {
    match (source.has_values(), target.has_values()) {
        (true, false) => return Err(OpError::Values { there: from.name, missing: to.name }),
        (false, true) => return Err(OpError::Values { there: to.name, missing: from.name }),
        _ => {}
    }
    let targets = target.as_ref();
    if !source.has_values() && (source.sides().v.is_some() || targets.sides().v.is_some()) {
        // values that are in keys have the side data of keys
        return Err(sides::superfluous(1).into());
    }
    for (side, kv) in [(from, source), (to, &targets)] {
        for (name, tensor) in [side.k, side.v].into_iter().zip(kv.parts()) {
            side.check(name, &tensor)?;
        }
        if let [k, v] = kv.parts().collect::<Vec<_>>()[..] {
            side.check_outer(side.v, &v, &k)?;
            if v.dtype() != k.dtype() {
                return Err(OpError::Dtype { tensor: side.v, got: v.dtype(), want: k.dtype().to_string() });
            }
        }
    }
    let names = [[from.k, to.k], [from.v, to.v]];
    for (part, ([from_name, to_name], (x, y))) in names.into_iter().zip(source.parts().zip(targets.parts())).enumerate()
    {
        let extent = |tensor: &TensorRef<'_>, back: usize| tensor.shape()[tensor.shape().len() - back];
        let differs = |dim, got, want| OpError::Differs { tensor: from_name, dim, got, other: to_name, want };
        if extent(&x, 2) != extent(&y, 2) {
            return Err(differs("heads", extent(&x, 2), extent(&y, 2)));
        }
        match formats {
            None if extent(&x, 1) != extent(&y, 1) => {
                return Err(differs("values per head", extent(&x, 1), extent(&y, 1)));
            }
            None => same_sides(part, [(from, source), (to, &targets)])?,
            Some(formats) => {
                let (stored, kv, elements) = if to.paged { (to, &targets, &x) } else { (from, source, &y) };
                let unpacked = if to.paged { source } else { &targets };
                if unpacked.sides().part(part).is_some() {
                    return Err(sides::superfluous(part).into());
                }
                let dim = u32::try_from(extent(elements, 1)).unwrap_or(u32::MAX);
                stored.check_format(part, kv, RowBytes::of(formats.part(part), dim))?;
            }
        }
        if !y.is_disjoint() {
            return Err(overlap(to_name, &y).into());
        }
        if let Some(side) = targets.sides().part(part).filter(|side| !side.is_disjoint()) {
            return Err(overlap(sides::NAMES[part], &side).into());
        }
    }
    Ok(())
}

fn overlap(tensor: &'static str, of: &TensorRef<'_>) -> TensorError {
    TensorError::Overlap { tensor, shape: of.shape().to_vec(), strides: of.strides().to_vec() }
}

/// Checks side data that is moved as it is: both sides have it, or neither.
fn same_sides(part: usize, of_both: [(Side, &KvRef<'_>); 2]) -> Result<(), OpError> {
    let [x, y] = of_both.map(|(_, kv)| kv.sides().part(part));
    match (x, y) {
        (None, None) => Ok(()),
        (Some(_), None) | (None, Some(_)) => Err(sides::absent(part).into()),
        (Some(x), Some(y)) => {
            for ((side, kv), tensor) in of_both.into_iter().zip([&x, &y]) {
                side.check_side(part, kv, tensor)?;
            }
            let [got, want] = [&x, &y].map(|side| side.shape()[side.shape().len() - 1]);
            let name = sides::NAMES[part];
            let dim = "bytes of side data per head";
            if got == want { Ok(()) } else { Err(OpError::Differs { tensor: name, dim, got, other: name, want }) }
        }
    }
}

impl Side {
    /// Checks the outer dimensions of a tensor of this side against another one of it.
    fn check_outer(&self, name: &'static str, tensor: &TensorRef<'_>, other: &TensorRef<'_>) -> Result<(), OpError> {
        let outer = if self.paged { &["pages", "slots", "heads"][..] } else { &["tokens", "heads"] };
        (outer.iter().enumerate()).try_for_each(|(dim, &what)| extent(name, tensor, dim, what, other.shape()[dim]))
    }

    /// Checks side data against the codes that it belongs to.
    fn check_side(&self, part: usize, kv: &KvRef<'_>, side: &TensorRef<'_>) -> Result<(), OpError> {
        let name = sides::NAMES[part];
        let Some(codes) = kv.part(part) else { return Err(sides::superfluous(part).into()) };
        dtype(name, side.dtype(), &[Dtype::U8])?;
        dtype(if part == 0 { self.k } else { self.v }, codes.dtype(), &[Dtype::U8])?;
        self.check(name, side)?;
        self.check_outer(name, side, &codes)
    }

    /// Checks rows that are stored in a format.
    fn check_format(&self, part: usize, kv: &KvRef<'_>, row: RowBytes) -> Result<(), OpError> {
        let name = if part == 0 { self.k } else { self.v };
        let Some(codes) = kv.part(part) else { return Ok(()) };
        dtype(name, codes.dtype(), &[Dtype::U8])?;
        let last = codes.shape().len() - 1;
        extent(name, &codes, last, "bytes of codes per head", row.codes)?;
        match (kv.sides().part(part), row.side) {
            (None, 0) => Ok(()),
            (None, _) => Err(sides::absent(part).into()),
            (Some(_), 0) => Err(sides::superfluous(part).into()),
            (Some(side), bytes) => {
                self.check_side(part, kv, &side)?;
                extent(sides::NAMES[part], &side, last, "bytes of side data per head", bytes)
            }
        }
    }
}
