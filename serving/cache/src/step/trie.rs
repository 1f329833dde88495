//! The page prefixes that neighbouring requests of a step share.

use std::ops::Range;

/// Groups within groups are followed to this depth. Deeper ones save little, and cost time on the host.
pub(super) const MAX_DEPTH: usize = 6;

/// Neighbouring requests and the pages that all of them share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) requests: Range<usize>,
    /// Pages at the start of each request that all share.
    pub(super) pages: usize,
    /// The group around it.
    pub(super) parent: Option<usize>,
    /// Groups around it.
    pub(super) depth: usize,
    /// Index of the next group that is not within it.
    pub(super) end: usize,
}

/// The groups of two requests or more, each before those within it. `common[i]` is how many whole pages request `i`
/// shares with the one before it.
pub(super) fn groups(common: &[usize], to: &mut Vec<Group>) {
    to.clear();
    if common.len() > 1 {
        add_groups(common, 0..common.len(), None, 0, to);
    }
}

fn add_groups(common: &[usize], requests: Range<usize>, parent: Option<usize>, begin: usize, to: &mut Vec<Group>) {
    let depth = parent.map_or(0, |parent| to[parent].depth + 1);
    let Some(pages) = common[requests.start + 1..requests.end].iter().copied().min() else { return };
    let group = if pages > begin {
        if depth == MAX_DEPTH {
            return;
        }
        to.push(Group { requests: requests.clone(), pages, parent, depth, end: 0 });
        Some(to.len() - 1)
    } else {
        parent
    };
    let mut first = requests.start;
    for next in requests.start + 1..=requests.end {
        if next == requests.end || common[next] == pages {
            if next - first > 1 {
                add_groups(common, first..next, group, pages, to);
            }
            first = next;
        }
    }
    if pages > begin
        && let Some(group) = group
    {
        to[group].end = to.len();
    }
}
