//! One look at every page of a table, which may have a quarter of a million of them.

/// Pages that are looked at and then copied, while they are near: 16 KB.
const AT_ONCE: usize = 4096;

/// Makes `to` a copy of the pages, in its memory. Gives the greatest, at least 0, and a negative number if one is negative.
pub(super) fn scan_into(pages: &[i32], to: &mut Vec<i32>) -> (i32, i32) {
    to.clear();
    to.reserve(pages.len());
    pages.chunks(AT_ONCE).fold((0, 0), |(most, signs), pages| {
        let (more, more_signs) = scan(pages);
        to.extend_from_slice(pages);
        (most.max(more), signs | more_signs)
    })
}

/// The greatest page, at least 0, and a negative number if one is negative.
pub(super) fn scan(pages: &[i32]) -> (i32, i32) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the instructions are there.
        return unsafe { with_avx2(pages) };
    }
    plainly(pages)
}

/// As [`plainly`]: the compiler takes eight pages at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(pages: &[i32]) -> (i32, i32) {
    plainly(pages)
}

#[inline(always)] // compiled for the instructions of its caller
fn plainly(pages: &[i32]) -> (i32, i32) {
    pages.iter().fold((0, 0), |(most, signs), &page| (most.max(page), signs | page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_say_the_same() {
        let mut copy = vec![1; 5];
        for len in [0, 1, 7, 8, 9, 64, 1000, AT_ONCE as i32, 3 * AT_ONCE as i32 + 5] {
            let mut pages: Vec<i32> = (0..len).map(|i| i * 7919 % 3001).collect();
            let most = pages.iter().copied().max().unwrap_or(0);
            let found = scan(&pages);
            assert!(found.0 == most && found.1 >= 0 && found == plainly(&pages));
            assert!(scan_into(&pages, &mut copy) == found && copy == pages);
            if let Some(page) = pages.last_mut() {
                *page = -5;
                assert!(scan(&pages).1 < 0 && plainly(&pages).1 < 0 && scan_into(&pages, &mut copy).1 < 0);
            }
        }
    }
}
