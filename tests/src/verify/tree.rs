//! Cases of verified trees: random drafts, run on the CPU, on a GPU and emulated.

mod run;

use attn_core::random;

use super::ProbRows;

/// Nodes of a tree in which all are siblings: more than a warp has lanes.
const SIBLINGS: usize = 71;

/// Trees of drafts, with the fields of [`TreeDrafts`](attn::sampling::TreeDrafts).
#[derive(Clone, Debug)]
pub struct TreeCase {
    /// For messages.
    pub name: String,
    target_probs: ProbRows,
    draft_ids: Vec<i32>,
    retrieve_index: Vec<i32>,
    retrieve_next_token: Vec<i32>,
    retrieve_next_sibling: Vec<i32>,
    threshold_single: f32,
    threshold_acc: f32,
    /// Slots that a device has as numbers out of range.
    slots_out_of_range: Vec<i32>,
    /// Whether a device has numbers out of range for tokens without probability, and for links to nowhere.
    links_out_of_range: bool,
}

impl TreeCase {
    /// Trees in which the parent of a node is one of the `reach` nodes before it.
    fn new(name: &str, [requests, nodes, vocab]: [usize; 3], gap: usize, reach: usize) -> TreeCase {
        let mut target_probs = ProbRows::random([requests, nodes, vocab], gap, 6, 2.0);
        let all = requests * nodes;
        let (mut draft_ids, mut next_token, mut next_sibling) = (vec![0; all], vec![-1; all], vec![-1; all]);
        for (request, node) in (0..requests).flat_map(|request| (1..nodes).map(move |node| (request, node))) {
            let first = request * nodes;
            let back = 1 + random::bits(1, 2, request as u32, node as u32) as usize % reach.min(node);
            let parent = node - back;
            draft_ids[first + node] = target_probs.draw(request, parent, node as u32);
            // the first child comes last
            next_sibling[first + node] = next_token[first + parent];
            next_token[first + parent] = node as i32;
        }
        TreeCase {
            name: format!("{name}, {requests} trees of {nodes}, {vocab} tokens"),
            target_probs,
            draft_ids,
            // every node has another slot
            retrieve_index: (0..all as i32).rev().collect(),
            retrieve_next_token: next_token,
            retrieve_next_sibling: next_sibling,
            threshold_single: 1.0,
            threshold_acc: 1.0,
            slots_out_of_range: Vec::new(),
            links_out_of_range: false,
        }
    }

    /// Requests, nodes of each, and tokens of the vocabulary.
    pub fn random(sizes: [usize; 3]) -> TreeCase {
        TreeCase::new("random", sizes, 0, 3)
    }

    /// No token has a probability.
    fn no_mass(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::new("no mass", [count, 6, vocab], 0, 3);
        case.target_probs.values.fill(0.0);
        case
    }

    fn no_probabilities(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::new("what is no probability", [count, 9, vocab], 1, 4);
        case.target_probs.spoil();
        case
    }

    /// All nodes are children of the root, and some have the same token; all tokens have little probability.
    fn many_siblings(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::new("many siblings", [count, SIBLINGS, vocab], 0, SIBLINGS);
        case.retrieve_next_token.fill(-1);
        for request in 0..count {
            let first = request * SIBLINGS;
            case.retrieve_next_token[first] = 1;
            for node in 1..SIBLINGS {
                case.retrieve_next_sibling[first + node] = if node + 1 < SIBLINGS { node as i32 + 1 } else { -1 };
            }
            case.target_probs.row(request, 0).fill(1.0 / vocab as f32);
        }
        case
    }

    /// Every draft is refused, and no other token has a probability.
    fn nothing_else(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::many_siblings(count, vocab);
        case.name.insert_str(0, "nothing else, ");
        for request in 0..count {
            let row = case.target_probs.row(request, 0);
            row.fill(0.0);
            for &token in &case.draft_ids[request * SIBLINGS..][..SIBLINGS] {
                row[token as usize] = 0.3 / SIBLINGS as f32;
            }
        }
        case
    }

    /// A sibling leads back to one before it.
    fn ring_of_siblings(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::many_siblings(count, vocab);
        case.name.insert_str(0, "a ring of siblings, ");
        case.retrieve_next_sibling.iter_mut().filter(|next| **next == 60).for_each(|next| *next = 20);
        for request in 0..count {
            case.target_probs.row(request, 0).iter_mut().for_each(|prob| *prob *= 0.01);
        }
        case
    }

    /// A child leads back to a node above it, and every draft is accepted.
    fn ring_of_children(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::new("a ring of children", [count, 5, vocab], 0, 1);
        case.threshold_single = 1e-6;
        case.retrieve_next_token.iter_mut().filter(|next| **next == 3).for_each(|next| *next = 1);
        case
    }

    fn slots_out_of_range(count: usize, vocab: usize) -> TreeCase {
        let case = TreeCase::new("lost slots", [count, 8, vocab], 0, 3);
        TreeCase { slots_out_of_range: (0..count as i32 * 8).step_by(3).collect(), ..case }
    }

    /// The last token, which has no probability, stands for drafts outside of the vocabulary.
    fn links_out_of_range(count: usize, vocab: usize) -> TreeCase {
        let mut case = TreeCase::new("wild numbers", [count, 12, vocab], 0, 5);
        case.links_out_of_range = true;
        case.draft_ids.iter_mut().step_by(4).for_each(|token| *token = vocab as i32 - 1);
        for (request, node) in (0..count).flat_map(|request| (0..12).map(move |node| (request, node))) {
            case.target_probs.row(request, node)[vocab - 1] = 0.0;
        }
        case
    }
}

/// Trees of every kind, also of what is none.
pub fn trees(count: usize, vocab: usize) -> Vec<TreeCase> {
    let new = |name, nodes, gap, reach| TreeCase::new(name, [count, nodes, vocab], gap, reach);
    vec![
        new("random", 9, 0, 4),
        new("a chain", 6, 0, 1),
        new("no draft", 1, 0, 1),
        new("odd strides", 7, 3, 3),
        new("even strides", 7, (8 - vocab % 4) % 8, 3),
        TreeCase { threshold_single: 0.05, ..new("accepted by themselves", 9, 0, 4) },
        TreeCase { threshold_acc: 0.4, ..new("accepted more often", 9, 0, 4) },
        TreeCase::no_mass(count, vocab),
        TreeCase::no_probabilities(count, vocab),
        TreeCase::many_siblings(count, vocab),
        TreeCase::nothing_else(count, vocab),
        TreeCase::ring_of_siblings(count, vocab),
        TreeCase::ring_of_children(count, vocab),
        TreeCase::slots_out_of_range(count, vocab),
        TreeCase::links_out_of_range(count, vocab),
    ]
}
