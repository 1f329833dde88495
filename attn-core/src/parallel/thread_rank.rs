//! Ranks that are threads of one process.

use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Collective};
use super::error::ParallelError;
use super::group::Group;
use crate::dtype::Dtype;
use crate::tensor::{TensorMut, TensorRef};

/// A rank of a group of threads. Tensors are contiguous and in host memory.
///
/// ```
/// use std::time::Duration;
/// use attn_core::parallel::ThreadRank;
/// use attn_core::tensor::{TensorMut, TensorRef};
///
/// let ranks = ThreadRank::group(2, Duration::from_secs(10));
/// let threads: Vec<_> = ranks.into_iter().map(|rank| std::thread::spawn(move || {
///     let (own, mut all) = ([rank.rank() as f32], [0.0; 2]);
///     let own = TensorRef::host(&own, &[1])?;
///     rank.all_gather(&own, &mut TensorMut::host(&mut all, &[2, 1])?)?;
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

    /// Gathers the tensors of all ranks: `receive` has a dimension of ranks before those of `send`.
    ///
    /// # Errors
    ///
    /// Another call of another rank, a rank that left or does not come, tensors that do not fit.
    pub fn all_gather(&self, send: &TensorRef<'_>, receive: &mut TensorMut<'_>) -> Result<(), ParallelError> {
        let shape = [&[self.ranks()], send.shape()].concat();
        let sent = self.exchange(Collective::AllGather, send, &shape, receive)?;
        self.write(receive, sent.iter().map(Vec::as_slice))
    }

    /// Sends part `r` of the first dimension of `send` to rank `r`, and receives a part of each rank: both tensors have
    /// the same shape, whose first dimension is that of ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`ThreadRank::all_gather`].
    pub fn all_to_all(&self, send: &TensorRef<'_>, receive: &mut TensorMut<'_>) -> Result<(), ParallelError> {
        let ranks = self.ranks();
        if send.shape()[0] != ranks {
            return Err(self.give_up(format!("all_to_all sends {:?} to {ranks} ranks", send.shape())));
        }
        let sent = self.exchange(Collective::AllToAll, send, send.shape(), receive)?;
        self.write(receive, sent.iter().map(|of| &of[of.len() / ranks * self.rank..][..of.len() / ranks]))
    }

    /// Sends a tensor to the next rank, the last one to the first, and receives that of the rank before.
    ///
    /// # Errors
    ///
    /// The errors of [`ThreadRank::all_gather`].
    pub fn shift(&self, send: &TensorRef<'_>, receive: &mut TensorMut<'_>) -> Result<(), ParallelError> {
        let sent = self.exchange(Collective::Shift, send, send.shape(), receive)?;
        self.write(receive, [sent[(self.rank + self.ranks() - 1) % self.ranks()].as_slice()].into_iter())
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`ThreadRank::all_gather`].
    pub fn barrier(&self) -> Result<(), ParallelError> {
        let call = Call { collective: Collective::Barrier, dtype: Dtype::U8, shape: Vec::new() };
        self.group.exchange(self.rank, &call, Vec::new()).map(drop)
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

    fn exchange(
        &self,
        collective: Collective,
        send: &TensorRef<'_>,
        receives: &[usize],
        receive: &TensorMut<'_>,
    ) -> Result<Arc<Vec<Vec<u8>>>, ParallelError> {
        let call = Call { collective, dtype: send.dtype(), shape: send.shape().to_vec() };
        if (receive.dtype(), receive.shape()) != (send.dtype(), receives) {
            let (dtype, shape) = (receive.dtype(), receive.shape());
            return Err(self.give_up(format!("{call} needs {receives:?} to receive into, not {dtype} {shape:?}")));
        }
        let bytes = send.host_bytes().filter(|_| is_contiguous(send) && is_contiguous(&receive.as_ref()));
        let Some(bytes) = bytes else {
            return Err(self.give_up(format!("{call} needs contiguous tensors in host memory")));
        };
        let len = send.shape().iter().product::<usize>() * send.dtype().size();
        self.group.exchange(self.rank, &call, bytes[..len].to_vec())
    }

    /// Writes parts one after the other.
    fn write<'a>(
        &self,
        receive: &mut TensorMut<'_>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), ParallelError> {
        let Some(mut to) = receive.host_bytes_mut() else {
            return Err(self.give_up("a tensor to receive into is not in host memory".to_owned()));
        };
        for part in parts {
            let (here, rest) = to.split_at_mut(part.len());
            here.copy_from_slice(part);
            to = rest;
        }
        Ok(())
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        // those that wait for this rank, also where its thread panics
        self.group.abort(ParallelError::Left { rank: self.rank });
    }
}

fn is_contiguous(tensor: &TensorRef<'_>) -> bool {
    let mut elements = 1;
    tensor.shape().iter().zip(tensor.strides()).rev().all(|(&extent, &stride)| {
        let fits = extent <= 1 || stride == elements;
        elements *= extent as i64;
        fits
    })
}
