//! Runs of a plan.

mod call;
mod into;
mod op;

use candle_core::{Result, Tensor};

use self::{call::Call, op::Run};
use crate::{Kv, Output, Plan, RunOptions};

impl Plan {
    /// Runs the attention: `q` is (queries, query heads, head dim), `kv` has the layout of the batch. On CUDA it
    /// allocates the output and launches; nothing is waited for. Tensors have the tokens of the batch; with a capacity
    /// they may have more, and the rows of the outputs past the batch are 0.
    ///
    /// # Errors
    ///
    /// A tensor that does not fit the batch, heads or types, or that is on another device. On CUDA also one whose
    /// address or strides are no multiples of 16 bytes. Nothing is launched then.
    pub fn run(&self, q: &Tensor, kv: &Kv<'_>) -> Result<Tensor> {
        Ok(self.run_with(q, kv, RunOptions::default())?.o)
    }

    /// Runs with options.
    ///
    /// # Errors
    ///
    /// A layer that cannot run the plan; a partial output without lse; the errors of [`Plan::run`].
    pub fn run_with(&self, q: &Tensor, kv: &Kv<'_>, options: RunOptions<'_>) -> Result<Output> {
        Run::new(&self.state, kv, options).apply(q, kv)
    }

    /// Runs into tensors of the caller, so that nothing is allocated: `o` of (queries, query heads, value dim), and
    /// `lse`, if given, of (queries, query heads) f32, contiguous. Rows past the batch, which there may be with a
    /// capacity, stay as they are.
    ///
    /// # Errors
    ///
    /// An output that shares memory with an input; the errors of [`Plan::run_with`].
    pub fn run_into(
        &self,
        q: &Tensor,
        kv: &Kv<'_>,
        o: &Tensor,
        lse: Option<&Tensor>,
        options: RunOptions<'_>,
    ) -> Result<()> {
        into::into(Call::new(&self.state, kv, options), q, kv, o, lse)
    }
}
