//! Checks the tensors of a run; the backends share it.

use super::{Kv, Out, Scale, TensorError, TensorMut, TensorRef, shape::Shape, sides};
use crate::batch::Layout;
use crate::dtype::{Dtype, Dtypes};
use crate::lang::kv_format::RowBytes;
use crate::spec::{HeadDimVo, Heads};

/// How many tokens the tensors of a run have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Those of the batch: another number is that of another batch.
    Exactly,
    /// Those of the batch or more, as under a capacity, whose batches have different numbers. The rest is neither read
    /// nor written.
    AtLeast,
}

/// Checks the tensors of a run against the batch, the heads and the element types.
///
/// Pools may have more pages than the batch uses; the rest is neither read nor written. Strides of q, k and v are free,
/// except that head_dim is contiguous. Elements of `o` and `lse` must not overlap, nor share memory with those of
/// another tensor. Scales by head are checked if they are in host memory. In a KV format, rows of k and v and their
/// side data are bytes, as many as the format says.
///
/// # Errors
///
/// The first thing that does not fit.
#[allow(clippy::too_many_arguments)] // all of a run
pub fn check_run(
    layout: &Layout,
    tokens: Tokens,
    heads: Heads,
    head_dim_vo: HeadDimVo,
    dtypes: Dtypes,
    q: &TensorRef<'_>,
    kv: &Kv<'_>,
    out: &Out<'_>,
) -> Result<(), TensorError> {
    check_inputs(layout, tokens, heads, head_dim_vo, dtypes, q, kv)?;
    let of_batch = (layout.qo_tokens(), tokens);
    rows(
        &Named("o", out.o.dtype, &out.o.shape),
        dtypes.output(),
        of_batch,
        heads.qo,
        elements(head_dim_vo.dim(heads)),
    )?;
    disjoint("o", &out.o)?;
    if out.o.dtype != Dtype::E4m3 && !out.scale.is_one() {
        return Err(TensorError::OutputScale { o: out.o.dtype });
    }
    scale(["o_scale", "o_scales"], &out.scale, 1)?;
    if let Some(lse) = &out.lse {
        let named = Named("lse", lse.dtype, &lse.shape);
        named.rank(2, "2: (tokens, qo_heads)")?;
        named.dtype(Dtype::F32)?;
        named.tokens(of_batch)?;
        named.extent(1, "heads", heads.qo as usize, true)?;
        disjoint("lse", lse)?;
    }
    check_apart(q, kv, out)
}

/// Refuses an output that shares memory with another tensor of a run.
fn check_apart(q: &TensorRef<'_>, kv: &Kv<'_>, out: &Out<'_>) -> Result<(), TensorError> {
    let inputs = [
        ("q", Some(q)),
        ("k", Some(&kv.k)),
        ("v", Some(&kv.v)),
        (sides::NAMES[0], kv.sides.k.as_ref()),
        (sides::NAMES[1], kv.sides.v.as_ref()),
        ("k_scales", kv.scales.k.heads.as_ref()),
        ("v_scales", kv.scales.v.heads.as_ref()),
        ("q_scales", kv.q_scale.heads.as_ref()),
        ("o_scales", out.scale.heads.as_ref()),
    ];
    let (o, lse) = (out.o.reach(), out.lse.as_ref().map(TensorMut::reach));
    for (other, input) in inputs {
        let Some(input) = input.map(TensorRef::reach) else { continue };
        if o.shares(&input) {
            return Err(TensorError::Shared { tensor: "o", other });
        }
        if lse.is_some_and(|lse| lse.shares(&input)) {
            return Err(TensorError::Shared { tensor: "lse", other });
        }
    }
    let shared = lse.is_some_and(|lse| lse.shares(&o));
    if shared { Err(TensorError::Shared { tensor: "o", other: "lse" }) } else { Ok(()) }
}

/// The checks of [`check_run`] that do not need an output.
///
/// # Errors
///
/// The first thing that does not fit.
pub fn check_inputs(
    layout: &Layout,
    tokens: Tokens,
    heads: Heads,
    head_dim_vo: HeadDimVo,
    dtypes: Dtypes,
    q: &TensorRef<'_>,
    kv: &Kv<'_>,
) -> Result<(), TensorError> {
    heads.check()?;
    head_dim_vo.check(heads)?;
    dtypes.check()?;
    let (group, qo_len) = (heads.group(), layout.max_qo_len());
    if qo_len as u64 * u64::from(group) > i32::MAX as u64 {
        return Err(TensorError::TooManyRows { qo_len, group });
    }
    let of_batch = (layout.qo_tokens(), tokens);
    rows(&Named("q", q.dtype, &q.shape), dtypes.queries(), of_batch, heads.qo, elements(heads.head_dim))?;
    if q.dtype != Dtype::E4m3 && !kv.q_scale.is_one() {
        return Err(TensorError::QueryScale { q: q.dtype });
    }
    scale(["q_scale", "q_scales"], &kv.q_scale, 1)?;
    if head_dim_vo.shares_keys() && !kv.v.is_rows_of(&kv.k) {
        return Err(TensorError::NotTheKeys);
    }
    // values that share memory with keys are within rows that the first iteration has checked
    let memory = |name, tensor: &TensorRef<'_>, row| {
        let named = Named(name, tensor.dtype, &tensor.shape);
        match layout.pages() {
            None => rows(&named, dtypes.kv, (layout.kv_memory_tokens(), tokens), heads.kv, row),
            Some(pages) => {
                named.rank(4, "4 for a paged batch: (pages, slots, kv_heads, head_dim)")?;
                named.dtype(dtypes.kv)?;
                named.extent(0, "pages", pages.min_pool() as usize, false)?;
                named.extent(1, "slots", pages.page_size() as usize, true)?;
                named.extent(2, "heads", heads.kv as usize, true)?;
                named.contiguous(3, row)
            }
        }
    };
    let parts = if head_dim_vo.shares_keys() { 1 } else { 2 };
    let of_both = [("k", &kv.k, heads.head_dim), ("v", &kv.v, head_dim_vo.dim(heads))];
    for (part, (name, tensor, dim)) in of_both.into_iter().enumerate().take(parts) {
        let stored = dtypes.format.map(|format| format.row_bytes(part, dim));
        memory(name, tensor, stored.map_or(elements(dim), |stored| ("bytes of codes per head", stored.codes)))?;
        match (kv.sides.part(part), stored) {
            (Some(side), Some(RowBytes { side: 1.., .. })) => {
                memory(sides::NAMES[part], &side, ("bytes of side data per head", stored.map_or(0, |row| row.side)))?;
            }
            (Some(_), _) => return Err(sides::superfluous(part)),
            (None, Some(RowBytes { side: 1.., .. })) => return Err(sides::absent(part)),
            (None, _) => {}
        }
    }
    if parts == 1 && kv.sides.v.is_some() {
        return Err(sides::superfluous(1));
    }
    scale(["k_scale", "k_scales"], &kv.scales.k, heads.kv)?;
    scale(["v_scale", "v_scales"], &kv.scales.v, heads.kv)
}

/// Checks a scale, and its tensor of as many elements.
fn scale(names: [&'static str; 2], scale: &Scale<'_>, count: u32) -> Result<(), TensorError> {
    if let Some(heads) = &scale.heads {
        let named = Named(names[1], heads.dtype, &heads.shape);
        named.rank(1, "1: (kv_heads), or one element for q and o")?;
        named.dtype(Dtype::F32)?;
        named.extent(0, "heads", count as usize, true)?;
        named.step(0)?;
    }
    scale.check(names)
}

/// The innermost dimension of rows: what it counts, and its extent.
type Row = (&'static str, usize);

/// Rows of numbers.
fn elements(head_dim: u32) -> Row {
    ("values per head", head_dim as usize)
}

/// Checks a tensor of (tokens, heads, head_dim).
fn rows(t: &Named<'_>, dtype: Dtype, tokens: (usize, Tokens), heads: u32, row: Row) -> Result<(), TensorError> {
    t.rank(3, "3: (tokens, heads, head_dim)")?;
    t.dtype(dtype)?;
    t.tokens(tokens)?;
    t.extent(1, "heads", heads as usize, true)?;
    t.contiguous(2, row)
}

fn disjoint(tensor: &'static str, t: &TensorMut<'_>) -> Result<(), TensorError> {
    if t.shape.is_disjoint() {
        return Ok(());
    }
    Err(TensorError::Overlap { tensor, shape: t.shape().to_vec(), strides: t.strides().to_vec() })
}

struct Named<'a>(&'static str, Dtype, &'a Shape);

impl Named<'_> {
    fn rank(&self, rank: usize, want: &'static str) -> Result<(), TensorError> {
        let got = self.2.extents().len();
        if got == rank { Ok(()) } else { Err(TensorError::Rank { tensor: self.0, rank: got, want }) }
    }

    fn dtype(&self, want: Dtype) -> Result<(), TensorError> {
        if self.1 == want { Ok(()) } else { Err(TensorError::Dtype { tensor: self.0, got: self.1, want }) }
    }

    fn extent(&self, i: usize, dim: &'static str, want: usize, exact: bool) -> Result<(), TensorError> {
        let got = self.2.extents()[i];
        let fits = if exact { got == want } else { got >= want };
        if fits { Ok(()) } else { Err(TensorError::Shape { tensor: self.0, dim, got, want, exact }) }
    }

    fn tokens(&self, (want, tokens): (usize, Tokens)) -> Result<(), TensorError> {
        let (tensor, got) = (self.0, self.2.extents()[0]);
        match tokens {
            Tokens::AtLeast => self.extent(0, "tokens", want, false),
            Tokens::Exactly if got == want => Ok(()),
            Tokens::Exactly => Err(TensorError::Tokens { tensor, got, want }),
        }
    }

    fn contiguous(&self, dim: usize, (counts, extent): Row) -> Result<(), TensorError> {
        self.extent(dim, counts, extent, true)?;
        self.step(dim)
    }

    /// Checks that a dimension is contiguous, as that of a tensor without elements is.
    fn step(&self, dim: usize) -> Result<(), TensorError> {
        let (stride, extents) = (self.2.strides()[dim], self.2.extents());
        let fits = stride == 1 || extents[dim] == 1 || extents.contains(&0);
        if fits { Ok(()) } else { Err(TensorError::Stride { tensor: self.0, dim, stride, want: "1" }) }
    }
}
