//! The bytes of a stored row, and the row that is encoded.

use half::{bf16, f16};

use crate::lang::F8E4M3;

/// The bytes of a stored row's codes or side data, to read. Numbers are little endian; a number of `n` bytes lies at a
/// multiple of `n`, and reading it elsewhere panics.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a>(&'a [u8]);

/// Where a number of `N` bytes lies. Kernels fault elsewhere, so the CPU does not read it there either.
fn aligned<const N: usize>(at: i32) -> usize {
    let at = usize::try_from(at).expect("a place within the row");
    assert!(at.is_multiple_of(N), "a number of {N} bytes lies at byte {at}, which is no multiple of {N}");
    at
}

/// Panics if a part of a row is no runs of eight elements, of which kernels write whole words.
fn assert_runs(first: i32, len: i32) {
    assert!(first % 8 == 0 && len % 8 == 0, "elements {first} .. {first} + {len} are packed; both are multiples of 8");
}

impl<'a> Packed<'a> {
    /// The bytes of one row.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Packed(bytes)
    }
    fn bytes<const N: usize>(self, at: i32) -> [u8; N] {
        let at = aligned::<N>(at);
        self.0[at..at + N].try_into().expect("N bytes")
    }
    /// The byte at `at`.
    #[must_use]
    pub fn u8(self, at: i32) -> u32 {
        u32::from(self.bytes::<1>(at)[0])
    }
    /// Two bytes from `at`.
    #[must_use]
    pub fn u16(self, at: i32) -> u32 {
        u32::from(u16::from_le_bytes(self.bytes(at)))
    }
    /// Four bytes from `at`.
    #[must_use]
    pub fn u32(self, at: i32) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }
    /// Eight bytes from `at`, a multiple of 8, as two words.
    #[must_use]
    pub fn words2(self, at: i32) -> [u32; 2] {
        aligned::<8>(at);
        [self.u32(at), self.u32(at + 4)]
    }
    /// An f32 at `at`.
    #[must_use]
    pub fn f32(self, at: i32) -> f32 {
        f32::from_bits(self.u32(at))
    }
    /// An f16 at `at`.
    #[must_use]
    pub fn f16(self, at: i32) -> f32 {
        f16::from_le_bytes(self.bytes(at)).to_f32()
    }
    /// A bf16 at `at`.
    #[must_use]
    pub fn bf16(self, at: i32) -> f32 {
        bf16::from_le_bytes(self.bytes(at)).to_f32()
    }
    /// An e4m3 at `at`.
    #[must_use]
    pub fn e4m3(self, at: i32) -> f32 {
        F8E4M3(self.bytes::<1>(at)[0]).to_f32()
    }
    /// The eight e4m3 from `at`, a multiple of 8, each multiplied by `scale`. A kernel that multiplies in f16 scales
    /// them there where that gives the same numbers: if `scale` is an f16 from 2^-14 to 64.
    #[must_use]
    pub fn scaled_e4m3(self, at: i32, scale: f32) -> [f32; 8] {
        self.bytes::<8>(at).map(|code| F8E4M3(code).to_f32() * scale)
    }
    /// The power of two that the e8m0 at `at` stands for; NaN for 255. OCP Microscaling 1.0, section 5.4.1.
    #[must_use]
    pub fn e8m0(self, at: i32) -> f32 {
        match self.u8(at) {
            0 => f32::from_bits(1 << 22),
            255 => f32::NAN,
            exponent => f32::from_bits(exponent << 23),
        }
    }
}

/// The bytes of a stored row's codes or side data, to write: numbers as in [`Packed`]. A number is written once; bytes
/// that nothing writes are undefined. A NaN is stored as the positive quiet NaN without a payload.
#[derive(Debug)]
pub struct PackedMut<'a>(&'a mut [u8]);

impl<'a> PackedMut<'a> {
    /// The bytes of one row.
    #[must_use]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        PackedMut(bytes)
    }
    fn set<const N: usize>(&mut self, at: i32, bytes: [u8; N]) {
        let at = aligned::<N>(at);
        self.0[at..at + N].copy_from_slice(&bytes);
    }
    /// Writes the lowest byte of `x` at `at`.
    pub fn set_u8(&mut self, at: i32, x: u32) {
        self.set(at, [x as u8]);
    }
    /// Writes the lowest two bytes of `x` at `at`.
    pub fn set_u16(&mut self, at: i32, x: u32) {
        self.set(at, (x as u16).to_le_bytes());
    }
    /// Writes `x` at `at`.
    pub fn set_u32(&mut self, at: i32, x: u32) {
        self.set(at, x.to_le_bytes());
    }
    /// Writes `x` at `at`.
    pub fn set_f32(&mut self, at: i32, x: f32) {
        self.set(at, one_nan(x).to_le_bytes());
    }
    /// Writes `x` at `at`, rounded to the nearest f16, ties to even.
    pub fn set_f16(&mut self, at: i32, x: f32) {
        self.set(at, f16::from_f32(one_nan(x)).to_le_bytes());
    }
    /// Writes `x` at `at`, rounded to the nearest bf16, ties to even.
    pub fn set_bf16(&mut self, at: i32, x: f32) {
        self.set(at, bf16::from_f32(one_nan(x)).to_le_bytes());
    }
    /// Writes `x` at `at`, rounded to the nearest e4m3, ties to even; magnitudes above 448 become 448.
    pub fn set_e4m3(&mut self, at: i32, x: f32) {
        self.set(at, [F8E4M3::from_f32(one_nan(x)).0]);
    }
    /// Writes a code of 4 bits for each element `first .. first + len` of `x`: two to a byte from `at`, the lower
    /// element in the lower half. `code(d, x)` gives it in its lowest bits. `first` and `len` are multiples of 8.
    pub fn pack4<R: EncodeRow>(&mut self, at: i32, x: &R, first: i32, len: i32, code: impl Fn(i32, f32) -> u32) {
        assert_runs(first, len);
        for d in (0..len).step_by(2) {
            let [low, high] = [d, d + 1].map(|d| code(first + d, x.at(first + d)) & 15);
            self.set_u8(at + d / 2, low | high << 4);
        }
    }
    /// Writes a code of 8 bits for each element, as [`Self::pack4`].
    pub fn pack8<R: EncodeRow>(&mut self, at: i32, x: &R, first: i32, len: i32, code: impl Fn(i32, f32) -> u32) {
        assert_runs(first, len);
        for d in 0..len {
            self.set_u8(at + d, code(first + d, x.at(first + d)));
        }
    }
    /// Writes a code of 16 bits for each element, as [`Self::pack4`].
    pub fn pack16<R: EncodeRow>(&mut self, at: i32, x: &R, first: i32, len: i32, code: impl Fn(i32, f32) -> u32) {
        assert_runs(first, len);
        for d in 0..len {
            let code = code(first + d, x.at(first + d));
            self.set_u8(at + 2 * d, code);
            self.set_u8(at + 2 * d + 1, code >> 8);
        }
    }
}

/// The row that [`KvFormat::encode`](super::KvFormat::encode) stores, in f32. Reductions run over the elements
/// `first .. first + len` and give the same bits on every device.
pub trait EncodeRow {
    /// Elements of the row.
    fn dim(&self) -> i32;
    /// Element `d`. Encoders use the combinators of [`PackedMut`] instead.
    #[doc(hidden)]
    fn at(&self, d: i32) -> f32;
    /// Largest magnitude; NaN if one is NaN.
    fn max_abs(&self, first: i32, len: i32) -> f32;
    /// Largest value; NaN if one is NaN.
    fn max(&self, first: i32, len: i32) -> f32;
    /// Smallest value; NaN if one is NaN.
    fn min(&self, first: i32, len: i32) -> f32;
    /// Sum of `of(d, x)` in f32, as a tree: the values padded with zeros to a power of two, the upper half added to the
    /// lower half until one is left.
    fn sum(&self, first: i32, len: i32, of: impl Fn(i32, f32) -> f32) -> f32;
    /// Sum of the squares, as [`Self::sum`].
    fn sum_sq(&self, first: i32, len: i32) -> f32 {
        self.sum(first, len, |_, x| x * x)
    }
}

/// The row on the CPU.
impl EncodeRow for &[f32] {
    fn dim(&self) -> i32 {
        i32::try_from(self.len()).expect("head_dim is at most a few hundred")
    }
    fn at(&self, d: i32) -> f32 {
        self[d as usize]
    }
    fn max_abs(&self, first: i32, len: i32) -> f32 {
        // as integers: a NaN is larger than every number
        f32::from_bits(part(self, first, len).iter().map(|x| x.to_bits() & 0x7fff_ffff).max().unwrap_or(0))
    }
    fn max(&self, first: i32, len: i32) -> f32 {
        // the sum makes a negative zero positive, in any order
        part(self, first, len).iter().fold(f32::NEG_INFINITY, |m, &x| if x > m || x.is_nan() { x } else { m }) + 0.0
    }
    fn min(&self, first: i32, len: i32) -> f32 {
        part(self, first, len).iter().fold(f32::INFINITY, |m, &x| if x < m || x.is_nan() { x } else { m }) + 0.0
    }
    fn sum(&self, first: i32, len: i32, of: impl Fn(i32, f32) -> f32) -> f32 {
        let mut sums: Vec<f32> = (first..).zip(part(self, first, len)).map(|(d, &x)| of(d, x)).collect();
        sums.resize(sums.len().next_power_of_two(), 0.0);
        while sums.len() > 1 {
            let upper = sums.split_off(sums.len() / 2);
            sums.iter_mut().zip(upper).for_each(|(low, high)| *low += high);
        }
        sums[0]
    }
}

/// Arithmetic gives NaNs of other bits on other devices.
fn one_nan(x: f32) -> f32 {
    if x.is_nan() { f32::NAN } else { x }
}

fn part(row: &[f32], first: i32, len: i32) -> &[f32] {
    &row[first as usize..(first + len) as usize]
}

#[cfg(test)]
mod tests {
    use super::{EncodeRow, Packed, PackedMut};

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let mut bytes = [0; 16];
        let mut to = PackedMut::new(&mut bytes);
        to.set_f32(0, 1.5);
        to.set_f16(4, -f32::from_bits(0x7fc0_1234));
        to.set_bf16(6, -2.0);
        to.set_e4m3(8, 1e9);
        to.set_u8(9, 0x123);
        to.set_u16(10, 0x1_2345);
        to.set_u8(12, 127 + 3);
        to.set_u8(13, 0);
        assert_eq!(bytes[..12], [0, 0, 0xc0, 0x3f, 0, 0x7e, 0, 0xc0, 0x7e, 0x23, 0x45, 0x23]);
        let from = Packed::new(&bytes);
        assert_eq!(
            (from.f32(0), from.bf16(6), from.e4m3(8), from.u8(9), from.u16(10)),
            (1.5, -2.0, 448.0, 0x23, 0x2345)
        );
        assert!(from.f16(4).is_nan());
        assert_eq!((from.e8m0(12), from.e8m0(13)), (8.0, 2f32.powi(-127)));
        assert_eq!(from.words2(8), [from.u32(8), from.u32(12)]);
        assert_eq!(from.scaled_e4m3(8, 0.5).map(|x| x * 2.0), std::array::from_fn(|i| from.e4m3(8 + i as i32)));
    }

    #[test]
    fn codes_lie_in_the_order_of_the_elements() {
        let values: Vec<f32> = (0..16u8).map(f32::from).collect();
        let row = &values[..];
        let mut bytes = [0xff; 20];
        let mut to = PackedMut::new(&mut bytes);
        to.pack4(1, &row, 8, 8, |d, x| (d + x as i32) as u32);
        to.pack8(8, &row, 0, 8, |_, x| x as u32);
        assert_eq!(bytes[..5], [0xff, 0x20, 0x64, 0xa8, 0xec]);
        assert_eq!(bytes[5..16], [0xff, 0xff, 0xff, 0, 1, 2, 3, 4, 5, 6, 7]);
        let mut bytes = [0; 16];
        PackedMut::new(&mut bytes).pack16(0, &row, 8, 8, |_, x| 0x100 + x as u32);
        assert_eq!(bytes[..4], [8, 1, 9, 1]);
    }

    #[test]
    #[should_panic(expected = "a number of 4 bytes lies at byte 2")]
    fn numbers_lie_at_multiples_of_their_bytes() {
        let _ = Packed::new(&[0; 8]).f32(2);
    }

    #[test]
    #[should_panic(expected = "elements 0 .. 0 + 12 are packed")]
    fn whole_runs_are_packed() {
        PackedMut::new(&mut [0; 16]).pack4(0, &&[0.0; 16][..], 0, 12, |_, _| 0);
    }

    #[test]
    fn reductions_do_not_depend_on_an_order() {
        let row = &[3.0f32, -4.0, -0.0, 0.0, 1e-3, 2.0, 0.5, -1.0][..];
        assert_eq!((row.max_abs(0, 8), row.max(0, 8), row.min(0, 8)), (4.0, 3.0, -4.0));
        assert_eq!([row.max(2, 2), row.min(2, 2)].map(f32::to_bits), [0, 0]);
        let tree = ((9.0f32 + 1e-3 * 1e-3) + (0.0 + 0.25)) + ((16.0 + 4.0) + (0.0 + 1.0));
        assert_eq!(row.sum_sq(0, 8), tree);
        assert_eq!(row.sum_sq(0, 3), 25.0);
        assert_eq!(row.sum(4, 3, |d, x| x + d as f32), (1e-3 + 4.0 + 6.5) + 7.0);
        let nan = &[1.0, f32::NAN, 5.0][..];
        assert!([nan.max_abs(0, 3), nan.max(0, 3), nan.min(0, 3)].iter().all(|x| x.is_nan()));
    }
}
