//! A run as launches have it.

use attn::{KvScales, Out, TensorMut, TensorRef};
use candle_core::{Layout, Result};

use crate::error::{IntoCandle, refuse};
use crate::kv::Tensors;
use crate::plan::State;
use crate::tensors::{self, Dims, View};
use crate::{Kv, RunOptions};

/// A run of a plan.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) state: &'a State,
    pub(super) layer: Option<&'a attn::Attention>,
    pub(super) partial: bool,
    pub(super) form: Form,
}

/// [`Kv`] without its tensors.
#[derive(Clone, Copy)]
pub(super) struct Form {
    kind: Kind,
    order: attn::PageOrder,
    scales: [f32; 2],
}

#[derive(Clone, Copy)]
enum Kind {
    Separate,
    Fused,
    Latent,
}

impl Form {
    pub(super) fn of(kv: &Kv<'_>) -> Self {
        let kind = match kv.tensors {
            Tensors::Separate(..) => Kind::Separate,
            Tensors::Fused(_) => Kind::Fused,
            Tensors::Latent(_) => Kind::Latent,
        };
        Form { kind, order: kv.order, scales: kv.scales }
    }

    /// The tensors as attention reads them.
    fn kv<'a>(&self, k: TensorRef<'a>, v: Option<TensorRef<'a>>) -> Result<attn::Kv<'a>> {
        let paged = k.shape().len() == 4;
        let kv = match (self.kind, v) {
            (Kind::Separate, Some(v)) if paged || self.order != attn::PageOrder::Nhd => {
                attn::Kv::paged_in(k, v, self.order).candle()?
            }
            (Kind::Separate, Some(v)) => attn::Kv::ragged(k, v),
            (Kind::Fused, _) => attn::Kv::paged_fused(k, self.order).candle()?,
            (_, _) if paged => attn::Kv::latent_pages(k, self.order).candle()?,
            (_, _) => attn::Kv::latent(k),
        };
        let [k, v] = self.scales;
        Ok(kv.with_scales(KvScales::of(k, v)))
    }

    pub(super) fn names(&self) -> [&'static str; 2] {
        match self.kind {
            Kind::Fused => ["the pool of keys and values", ""],
            Kind::Separate | Kind::Latent => ["k", "v"],
        }
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(state: &'a State, kv: &Kv<'_>, options: RunOptions<'a>) -> Self {
        let RunOptions { layer, partial, .. } = options;
        Call { state, layer: layer.map(|layer| &layer.inner), partial, form: Form::of(kv) }
    }

    /// The shapes of o and lse for queries.
    pub(super) fn shapes(&self, q: &Layout) -> Result<([usize; 3], [usize; 2])> {
        let &[tokens, heads, _] = q.dims() else {
            return refuse(format!(
                "`q` has the shape {:?}; a run takes (queries, query heads, head dim), and `Attention::dense` takes \
                 (batch, queries, query heads, head dim)",
                q.dims()
            ));
        };
        Ok(([tokens, heads, self.state.attention.value_dim], [tokens, heads]))
    }

    /// Launches into the outputs.
    pub(super) fn launch(
        &self,
        q: (View<'_>, &Layout),
        k: (View<'_>, &Layout),
        v: Option<(View<'_>, &Layout)>,
        o: TensorMut<'_>,
        lse: Option<TensorMut<'_>>,
    ) -> Result<()> {
        let read =
            |(view, layout): (_, &Layout), name, beside: &[&_]| tensors::read(view, &Dims::of(layout), name, beside);
        let [k_name, v_name] = self.form.names();
        let q = read(q, "q", &[])?;
        let k = read(k, k_name, &[&q])?;
        let v = v.map(|v| read(v, v_name, &[&q, &k])).transpose()?;
        let kv = self.form.kv(k.tensor, v.as_ref().map(|v| v.tensor))?;
        let options = attn::RunOptions { layer: self.layer, partial: self.partial };
        let plan = self.state.plan();
        let out = Out { lse, ..Out::new(o) };
        // what candle knows of the inputs is dropped after the launch, so that its other streams wait for it
        self.state.attention.engine.launch(|stream| plan.run_with(stream, q.tensor, kv, out, options).candle())
    }
}
