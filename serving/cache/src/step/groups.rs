//! Groups of neighbouring requests of a step that share pages: the candidates for levels of a cascade (`levels`).
//! Groups lie within groups, as the nodes of a trie of page tables: requests 0 to 5 may share two pages, and 0 to 2 of
//! them five.

use std::ops::Range;

/// Groups within groups are followed to this depth. Deeper ones save little, and cost time on the host.
pub(super) const MAX_DEPTH: usize = 6;

/// Neighbouring requests and the pages that all of them share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) requests: Range<usize>,
    /// Pages at the start of each request that all share, those of the group around it included.
    pub(super) pages: usize,
    /// The index of the group around it.
    pub(super) parent: Option<usize>,
    /// How many groups are around it.
    pub(super) depth: usize,
    /// The groups within it are those behind it, up to this index.
    pub(super) end: usize,
}

/// Writes the groups of two requests or more, each before those within it. `common[i]` is how many whole pages request
/// `i` shares with the one before it.
pub(super) fn groups(common: &[usize], to: &mut Vec<Group>) {
    to.clear();
    if common.len() > 1 {
        add_groups(common, 0..common.len(), None, 0, to);
    }
}

/// Adds the group of `requests`, if they share more than the `outer_pages` of its `parent`, and those within it.
fn add_groups(
    common: &[usize],
    requests: Range<usize>,
    parent: Option<usize>,
    outer_pages: usize,
    to: &mut Vec<Group>,
) {
    let depth = parent.map_or(0, |parent| to[parent].depth + 1);
    // what all share is the least that two neighbours share
    let Some(pages) = common[requests.start + 1..requests.end].iter().copied().min() else { return };
    let is_group = pages > outer_pages;
    if is_group && depth == MAX_DEPTH {
        return;
    }
    let group = is_group.then_some(to.len());
    if is_group {
        to.push(Group { requests: requests.clone(), pages, parent, depth, end: 0 });
    }
    // neighbours that share no more than all do are in different inner groups
    let mut first = requests.start;
    for next in requests.start + 1..=requests.end {
        if next == requests.end || common[next] == pages {
            if next - first > 1 {
                add_groups(common, first..next, group.or(parent), pages, to);
            }
            first = next;
        }
    }
    if let Some(group) = group {
        to[group].end = to.len();
    }
}
