//! Scans page tables in one pass; they may have hundreds of thousands of entries.

/// Entries per chunk, which is scanned and copied while it is in the L1 cache: 16 KB.
const CHUNK: usize = 4096;

/// Copies the pages to `to`, reusing its memory. Returns two numbers: the greatest page (at least 0), and a number that
/// is negative if any page is.
pub(super) fn scan_into(pages: &[i32], to: &mut Vec<i32>) -> (i32, i32) {
    to.clear();
    to.reserve(pages.len());
    pages.chunks(CHUNK).fold((0, 0), |(most, signs), pages| {
        let (more, more_signs) = scan(pages);
        to.extend_from_slice(pages);
        (most.max(more), signs | more_signs)
    })
}

/// Returns two numbers: the greatest page (at least 0), and a number that is negative if any page is.
pub(super) fn scan(pages: &[i32]) -> (i32, i32) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { scan_avx2(pages) };
    }
    scan_portable(pages)
}

/// A vectorised [`scan_portable`]: the compiler takes eight pages at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn scan_avx2(pages: &[i32]) -> (i32, i32) {
    scan_portable(pages)
}

#[inline(always)] // compiled for the instructions of its caller
fn scan_portable(pages: &[i32]) -> (i32, i32) {
    pages.iter().fold((0, 0), |(most, signs), &page| (most.max(page), signs | page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectorised_and_portable_scans_agree() {
        let mut copy = vec![1; 5];
        for len in [0, 1, 7, 8, 9, 64, 1000, CHUNK as i32, 3 * CHUNK as i32 + 5] {
            let mut pages: Vec<i32> = (0..len).map(|i| i * 7919 % 3001).collect();
            let most = pages.iter().copied().max().unwrap_or(0);
            let found = scan(&pages);
            assert!(found.0 == most && found.1 >= 0 && found == scan_portable(&pages));
            assert!(scan_into(&pages, &mut copy) == found && copy == pages);
            if let Some(page) = pages.last_mut() {
                *page = -5;
                assert!(scan(&pages).1 < 0 && scan_portable(&pages).1 < 0 && scan_into(&pages, &mut copy).1 < 0);
            }
        }
    }
}
