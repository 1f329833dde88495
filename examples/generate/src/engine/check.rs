//! Whether every page belongs to someone.

use attn_cache::{CacheError, Pages, Prefix, RELEASED, Sequence};

/// Checks the pages, the prefix tree, and that nothing but the tree and the sequences refers to a page.
pub(super) fn check<'a>(
    pages: &Pages,
    prefix: &Prefix,
    sequences: impl Iterator<Item = &'a Sequence>,
) -> Result<(), CacheError> {
    prefix.check()?;
    let mut holders = vec![0usize; pages.count()];
    for sequence in sequences {
        for &page in sequence.page_ids().iter().filter(|&&page| page != RELEASED) {
            holders[page as usize] += 1;
        }
    }
    let of_tree = |(page, &holders): (usize, &usize)| (page, pages.refs(page as i32) as i64 - holders as i64);
    let rest: Vec<_> = holders.iter().enumerate().map(of_tree).collect();
    if let Some((page, refs)) = rest.iter().find(|(_, refs)| !(0..=1).contains(refs)) {
        return Err(CacheError::Broken(format!("page {page} has {refs} references that no sequence has")));
    }
    let (held, cached) = (rest.iter().filter(|(_, refs)| *refs == 1).count(), prefix.stats().tokens);
    if held * pages.page_size() != cached {
        return Err(CacheError::Broken(format!("{held} pages are held beside sequences; {cached} tokens are cached")));
    }
    Ok(())
}
