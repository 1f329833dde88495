//! Arrays on a device that the host writes from step to step.

use attn::{
    Engine, Stream,
    ops::{Array, ArrayMut, Number, Numbers},
};

use crate::Error;

/// An array on a device, and what the host knows of it. Values that are there already are not copied again: in
/// decoding, most arrays of a step are those of the step before.
#[derive(Debug)]
pub struct Mirror<T> {
    numbers: Numbers<T>,
    known: Vec<T>,
    staged: Vec<T>,
}

impl<T: Number + PartialEq> Mirror<T> {
    /// An array of `len` entries.
    ///
    /// # Errors
    ///
    /// Out of memory.
    pub fn new(engine: &Engine, len: usize, value: T) -> Result<Self, Error> {
        let known = vec![value; len];
        Ok(Mirror { numbers: Numbers::upload(engine, &known)?, known, staged: Vec::with_capacity(len) })
    }

    /// Writes values and, after them, padding up to `len` entries, in the order of the stream. Later entries stay.
    ///
    /// # Errors
    ///
    /// More entries than there are, and failures of the device. What the host knows is then unreliable.
    pub fn write(
        &mut self,
        stream: &Stream,
        values: impl Iterator<Item = T>,
        len: usize,
        padding: T,
    ) -> Result<(), Error> {
        self.staged.clear();
        self.staged.extend(values);
        self.staged.resize(len.max(self.staged.len()), padding);
        if self.known.get(..len) != Some(&self.staged[..]) {
            self.numbers.write(stream, 0, &self.staged)?;
            self.known[..self.staged.len()].copy_from_slice(&self.staged);
        }
        Ok(())
    }

    /// Changes what the host knows of the first `len` entries, because a kernel changes them so.
    pub fn changed(&mut self, len: usize, by: impl Fn(T) -> T) {
        self.known.iter_mut().take(len).for_each(|value| *value = by(*value));
    }

    /// The array.
    #[must_use]
    pub fn numbers(&self) -> &Numbers<T> {
        &self.numbers
    }

    /// The first `len` entries, to read.
    ///
    /// # Errors
    ///
    /// More than there are.
    pub fn first(&self, len: usize) -> Result<Array<'_, T>, Error> {
        Ok(self.numbers.array().first(len).map_err(attn::Error::from)?)
    }

    /// The first `len` entries, for a kernel to write. [`Mirror::changed`] says how.
    ///
    /// # Errors
    ///
    /// More than there are.
    pub fn first_mut(&mut self, len: usize) -> Result<ArrayMut<'_, T>, Error> {
        Ok(self.numbers.array_mut().first(len).map_err(attn::Error::from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_has_what_was_written() {
        let engine = Engine::cpu();
        let stream = engine.stream().expect("a token");
        let mut mirror = Mirror::new(&engine, 4, 0i32).expect("memory");
        mirror.write(&stream, [1, 2].into_iter(), 3, -1).expect("it fits");
        assert_eq!(mirror.numbers().to_vec().expect("on the host"), [1, 2, -1, 0]);
        // a kernel adds 1 to two entries, so that the same values are written again
        mirror.numbers.write(&stream, 0, &[2, 3]).expect("it fits");
        mirror.changed(2, |value| value + 1);
        mirror.write(&stream, [2, 3].into_iter(), 2, -1).expect("it fits");
        mirror.write(&stream, [1, 2].into_iter(), 3, -1).expect("it fits");
        assert_eq!(mirror.numbers().to_vec().expect("on the host"), [1, 2, -1, 0]);
        mirror.write(&stream, [0; 5].into_iter(), 4, 0).expect_err("one too many");
        mirror.write(&stream, std::iter::empty(), 5, 0).expect_err("one too many");
    }
}
