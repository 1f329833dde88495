//! Whether two tensors share memory: decided on their elements, since those of two tensors may interleave, as the keys
//! and the values of one pool do.

use std::cmp::Reverse;

/// Steps of the search, which a few steps decide for views of one tensor. What more would be needed for counts as
/// shared.
const STEPS: u32 = 10_000;
/// Dimensions of two tensors, and the bytes of their elements.
const TERMS: usize = 2 * super::MAX_RANK + 1;

/// The bytes that the elements of a tensor take.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    on_device: bool,
    /// The first byte, and one past the last; equal without elements.
    begin: u64,
    end: u64,
    element: usize,
    shape: &'a [usize],
    strides: &'a [i64],
}

/// Some multiples of a distance in bytes: 0 to `most` times.
#[derive(Clone, Copy, Default)]
struct Term {
    step: u128,
    most: u128,
}

/// The sums of one multiple of each term.
struct Sums {
    terms: [Term; TERMS],
    /// The greatest sum of the terms from each on, and what all these sums are multiples of.
    greatest: [u128; TERMS + 1],
    divisor: [u128; TERMS + 1],
}

impl<'a> Reach<'a> {
    /// Those of elements of `element` bytes from an address on, by extents and by strides in elements, which are not
    /// negative. Memory of a device has other addresses than that of the host.
    #[must_use]
    pub fn new(on_device: bool, address: u64, element: usize, shape: &'a [usize], strides: &'a [i64]) -> Self {
        let dims = shape.iter().zip(strides);
        let last = dims.fold(0u64, |last, (&n, stride)| {
            last.saturating_add((n as u64).saturating_sub(1).saturating_mul(stride.unsigned_abs()))
        });
        let bytes = if shape.contains(&0) { 0 } else { last.saturating_add(1).saturating_mul(element as u64) };
        Reach { on_device, begin: address, end: address.saturating_add(bytes), element, shape, strides }
    }

    /// Whether both have a byte in common. True as well where the strides are so various that a search would take long.
    #[must_use]
    pub fn shares(&self, other: &Reach<'_>) -> bool {
        // most tensors are apart
        if !self.interleaves(other) {
            return false;
        }
        // offsets of one less those of the other are sums as well, counted from the last byte of the other
        let target = u128::from(other.end) - 1 - u128::from(self.begin);
        Sums::of(self.terms().chain(other.terms())).is_none_or(|sums| sums.contains(target))
    }

    /// Whether the bytes from the first to the last of both meet, be they of elements or between them.
    #[must_use]
    pub fn interleaves(&self, other: &Reach<'_>) -> bool {
        let has_elements = self.begin < self.end && other.begin < other.end;
        has_elements && self.begin < other.end && other.begin < self.end && self.on_device == other.on_device
    }

    /// What offsets of bytes are sums of. There are elements.
    fn terms(&self) -> impl Iterator<Item = Term> {
        let of = |(&n, &stride): (&usize, &i64)| {
            let step = u128::from(stride.unsigned_abs()) * self.element as u128;
            Term { step, most: n.saturating_sub(1) as u128 }
        };
        let bytes = Term { step: 1, most: self.element.saturating_sub(1) as u128 };
        self.shape.iter().zip(self.strides).map(of).chain([bytes])
    }
}

impl Sums {
    /// `None` for more terms than two tensors have.
    fn of(all: impl Iterator<Item = Term>) -> Option<Self> {
        let (mut terms, mut count) = ([Term::default(); TERMS], 0);
        for term in all.filter(|term| term.step > 0 && term.most > 0) {
            match terms[..count].iter_mut().find(|known| known.step == term.step) {
                Some(known) => known.most += term.most,
                None => {
                    *terms.get_mut(count)? = term;
                    count += 1;
                }
            }
        }
        terms[..count].sort_unstable_by_key(|term| Reverse(term.step));
        let (mut greatest, mut divisor) = ([0; TERMS + 1], [0; TERMS + 1]);
        for (i, term) in terms.iter().enumerate().rev() {
            greatest[i] = greatest[i + 1] + term.step * term.most;
            divisor[i] = gcd(divisor[i + 1], term.step);
        }
        Some(Sums { terms, greatest, divisor })
    }

    fn contains(&self, target: u128) -> bool {
        let mut steps = STEPS;
        self.search(0, target, &mut steps)
    }

    /// Whether a sum of the terms from `first` on is the target, or the steps are used up.
    fn search(&self, first: usize, target: u128, steps: &mut u32) -> bool {
        if target == 0 {
            return true;
        }
        if target > self.greatest[first] || !target.is_multiple_of(self.divisor[first]) {
            return false;
        }
        let (Term { step, most }, after) = (self.terms[first], self.greatest[first + 1]);
        let least = target.saturating_sub(after).div_ceil(step);
        for times in (least..=most.min(target / step)).rev() {
            *steps = steps.saturating_sub(1);
            if *steps == 0 || self.search(first + 1, target - times * step, steps) {
                return true;
            }
        }
        false
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses of all bytes.
    fn bytes(of: &Reach<'_>) -> std::collections::BTreeSet<u64> {
        let mut at = vec![of.begin];
        for (&n, &stride) in of.shape.iter().zip(of.strides) {
            at = at
                .iter()
                .flat_map(|at| (0..n as u64).map(move |i| at + i * stride as u64 * of.element as u64))
                .collect();
        }
        at.into_iter().flat_map(|at| at..at + of.element as u64).collect()
    }

    #[test]
    fn random_tensors_share_memory_where_they_have_a_byte_in_common() {
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let (mut shared, mut apart) = (0, 0);
        for _ in 0..20_000 {
            let [a, b] = [(); 2].map(|()| {
                let rank = 1 + next(3) as usize;
                let shape: Vec<usize> = (0..rank).map(|_| 1 + next(4) as usize).collect();
                let strides: Vec<i64> = (0..rank).map(|_| next(30) as i64).collect();
                (next(20), [1, 2, 4][next(3) as usize], shape, strides)
            });
            let [a, b] = [&a, &b].map(|(address, element, shape, strides)| {
                Reach::new(false, 0x100 + address * *element as u64, *element, shape, strides)
            });
            let want = !bytes(&a).is_disjoint(&bytes(&b));
            assert_eq!(a.shares(&b), want, "{a:?} and {b:?}");
            assert_eq!(b.shares(&a), want, "{b:?} and {a:?}");
            assert!(a.interleaves(&b) || !want, "{a:?} and {b:?}");
            if want { shared += 1 } else { apart += 1 }
        }
        assert!(shared > 1_000 && apart > 1_000, "{shared} and {apart}");
    }

    #[test]
    fn halves_of_one_pool_interleave_and_share_nothing() {
        // (pages, 2, slots, heads, dim) in f16, 2^20 pages
        let strides = [2 * 16 * 8 * 128, 8 * 128, 128, 1];
        let part = |address, shape| Reach::new(true, address, 2, shape, &strides);
        let (whole, half) = ([1 << 20, 16, 8, 128], [1 << 20, 16, 8, 64]);
        let values = 0x1000 + 2 * 16 * 8 * 128;
        let (k, v) = (part(0x1000, &whole), part(values, &whole));
        assert!(k.interleaves(&v) && !k.shares(&v) && !v.shares(&k));
        assert!(k.shares(&part(values - 2, &whole)), "the last element of a page of keys");
        // halves of rows, in other heads and in one
        assert!(!part(0x1000, &half).shares(&part(0x1000 + 128, &half)));
        assert!(part(0x1000, &half).shares(&part(0x1000 + 126, &half)));
        assert!(!part(0x1000, &half).shares(&part(values + 128, &half)));
    }

    #[test]
    fn what_would_take_long_counts_as_shared() {
        let steps = [7, 5, 3].map(|step| Term { step, most: 10 });
        let sums = Sums::of(steps.into_iter()).expect("few terms");
        assert!(sums.contains(41) && !sums.contains(1) && !sums.contains(149) && !sums.contains(151));
        assert!(sums.search(0, 149, &mut 1), "it may be one");
        assert!(Sums::of((1..20).map(|step| Term { step, most: 1 })).is_none(), "more dimensions than tensors have");
    }

    #[test]
    fn memory_of_another_kind_is_not_shared() {
        let at = |on_device, address, shape| Reach::new(on_device, address, 4, shape, &[1]);
        let host = at(false, 0x1000, &[4]);
        assert!(host.shares(&host) && !host.shares(&at(true, 0x1000, &[4])));
        assert!(!host.shares(&at(false, 0x1000, &[0])), "it has no elements");
        assert!(!host.shares(&at(false, 0x1010, &[4])) && host.shares(&at(false, 0x100f, &[4])));
    }
}
