//! Bytes as numbers, for targets that take arrays.

/// A list of numbers below 250, as [`Numbers::list`] reads it: its length comes first.
pub(crate) fn list(numbers: &[u8]) -> Vec<u8> {
    [&[numbers.len() as u8], numbers].concat()
}

/// Reads small and large numbers from bytes; zeros at the end.
pub(crate) struct Numbers<'a>(pub(crate) &'a [u8]);

impl Numbers<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number that is small more often than not.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            250 => -1,
            251 => i32::MAX.into(),
            252 => i32::MIN.into(),
            253 => (1 << 30) - 1,
            254 => i64::from(u16::from_le_bytes([self.byte(), self.byte()])),
            255 => i64::from(i32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])),
            small => i64::from(small),
        }
    }

    pub(crate) fn i32(&mut self) -> i32 {
        self.number() as i32
    }

    /// A list of fewer than 24 numbers, made by `next`.
    pub(crate) fn list<T>(&mut self, mut next: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.byte() % 24;
        (0..count).map(|_| next(self)).collect()
    }
}
