//! Merges partial states (O, LSE) over disjoint keys.
//!
//! A state is an output, divided by its own denominator, and its natural log-sum-exp. Merging is commutative, and
//! associative up to rounding. A state over no keys (`lse = -inf`) is the identity, whatever its output holds (NaN
//! included). If no state has keys, the output is 0 and the log-sum-exp `-inf`. At most one of the states may contain
//! the sink. Under `Normalizer::Plain { divide: false }` outputs are added instead ([`sum`]).

use super::{Array, OpError, check, elements};
use crate::dtype::Dtype;
use crate::tensor::{Out, TensorMut, TensorRef};

/// Types of outputs that are merged.
const DTYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

/// A state to read.
#[derive(Clone, Copy, Debug)]
pub struct StateRef<'a> {
    /// (tokens, heads, dim) f16, bf16 or f32; of several states (tokens, states, heads, dim).
    pub o: TensorRef<'a>,
    /// (tokens, heads) f32, natural log; of several states (tokens, states, heads).
    pub lse: TensorRef<'a>,
}

/// A state that is updated in place.
#[derive(Debug)]
pub struct StateMut<'a> {
    /// (tokens, heads, dim) f16, bf16 or f32.
    pub o: TensorMut<'a>,
    /// (tokens, heads) f32, natural log.
    pub lse: TensorMut<'a>,
}

/// Tokens, heads and values of a head.
pub type Sizes = [usize; 3];

/// Checks the arguments of [`merge_state`].
///
/// # Errors
///
/// A tensor that does not fit the others.
pub fn check_two(a: &StateRef<'_>, b: &StateRef<'_>, out: &Out<'_>) -> Result<Sizes, OpError> {
    let sizes = output(&out.o.as_ref())?;
    check::disjoint("o", &out.o)?;
    if let Some(lse) = &out.lse {
        logs("lse", &lse.as_ref(), &sizes[..2])?;
        check::disjoint("lse", lse)?;
    }
    state(["a.o", "a.lse"], a, sizes, out.o.dtype())?;
    state(["b.o", "b.lse"], b, sizes, out.o.dtype())?;
    apart(out, [("a.o", &a.o), ("a.lse", &a.lse), ("b.o", &b.o), ("b.lse", &b.lse)])?;
    Ok(sizes)
}

/// Checks the arguments of [`merge_state_in_place`].
///
/// # Errors
///
/// Tensors of different shapes, or a mask whose length is not the number of tokens.
pub fn check_in_place(a: &StateMut<'_>, b: &StateRef<'_>, mask: Option<&Array<'_, u8>>) -> Result<Sizes, OpError> {
    let sizes = output(&a.o.as_ref())?;
    check::disjoint("a.o", &a.o)?;
    logs("a.lse", &a.lse.as_ref(), &sizes[..2])?;
    check::disjoint("a.lse", &a.lse)?;
    state(["b.o", "b.lse"], b, sizes, a.o.dtype())?;
    mask.map_or(Ok(()), |mask| mask.expect_len("mask", sizes[0]))?;
    let inputs = [("b.o", b.o.reach()), ("b.lse", b.lse.reach())].into_iter();
    let inputs = inputs.chain(mask.map(|mask| ("mask", mask.reach())));
    check::apart(&[("a.o", a.o.as_ref()), ("a.lse", a.lse.as_ref())], inputs)?;
    Ok(sizes)
}

/// Checks the arguments of [`merge_states`].
///
/// # Errors
///
/// A tensor that does not fit the others.
pub fn check_many(states: &StateRef<'_>, out: &Out<'_>) -> Result<Sizes, OpError> {
    let sizes = output(&out.o.as_ref())?;
    check::disjoint("o", &out.o)?;
    if let Some(lse) = &out.lse {
        logs("lse", &lse.as_ref(), &sizes[..2])?;
        check::disjoint("lse", lse)?;
    }
    check::rank("states.o", &states.o, 4, "4: (tokens, states, heads, dim)")?;
    check::dtype("states.o", states.o.dtype(), &[out.o.dtype()])?;
    check::innermost("states.o", &states.o)?;
    for (dim, what, want) in [(0, "tokens", sizes[0]), (2, "heads", sizes[1]), (3, "values per head", sizes[2])] {
        check::extent("states.o", &states.o, dim, what, want)?;
    }
    check::rank("states.lse", &states.lse, 3, "3: (tokens, states, heads)")?;
    check::dtype("states.lse", states.lse.dtype(), &[Dtype::F32])?;
    for (dim, what, want) in [(0, "tokens", sizes[0]), (1, "states", states.o.shape()[1]), (2, "heads", sizes[1])] {
        check::extent("states.lse", &states.lse, dim, what, want)?;
    }
    apart(out, [("states.o", &states.o), ("states.lse", &states.lse)])?;
    Ok(sizes)
}

/// Checks the arguments of [`sum`].
///
/// # Errors
///
/// A tensor that does not fit the others.
pub fn check_sum(a: &TensorRef<'_>, b: &TensorRef<'_>, o: &TensorMut<'_>) -> Result<Sizes, OpError> {
    let sizes = output(&o.as_ref())?;
    check::disjoint("o", o)?;
    rows("a", a, sizes, o.dtype())?;
    rows("b", b, sizes, o.dtype())?;
    check::apart(&[("o", o.as_ref())], [("a", a.reach()), ("b", b.reach())])?;
    Ok(sizes)
}

/// Refuses outputs that share memory with each other or with a state, and a scale, which is for outputs of a plan.
fn apart<const N: usize>(out: &Out<'_>, states: [(&'static str, &TensorRef<'_>); N]) -> Result<(), OpError> {
    if !out.scale.is_one() {
        let want = "1: a merge writes the type of its states";
        return Err(OpError::Parameter { name: "o_scale", got: out.scale.all, want });
    }
    let lse = out.lse.as_ref().map(|lse| ("lse", lse.as_ref()));
    let outputs: Vec<_> = [("o", out.o.as_ref())].into_iter().chain(lse).collect();
    check::apart(&outputs, states.iter().map(|(name, state)| (*name, state.reach())))
}

fn output(o: &TensorRef<'_>) -> Result<Sizes, OpError> {
    check::rank("o", o, 3, "3: (tokens, heads, dim)")?;
    check::dtype("o", o.dtype(), &DTYPES)?;
    check::innermost("o", o)?;
    Ok([o.shape()[0], o.shape()[1], o.shape()[2]])
}

fn state(names: [&'static str; 2], state: &StateRef<'_>, sizes: Sizes, dtype: Dtype) -> Result<(), OpError> {
    rows(names[0], &state.o, sizes, dtype)?;
    logs(names[1], &state.lse, &sizes[..2])
}

fn rows(name: &'static str, o: &TensorRef<'_>, sizes: Sizes, dtype: Dtype) -> Result<(), OpError> {
    check::rank(name, o, 3, "3: (tokens, heads, dim)")?;
    check::dtype(name, o.dtype(), &[dtype])?;
    check::innermost(name, o)?;
    let dims = ["tokens", "heads", "values per head"].into_iter().zip(sizes).enumerate();
    dims.into_iter().try_for_each(|(dim, (what, want))| check::extent(name, o, dim, what, want))
}

fn logs(name: &'static str, lse: &TensorRef<'_>, sizes: &[usize]) -> Result<(), OpError> {
    check::rank(name, lse, 2, "2: (tokens, heads)")?;
    check::dtype(name, lse.dtype(), &[Dtype::F32])?;
    let dims = ["tokens", "heads"].into_iter().zip(sizes).enumerate();
    dims.into_iter().try_for_each(|(dim, (what, &want))| check::extent(name, lse, dim, what, want))
}

/// Merges two states on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check_two`].
pub fn merge_state(a: &StateRef<'_>, b: &StateRef<'_>, out: &mut Out<'_>) -> Result<(), OpError> {
    let [tokens, heads, dim] = check_two(a, b, out)?;
    let readers = [Reader::new(["a.o", "a.lse"], a)?, Reader::new(["b.o", "b.lse"], b)?];
    let mut row = Row::new(dim);
    let mut writer = Writer::new(&mut out.o, out.lse.as_mut())?;
    for (token, head) in pairs(tokens, heads) {
        row.merge(readers.iter().map(|reader| (reader, [token, 0, head])));
        writer.write(token, head, &row);
    }
    Ok(())
}

/// Merges `b` into `a` on the CPU; with a mask, only tokens whose mask is not 0.
///
/// # Errors
///
/// Device memory; the errors of [`check_in_place`].
pub fn merge_state_in_place(
    a: &mut StateMut<'_>,
    b: &StateRef<'_>,
    mask: Option<&Array<'_, u8>>,
) -> Result<(), OpError> {
    let [tokens, heads, dim] = check_in_place(a, b, mask)?;
    let mask = mask.map(|mask| mask.on_host("mask")).transpose()?;
    let other = Reader::new(["b.o", "b.lse"], b)?;
    let mut row = Row::new(dim);
    for (token, head) in pairs(tokens, heads) {
        if mask.is_some_and(|mask| mask[token] == 0) {
            continue;
        }
        let own = StateRef { o: a.o.as_ref(), lse: a.lse.as_ref() };
        let own = Reader::new(["a.o", "a.lse"], &own)?;
        row.merge([(&own, [token, 0, head]), (&other, [token, 0, head])].into_iter());
        Writer::new(&mut a.o, Some(&mut a.lse))?.write(token, head, &row);
    }
    Ok(())
}

/// Merges any number of states, on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check_many`].
pub fn merge_states(states: &StateRef<'_>, out: &mut Out<'_>) -> Result<(), OpError> {
    let [tokens, heads, dim] = check_many(states, out)?;
    let reader = Reader::new(["states.o", "states.lse"], states)?;
    let mut row = Row::new(dim);
    let mut writer = Writer::new(&mut out.o, out.lse.as_mut())?;
    for (token, head) in pairs(tokens, heads) {
        row.merge((0..states.o.shape()[1]).map(|state| (&reader, [token, state, head])));
        writer.write(token, head, &row);
    }
    Ok(())
}

/// Adds outputs that were not divided, on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check_sum`].
pub fn sum(a: &TensorRef<'_>, b: &TensorRef<'_>, o: &mut TensorMut<'_>) -> Result<(), OpError> {
    let [tokens, heads, dim] = check_sum(a, b, o)?;
    let dtype = o.dtype();
    let (first, second) = (Rows::new("a", a)?, Rows::new("b", b)?);
    let (mut x, mut y) = (vec![0.0; dim], vec![0.0; dim]);
    let mut writer = Writer::new(o, None)?;
    for (token, head) in pairs(tokens, heads) {
        first.read([token, 0, head], dtype, &mut x);
        second.read([token, 0, head], dtype, &mut y);
        x.iter_mut().zip(&y).for_each(|(x, y)| *x += y);
        writer.put(token, head, &x);
    }
    Ok(())
}

fn pairs(tokens: usize, heads: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..tokens).flat_map(move |token| (0..heads).map(move |head| (token, head)))
}

/// Outputs in host memory. Strides are of tokens, states and heads.
struct Rows<'a> {
    bytes: &'a [u8],
    strides: [i64; 3],
}

impl<'a> Rows<'a> {
    fn new(name: &'static str, o: &TensorRef<'a>) -> Result<Self, OpError> {
        let bytes = o.host_bytes().ok_or_else(|| elements::on_device(name))?;
        Ok(Rows { bytes, strides: by_state(&o.strides()[..o.strides().len() - 1]) })
    }

    fn read(&self, at: [usize; 3], dtype: Dtype, row: &mut [f32]) {
        if row.is_empty() {
            return; // a row of no elements has no memory
        }
        elements::read(dtype, &self.bytes[elements::offset(&self.strides, &at, dtype.size())..], row);
    }
}

/// Strides of tokens, states and heads, of a tensor that may have no states.
fn by_state(strides: &[i64]) -> [i64; 3] {
    match *strides {
        [token, state, head] => [token, state, head],
        [token, head] => [token, 0, head],
        _ => [0; 3], // ranks are checked
    }
}

/// States in host memory.
struct Reader<'a> {
    rows: Rows<'a>,
    dtype: Dtype,
    lse: &'a [f32],
    lse_strides: [i64; 3],
}

impl<'a> Reader<'a> {
    fn new(names: [&'static str; 2], state: &StateRef<'a>) -> Result<Self, OpError> {
        let lse = state.lse.as_host().ok_or_else(|| elements::on_device(names[1]))?;
        let lse_strides = by_state(state.lse.strides());
        Ok(Reader { rows: Rows::new(names[0], &state.o)?, dtype: state.o.dtype(), lse, lse_strides })
    }

    fn lse(&self, at: [usize; 3]) -> f32 {
        self.lse[elements::offset(&self.lse_strides, &at, 1)]
    }
}

/// The state of one row, merged.
struct Row {
    o: Vec<f32>,
    one: Vec<f32>,
    lse: f32,
}

impl Row {
    fn new(dim: usize) -> Self {
        Row { o: vec![0.0; dim], one: vec![0.0; dim], lse: f32::NEG_INFINITY }
    }

    fn merge<'a>(&mut self, states: impl Iterator<Item = (&'a Reader<'a>, [usize; 3])> + Clone) {
        let most = states.clone().map(|(reader, at)| reader.lse(at)).fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        self.o.fill(0.0);
        for (reader, at) in states {
            let weight = crate::state::exp_below(reader.lse(at), most);
            if weight == 0.0 {
                continue; // the output may be NaN: 0 times NaN is NaN
            }
            total += weight;
            reader.rows.read(at, reader.dtype, &mut self.one);
            self.o.iter_mut().zip(&self.one).for_each(|(x, y)| *x += weight * y);
        }
        if total == 0.0 {
            self.lse = f32::NEG_INFINITY;
            return;
        }
        let share = 1.0 / total;
        self.o.iter_mut().for_each(|x| *x *= share);
        self.lse = most + total.ln();
    }
}

/// Outputs in host memory, of which a row at a time is borrowed: they may interleave with what is read.
struct Writer<'a, 't> {
    o: &'a mut TensorMut<'t>,
    lse: Option<&'a mut TensorMut<'t>>,
}

impl<'a, 't> Writer<'a, 't> {
    fn new(o: &'a mut TensorMut<'t>, lse: Option<&'a mut TensorMut<'t>>) -> Result<Self, OpError> {
        for (name, of) in [("lse", lse.as_deref()), ("o", Some(&*o))] {
            if of.is_some_and(|of| of.device_ptr().is_some()) {
                return Err(elements::on_device(name).into());
            }
        }
        Ok(Writer { o, lse })
    }

    fn put(&mut self, token: usize, head: usize, row: &[f32]) {
        let dtype = self.o.dtype();
        if let Some(to) = self.o.host_row_mut(&[token, head], row.len()).filter(|_| !row.is_empty()) {
            elements::write(dtype, to, row);
        }
    }

    fn write(&mut self, token: usize, head: usize, row: &Row) {
        self.put(token, head, &row.o);
        if let Some(to) = self.lse.as_mut().and_then(|lse| lse.host_row_mut(&[token, head], 1)) {
            elements::write(Dtype::F32, to, &[row.lse]);
        }
    }
}

#[cfg(test)]
mod tests;
