//! The tensors of a case, where its engine wants them.

use crate::tensor::{Kv, KvScales, Out, Scale};
use crate::{Dtype, Error, Plan, Stream};

use super::TestError;
use super::inputs::{Host, HostScale, Inputs, Keys};
use super::place::{Held, Place};

/// Elements behind the end of an output that must stay as they are.
const GUARD: usize = 256;
/// What outputs hold before a run: NaN, also in f32.
const POISON: u8 = 0xff;

/// Inputs and outputs of a run.
pub(super) struct Tensors {
    q: Held,
    k: Held,
    v: Held,
    k_scale: HeldScale,
    v_scale: HeldScale,
    o: Held,
    lse: Held,
    qo_shape: [usize; 3],
    kv_shape: Vec<usize>,
    kv_strides: Vec<i64>,
    paged: bool,
}

/// A scale, and its tensor over the KV heads.
struct HeldScale {
    all: f32,
    heads: Option<(Held, usize)>,
}

/// What a run wrote.
pub(super) struct Written {
    /// The output and its log-sum-exp, as bits, guards cut off.
    pub(super) o: Host,
    /// One a (token, head).
    pub(super) lse: Vec<f32>,
    /// Whether the guard behind either was touched.
    pub(super) outside: bool,
}

impl Tensors {
    /// Copies the inputs of a case there, and makes room for outputs of `dtype`.
    pub(super) fn put(place: &Place, inputs: &Inputs, dtype: Dtype) -> Result<Self, TestError> {
        let qo_shape = inputs.qo_shape();
        let rows = qo_shape[0] * qo_shape[1];
        Ok(Tensors {
            q: place.put(&inputs.q)?,
            k: place.put(&inputs.k)?,
            v: place.put(&inputs.v)?,
            k_scale: HeldScale::put(place, &inputs.k_scale)?,
            v_scale: HeldScale::put(place, &inputs.v_scale)?,
            o: place.put(&Host::nan(dtype, rows * qo_shape[2] + GUARD))?,
            lse: place.put(&Host::nan(Dtype::F32, rows + GUARD))?,
            qo_shape,
            kv_shape: inputs.kv_shape.clone(),
            kv_strides: inputs.kv_strides.clone(),
            paged: matches!(inputs.keys, Keys::Paged(_)),
        })
    }

    /// Gives one run of a plan to the stream.
    pub(super) fn run(&mut self, plan: &Plan, stream: &Stream) -> Result<(), Error> {
        let qo_shape = self.qo_shape;
        let contiguous = [(qo_shape[1] * qo_shape[2]) as i64, qo_shape[2] as i64, 1];
        let q = self.q.tensor(&qo_shape, &contiguous)?;
        let (k, v) =
            (self.k.tensor(&self.kv_shape, &self.kv_strides)?, self.v.tensor(&self.kv_shape, &self.kv_strides)?);
        let kv = if self.paged { Kv::paged(k, v) } else { Kv::ragged(k, v) };
        let scales = KvScales { k: self.k_scale.scale()?, v: self.v_scale.scale()? };
        let o = self.o.tensor_mut(&qo_shape, &contiguous)?;
        let lse = self.lse.tensor_mut(&qo_shape[..2], &[qo_shape[1] as i64, 1])?;
        plan.run(stream, q, kv.with_scales(scales), Out::with_lse(o, lse))
    }

    /// Fills the outputs with NaN.
    pub(super) fn poison(&mut self) -> Result<(), TestError> {
        self.o.fill(POISON)?;
        self.lse.fill(POISON)
    }

    /// What the outputs hold, after everything given to the device has finished.
    pub(super) fn written(&self) -> Result<Written, TestError> {
        let (o, o_outside) = cut(self.o.get()?);
        let (lse, lse_outside) = cut(self.lse.get()?);
        Ok(Written { o, lse: lse.to_f32(), outside: o_outside || lse_outside })
    }
}

impl HeldScale {
    fn put(place: &Place, scale: &HostScale) -> Result<Self, TestError> {
        let put = |heads: &Vec<f32>| Ok::<_, TestError>((place.put(&Host::F32(heads.clone()))?, heads.len()));
        Ok(HeldScale { all: scale.all, heads: scale.heads.as_ref().map(put).transpose()? })
    }

    fn scale(&self) -> Result<Scale<'_>, Error> {
        let heads = self.heads.as_ref().map(|(held, heads)| held.tensor(&[*heads], &[1]));
        Ok(Scale { all: self.all, heads: heads.transpose()? })
    }
}

/// The elements without the guard, and whether the guard was touched.
fn cut(mut host: Host) -> (Host, bool) {
    let keep = host.len() - GUARD;
    let touched = host.bytes()[keep * host.dtype().size()..].iter().any(|&byte| byte != POISON);
    host.truncate(keep);
    (host, touched)
}
