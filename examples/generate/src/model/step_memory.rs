//! What the host tells a device in each step.

use std::marker::PhantomData;

use attn::{
    Engine, Stream, TensorError,
    ops::{Array, ArrayMut, DeviceArray, Number, Staging},
};

use crate::Error;

/// The arrays of a step, in one piece of memory that one copy brings to the device: tokens and where they go, and how
/// tokens are drawn. A step clears it, puts its arrays and uploads them. Steps that put as many entries have their
/// arrays at the same addresses, as graphs need.
#[derive(Debug)]
pub struct StepMemory {
    /// The arrays on the host, each of whole words.
    image: Vec<u64>,
    capacity: usize,
    /// `None` on the CPU, which reads the image.
    device: Option<(DeviceArray<u64>, Staging)>,
}

/// An array of a [`StepMemory`], from the step that put it. By default it has no entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part<T> {
    /// Its first word.
    first: usize,
    len: usize,
    of: PhantomData<T>,
}

impl StepMemory {
    /// Words of an array of `len` entries, for [`StepMemory::new`].
    pub fn words<T>(len: usize) -> usize {
        (len * size_of::<T>()).div_ceil(size_of::<u64>())
    }

    /// Memory of `words` words.
    pub fn new(engine: &Engine, words: usize) -> Result<Self, Error> {
        let device = || Ok::<_, Error>((DeviceArray::zeroed(engine, words)?, Staging::new(engine, 8 * words)?));
        let device = if engine.is_cpu() { None } else { Some(device()?) };
        Ok(StepMemory { image: Vec::with_capacity(words), capacity: words, device })
    }

    /// Forgets all arrays.
    pub fn clear(&mut self) {
        self.image.clear();
    }

    /// Puts an array of these values and, after them, padding up to `len` entries.
    pub fn put<T: Number>(
        &mut self,
        values: impl IntoIterator<Item = T>,
        len: usize,
        padding: T,
    ) -> Result<Part<T>, Error> {
        let first = self.image.len();
        let end = first + Self::words::<T>(len);
        if end > self.capacity {
            let (extent, len) = (end as u64, self.capacity as u64);
            return Err(attn::Error::from(TensorError::Extent { extent, len }).into());
        }
        self.image.resize(end, 0);
        let to = &mut bytemuck::cast_slice_mut::<u64, T>(&mut self.image[first..])[..len];
        let mut values = values.into_iter();
        to.iter_mut().for_each(|to| *to = values.next().unwrap_or(padding));
        if values.next().is_some() {
            self.image.truncate(first);
            let (extent, len) = (len as u64 + 1, len as u64);
            return Err(attn::Error::from(TensorError::Extent { extent, len }).into());
        }
        Ok(Part { first, len, of: PhantomData })
    }

    /// Copies all arrays to the device, in the order of the stream.
    pub fn upload(&mut self, stream: &Stream) -> Result<(), Error> {
        match &mut self.device {
            Some((numbers, staging)) => Ok(staging.write(stream, numbers, &self.image)?),
            None => Ok(()),
        }
    }

    /// The arrays to read.
    pub fn view(&self) -> StepView<'_> {
        StepView { image: &self.image, device: self.device.as_ref().map(|(numbers, _)| numbers.array()) }
    }

    /// The array that was put last, for a kernel to change, and those before it to read.
    pub fn split_last<T: Number>(&mut self, last: Part<T>) -> (StepView<'_>, ArrayMut<'_, T>) {
        let device = self.device.as_ref().map(|(numbers, _)| numbers.array());
        let first = last.first.min(self.image.len());
        let (image, rest) = self.image.split_at_mut(first);
        let words = Self::words::<T>(last.len);
        let own = rest.get_mut(..words).map_or(&mut [][..], |words| &mut bytemuck::cast_slice_mut(words)[..last.len]);
        let own = match &device {
            None => ArrayMut::host(own),
            Some(words) => {
                let at = words.device_ptr().unwrap_or(0) + 8 * first as u64;
                // SAFETY: the array has at least the words of the image, of which these are a part. The borrow is
                // exclusive, and the view ends before.
                let array = unsafe { ArrayMut::device(at, own.len()) };
                match words.owner() {
                    Some(owner) => array.owned_by(owner),
                    None => array,
                }
            }
        };
        (StepView { image, device }, own)
    }
}

/// The arrays of a [`StepMemory`].
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    image: &'a [u64],
    device: Option<Array<'a, u64>>,
}

impl<'a> StepView<'a> {
    /// An array. One that was not put since the last [`StepMemory::clear`] has no entries.
    pub fn array<T: Number>(&self, part: Part<T>) -> Array<'a, T> {
        let Part { first, len, .. } = part;
        let Some(words) = self.image.get(first..first + StepMemory::words::<T>(len)) else { return Array::host(&[]) };
        match &self.device {
            None => Array::host(&bytemuck::cast_slice(words)[..len]),
            Some(words) => {
                let at = words.device_ptr().unwrap_or(0) + 8 * first as u64;
                // SAFETY: the array has at least the words of the image, of which these are a part.
                let array = unsafe { Array::device(at, len) };
                words.owner().map_or(array, |owner| array.owned_by(owner))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_beside_each_other() {
        let engine = Engine::cpu();
        let words = StepMemory::words::<i32>(3) + StepMemory::words::<i64>(2);
        let mut memory = StepMemory::new(&engine, words).expect("memory");
        let tokens = memory.put([1, 2], 3, -1i32).expect("it fits");
        let slots = memory.put([5], 2, -1i64).expect("it fits");
        memory.upload(&engine.stream().expect("a token")).expect("nothing to do");
        assert_eq!(memory.view().array(tokens).as_host(), Some(&[1, 2, -1][..]));
        assert_eq!(memory.view().array(slots).as_host(), Some(&[5, -1][..]));
        let (before, last) = memory.split_last(slots);
        assert_eq!((before.array(tokens).len(), before.array(slots).len(), last.len()), (3, 0, 2));
        memory.put([0], 1, 0u64).expect_err("there is no memory left");
        memory.clear();
        memory.put([0; 3], 2, 0i32).expect_err("one too many");
        assert!(memory.view().array(slots).is_empty(), "it was not put");
        assert_eq!(memory.put([7, 8], 2, 0i64).expect("it fits"), Part { first: 0, len: 2, of: PhantomData });
    }
}
