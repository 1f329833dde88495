//! Head parallelism.

use std::ops::Range;

use attn_core::parallel::{Collective, ParallelError, coordinates};

use super::Communicator;
use crate::ops::{self, Append, DeviceArray, Gather, KvMut, KvRef, PageTableRows, SlotMapping};
use crate::{
    Attention, DeviceBuffer, Dtype, Engine, Error, Heads, Kv, Out, Plan, RunOptions, Stream, TensorMut, TensorRef,
};

/// Attention whose heads are shared out to ranks that hold tokens (Ulysses, arXiv 2309.14509). An all-to-all gives each
/// rank all tokens of its heads; it runs a plan over them, and a second one gives the outputs back. Any mask and any
/// layout of requests works, as each rank has whole sequences.
///
/// The tokens of a batch are cut into equal parts, in order; the last rank may have fewer. Hooks see the heads of the
/// rank from 0 on, so parameters of heads are those of its share ([`HeadParallel::share`]); variants that compute with
/// the number of a head are refused.
#[derive(Debug)]
pub struct HeadParallel {
    q: Exchange,
    k: Exchange,
    v: Exchange,
    o: Exchange,
    /// Slots, prefix sums and pages of the copies of this rank's tokens.
    slots: DeviceArray<i64>,
    ends: DeviceArray<i32>,
    page: DeviceArray<i32>,
    heads: Heads,
    tokens: usize,
    part: usize,
    own: usize,
}

/// Rows of all ranks, (ranks, tokens, heads, dim), to send and as received.
#[derive(Debug)]
struct Exchange {
    send: DeviceBuffer,
    receive: DeviceBuffer,
    shape: [usize; 4],
}

impl Exchange {
    fn new(engine: &Engine, dtype: Dtype, shape: [usize; 4]) -> Result<Self, Error> {
        let memory = || engine.alloc(dtype, shape.iter().product());
        Ok(Exchange { send: memory()?, receive: memory()?, shape })
    }

    fn pair(&mut self) -> Result<(TensorRef<'_>, TensorMut<'_>), Error> {
        Ok((self.send.tensor(&self.shape)?, self.receive.tensor_mut(&self.shape)?))
    }

    /// The first tokens of what was received, one after the other.
    fn received(&self, tokens: usize) -> Result<TensorRef<'_>, Error> {
        self.receive.tensor(&[tokens, self.shape[2], self.shape[3]])
    }
}

impl HeadParallel {
    /// The heads of a rank, of the heads of all. Ranks share a KV head where there are more ranks.
    ///
    /// # Errors
    ///
    /// Query heads that do not divide among the ranks; a share that ends within a group of a KV head.
    pub fn share(communicator: &Communicator, heads: Heads) -> Result<Heads, ParallelError> {
        let (count, ranks, group) = (heads.qo as usize, communicator.ranks(), heads.group() as usize);
        let qo = count / ranks;
        if !count.is_multiple_of(ranks) || !(qo.is_multiple_of(group) || group.is_multiple_of(qo)) {
            return Err(ParallelError::Heads { heads: count, ranks });
        }
        Ok(Heads { qo: qo as u32, kv: (qo / group).max(1) as u32, ..heads })
    }

    /// Memory for `tokens` tokens of all ranks. `attention` has the heads of this rank ([`HeadParallel::share`]),
    /// `heads` are those of all.
    ///
    /// # Errors
    ///
    /// The errors of [`HeadParallel::share`]; other heads of the attention; a variant that computes with the number of
    /// a head; keys and values in a KV format, or in one tensor; out of memory.
    pub fn new(
        engine: &Engine,
        attention: &Attention,
        communicator: &Communicator,
        heads: Heads,
        tokens: usize,
    ) -> Result<Self, Error> {
        let (share, ranks) = (Self::share(communicator, heads)?, communicator.ranks());
        let (dtypes, (of_o, dim)) = (attention.dtypes(), attention.output());
        if attention.heads() != share || dtypes.format.is_some() || attention.values_in_keys() {
            let what = "an attention of other heads than `share` gives, or over a KV format or one tensor of keys and \
                values,";
            return Err(ParallelError::Unsupported { what, way: "bind it to that share, each in a tensor" }.into());
        }
        if ranks > 1 {
            coordinates::HEADS.check(attention.variant())?;
        }
        let part = tokens.div_ceil(ranks);
        let own = tokens.saturating_sub(part * communicator.rank()).min(part);
        let of = |dtype, heads: u32, dim| Exchange::new(engine, dtype, [ranks, part, heads as usize, dim]);
        let head_dim = share.head_dim as usize;
        let slots: Vec<i64> = (0..own as i64).collect();
        Ok(HeadParallel {
            q: of(dtypes.q.unwrap_or(dtypes.qo), share.qo, head_dim)?,
            k: of(dtypes.kv, share.kv, head_dim)?,
            v: of(dtypes.kv, share.kv, dim)?,
            o: of(of_o, share.qo, dim)?,
            slots: DeviceArray::upload(engine, &slots)?,
            ends: DeviceArray::upload(engine, &[0, own as i32])?,
            page: DeviceArray::upload(engine, &[0])?,
            heads,
            tokens,
            part,
            own,
        })
    }

    /// The tokens of a rank: those of the batch in its range.
    #[must_use]
    pub fn tokens(&self, communicator: &Communicator) -> Range<usize> {
        let first = (self.part * communicator.rank()).min(self.tokens);
        first..first + self.own
    }

    /// Exchanges heads, runs `plan` over all tokens of the heads of this rank, and exchanges outputs: `q`, `k`, `v` and
    /// `o` are (tokens of this rank, heads of all, dim). `layer` is as in [`RunOptions::layer`].
    ///
    /// # Errors
    ///
    /// An output with log-sum-exps, which are not exchanged; the errors of [`ops::append_paged`], [`Plan::run`] and
    /// [`Communicator::all_gather`]. Where this rank fails before an exchange, it breaks the group, since the others
    /// wait.
    #[allow(clippy::too_many_arguments)] // those of a run, with its ranks
    pub fn run(
        &mut self,
        communicator: &Communicator,
        plan: &Plan,
        stream: &Stream,
        q: TensorRef<'_>,
        k: TensorRef<'_>,
        v: TensorRef<'_>,
        mut out: Out<'_>,
        layer: Option<&Attention>,
    ) -> Result<(), Error> {
        let abort = |error: &Error| communicator.abort(error.to_string());
        self.send(communicator, stream, [q, k, v], &out).inspect_err(abort)?;
        let HeadParallel { q, k, v, o, tokens, .. } = self;
        let tokens = *tokens;
        communicator.run(stream, Collective::AllToAll, &mut [q.pair()?, k.pair()?, v.pair()?])?;
        let kv = Kv::ragged(k.received(tokens)?, v.received(tokens)?);
        let to = Out::new(o.send.tensor_mut(&[tokens, o.shape[2], o.shape[3]])?);
        plan.run_with(stream, q.received(tokens)?, kv, to, RunOptions { layer, partial: false }).inspect_err(abort)?;
        communicator.run(stream, Collective::AllToAll, &mut [o.pair()?])?;
        if self.own == 0 {
            return Ok(());
        }
        let (all, of_rank) = (self.o.receive.tensor(&self.o.shape)?, self.o.shape[2]);
        for rank in 0..communicator.ranks() {
            let rows = PageTableRows::Padded { pages: self.page.array(), max_pages: 1 };
            let mut to = KvMut::latent(out.o.reborrow().narrow(1, rank * of_rank..(rank + 1) * of_rank)?);
            let from = KvRef::latent(all.narrow(0, rank..rank + 1)?);
            ops::gather(stream, &from, &mut to, &Gather::new(self.ends.array(), rows))?;
        }
        Ok(())
    }

    /// Copies the heads of each rank to its part of what is sent.
    fn send(
        &mut self,
        communicator: &Communicator,
        stream: &Stream,
        [q, k, v]: [TensorRef<'_>; 3],
        out: &Out<'_>,
    ) -> Result<(), Error> {
        communicator.check(stream)?;
        if out.lse.is_some() {
            let what = "log-sum-exps of head parallelism";
            return Err(ParallelError::Unsupported { what, way: "leave `lse` out" }.into());
        }
        let (group, ranks) = (self.heads.group() as usize, communicator.ranks());
        let [of_rank, kv] = [self.q.shape[2], self.k.shape[2]];
        for rank in (0..ranks).filter(|_| self.own > 0) {
            let heads = rank * of_rank..(rank + 1) * of_rank;
            let first = heads.start / group;
            for (x, to, heads) in
                [(q, &mut self.q, heads), (k, &mut self.k, first..first + kv), (v, &mut self.v, first..first + kv)]
            {
                let mut page = KvMut::latent(to.send.tensor_mut(&to.shape)?.narrow(0, rank..rank + 1)?);
                let slots = SlotMapping::Slots { slots: self.slots.array(), positions: None };
                let rows = KvRef::latent(x.narrow(1, heads)?);
                ops::append_paged(stream, &rows, &mut page, &Append::at(slots), None)?;
            }
        }
        Ok(())
    }
}
