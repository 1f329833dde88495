//! Scans page tables in one pass; they may have hundreds of thousands of entries.

/// Entries per chunk, which is scanned and copied while it is in the L1 cache: 16 KB.
const CHUNK: usize = 4096;

/// What pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Scanned {
    /// The greatest page, or 0.
    pub(super) most: i32,
    /// Negative if any page is.
    pub(super) signs: i32,
}

impl Scanned {
    fn and(self, most: i32, signs: i32) -> Scanned {
        Scanned { most: self.most.max(most), signs: self.signs | signs }
    }
}

/// Scans pages, and copies them to `to`, reusing its memory.
pub(super) fn scan_into(pages: &[i32], to: &mut Vec<i32>) -> Scanned {
    to.clear();
    to.reserve(pages.len());
    pages.chunks(CHUNK).fold(Scanned::default(), |all, pages| {
        let Scanned { most, signs } = scan(pages);
        to.extend_from_slice(pages);
        all.and(most, signs)
    })
}

/// Scans pages.
pub(super) fn scan(pages: &[i32]) -> Scanned {
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
fn scan_avx2(pages: &[i32]) -> Scanned {
    scan_portable(pages)
}

#[inline(always)] // compiled for the instructions of its caller
fn scan_portable(pages: &[i32]) -> Scanned {
    pages.iter().fold(Scanned::default(), |all, &page| all.and(page, page))
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
            assert!(found.most == most && found.signs >= 0 && found == scan_portable(&pages));
            assert!(scan_into(&pages, &mut copy) == found && copy == pages);
            if let Some(page) = pages.last_mut() {
                *page = -5;
                let all = [scan(&pages), scan_portable(&pages), scan_into(&pages, &mut copy)];
                assert!(all.iter().all(|scanned| scanned.signs < 0));
            }
        }
    }
}
