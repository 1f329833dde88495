//! Ranks that are threads of one process.

use std::sync::Arc;
use std::time::Duration;

use half::{bf16, f16};

use super::call::{Call, Collective};
use super::error::ParallelError;
use super::group::Group;
use crate::dtype::Dtype;
use crate::tensor::{TensorMut, TensorRef};

/// A rank of a group of threads. Tensors are contiguous and in host memory.
///
/// ```
/// use std::time::Duration;
/// use attn_core::parallel::{Collective, ThreadRank};
/// use attn_core::tensor::{TensorMut, TensorRef};
///
/// let ranks = ThreadRank::group(2, Duration::from_secs(10));
/// let threads: Vec<_> = ranks.into_iter().map(|rank| std::thread::spawn(move || {
///     let (own, mut all) = ([rank.rank() as f32], [0.0; 2]);
///     let own = TensorRef::host(&own, &[1])?;
///     rank.run(Collective::AllGather, &own, &mut TensorMut::host(&mut all, &[2, 1])?)?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(all)
/// })).collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap().unwrap(), [0.0, 1.0]);
/// }
/// ```
#[derive(Debug)]
pub struct ThreadRank {
    group: Arc<Group>,
    rank: usize,
}

impl ThreadRank {
    /// The ranks of a new group, one for each thread. A call that waits longer than `limit` breaks the group.
    #[must_use]
    pub fn group(ranks: usize, limit: Duration) -> Vec<Self> {
        let group = Arc::new(Group::new(ranks, limit));
        (0..ranks).map(|rank| ThreadRank { group: group.clone(), rank }).collect()
    }

    /// The index of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.group.ranks()
    }

    /// Runs a collective: `receive` is as [`Collective`] says.
    ///
    /// # Errors
    ///
    /// Another call of another rank, a rank that left or does not come, tensors that do not fit.
    pub fn run(
        &self,
        collective: Collective,
        send: &TensorRef<'_>,
        receive: &mut TensorMut<'_>,
    ) -> Result<(), ParallelError> {
        let (rank, ranks) = (self.rank, self.ranks());
        let call = Call::new(collective, ranks, send, receive).map_err(|why| self.give_up(why))?;
        let (Some(from), Some(to)) = (send.host_bytes(), receive.host_bytes_mut()) else {
            return Err(self.give_up(format!("{call} needs tensors in host memory")));
        };
        let sent = self.group.exchange(rank, &call, from[..call.bytes()].to_vec())?;
        if collective == Collective::AllReduce {
            sum(call.dtype(), &sent, &mut to[..call.bytes()]);
            return Ok(());
        }
        let part = call.bytes() / ranks;
        let parts: Vec<&[u8]> = match collective {
            Collective::AllGather => sent.iter().map(Vec::as_slice).collect(),
            Collective::AllToAll => sent.iter().map(|of| &of[part * rank..][..part]).collect(),
            Collective::Shift => vec![&sent[(rank + ranks - 1) % ranks]],
            Collective::AllReduce | Collective::Barrier => Vec::new(),
        };
        let parts = parts.concat();
        to[..parts.len()].copy_from_slice(&parts);
        Ok(())
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`ThreadRank::run`].
    pub fn barrier(&self) -> Result<(), ParallelError> {
        self.group.exchange(self.rank, &Call::BARRIER, Vec::new()).map(drop)
    }

    /// Breaks the group: calls of all ranks fail with `why`, those that wait and those to come.
    pub fn abort(&self, why: impl Into<String>) {
        self.give_up(why.into());
    }

    /// A mistake of this rank. The others would wait for it.
    fn give_up(&self, why: String) -> ParallelError {
        let error = ParallelError::Aborted { rank: self.rank, why };
        self.group.abort(error.clone());
        error
    }
}

/// Adds the elements of all ranks in their order.
fn sum(dtype: Dtype, sent: &[Vec<u8>], to: &mut [u8]) {
    let size = dtype.size();
    for (element, to) in to.chunks_exact_mut(size).enumerate() {
        let of = |bytes: &Vec<u8>| match (dtype, &bytes[element * size..][..size]) {
            (Dtype::F16, &[a, b]) => f16::from_ne_bytes([a, b]).to_f32(),
            (Dtype::Bf16, &[a, b]) => bf16::from_ne_bytes([a, b]).to_f32(),
            (_, bytes) => f32::from_ne_bytes(bytes.try_into().expect("an element of f32")),
        };
        let sum: f32 = sent.iter().map(of).sum();
        match dtype {
            Dtype::F16 => to.copy_from_slice(&f16::from_f32(sum).to_ne_bytes()),
            Dtype::Bf16 => to.copy_from_slice(&bf16::from_f32(sum).to_ne_bytes()),
            _ => to.copy_from_slice(&sum.to_ne_bytes()),
        }
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        // those that wait for this rank, also where its thread panics
        self.group.abort(ParallelError::Left { rank: self.rank });
    }
}
