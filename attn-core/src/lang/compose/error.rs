//! What does not go together, and what to write instead.

/// Parts that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// Two normalisers.
    #[error("`{first}` and `{second}` both change the normaliser; a composition takes one of them")]
    TwoNormalizers {
        /// The earlier part.
        first: String,
        /// The later part.
        second: String,
    },
    /// A sink enters a denominator, and a plain normaliser keeps none that it could enter.
    #[error("`{sink}` adds a sink, which needs a softmax; `{normalizer}` replaces it by plain weights")]
    SinkWithoutSoftmax {
        /// The part with `sink_logit`.
        sink: String,
        /// The part with the normaliser.
        normalizer: String,
    },
    /// Something else than a mask under `or` or `not`.
    #[error(
        "`{combinator}` takes masks alone, and `{part}` has `{hook}`; compose it outside: `{combinator}(..) + {part}`"
    )]
    NotAMask {
        /// `or` or `not`.
        combinator: &'static str,
        /// The part.
        part: String,
        /// What it has.
        hook: &'static str,
    },
    /// A map that maps nothing.
    #[error(
        "`{part}` rewrites no position, so it cannot be the map of `remap`; give it `remap_qo_pos` or `remap_kv_pos` (the map comes first)"
    )]
    NotAMap {
        /// The part.
        part: String,
    },
    /// Something that the arms of a union share, in one arm.
    #[error(
        "an arm of `union` has `{part}`, whose `{hook}` is for all keys of a row; compose it outside: `union(..) + {part}`"
    )]
    Arm {
        /// The part.
        part: String,
        /// What it has.
        hook: &'static str,
    },
    /// A union inside another combinator.
    #[error("`union` cannot stand inside `{combinator}`; write it outside")]
    NestedUnion {
        /// What is around it.
        combinator: &'static str,
    },
    /// Two unions.
    #[error("a composition takes one `union`; write one with an arm for each pair of arms")]
    TwoUnions,
    /// A key list inside a combinator.
    #[error(
        "`{part}` has a key list, which cannot stand inside `{combinator}`; compose it outside: `{combinator}(..) + {part}`"
    )]
    ListInside {
        /// What is around it.
        combinator: &'static str,
        /// The part.
        part: String,
    },
    /// Two key lists.
    #[error("`{first}` and `{second}` both have a key list; a composition takes one of them")]
    TwoLists {
        /// The earlier part.
        first: String,
        /// The later part.
        second: String,
    },
    /// Key lists and unions.
    #[error("`{part}` has a key list, which does not go together with `union`; take one of them out")]
    ListAndUnion {
        /// The part with the list.
        part: String,
    },
    /// Branches whose weights are made in different ways.
    #[error(
        "branches {first} and {second} of `per_head` make weights in different ways; move the part that changes the normaliser out of `per_head`, or into every branch"
    )]
    BranchNormalizers {
        /// Number of a branch.
        first: usize,
        /// Number of another.
        second: usize,
    },
    /// A head without branch.
    #[error("`per_head`: `heads[{head}]` is {branch}, and there are {branches} branches, numbered from 0")]
    NoSuchBranch {
        /// The query head.
        head: usize,
        /// What was given for it.
        branch: i32,
        /// How many branches there are.
        branches: usize,
    },
    /// No heads or no branches.
    #[error("`per_head` needs the branch of each query head and at least one branch: `per_head(heads=[0, 1], a, b)`")]
    EmptyPerHead,
    /// Query heads of one KV head in different branches, of which one rewrites keys or values.
    #[error(
        "`per_head`: query heads {first} and {second} share KV head {kv_head} and are in different branches, but `{part}` rewrites its keys or values; give the query heads of a KV head one branch"
    )]
    SplitGroup {
        /// A query head.
        first: usize,
        /// A query head of the same group.
        second: usize,
        /// The KV head.
        kv_head: usize,
        /// The part that rewrites keys or values.
        part: String,
    },
}
