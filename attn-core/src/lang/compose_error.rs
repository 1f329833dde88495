//! Why parts do not compose, and what to write instead.

/// Why parts do not compose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ComposeError {
    /// Two parts replace the normaliser.
    #[error("`{first}` and `{second}` both change the normaliser; a composition takes one of them")]
    TwoNormalizers { first: String, second: String },
    /// A sink beside a plain normaliser, which has no denominator that a sink could enter.
    #[error("`{sink}` adds a sink, which needs a softmax; `{normalizer}` replaces it by plain weights")]
    SinkWithoutSoftmax {
        /// The part with `sink_logit`.
        sink: String,
        normalizer: String,
    },
    /// A part under `or` or `not` is not a mask.
    #[error(
        "`{combinator}` takes masks alone, and `{part}` has `{hook}`; compose it outside: `{combinator}(..) + {part}`"
    )]
    NotAMask {
        /// `or` or `not`.
        combinator: &'static str,
        part: String,
        hook: &'static str,
    },
    /// The map of `remap` rewrites no position.
    #[error(
        "`{part}` rewrites no position, so it cannot be the map of `remap`; give it `remap_qo_pos` or `remap_kv_pos` \
         (the map comes first)"
    )]
    NotAMap { part: String },
    /// A branch of a union has a hook that applies to all keys of a row.
    #[error(
        "a branch of `union` has `{part}`, whose `{hook}` is for all keys of a row; compose it outside: `union(..) + \
         {part}`"
    )]
    UnionBranch { part: String, hook: &'static str },
    /// A union stands inside another combinator.
    #[error("`union` cannot stand inside `{combinator}`; write it outside")]
    NestedUnion { combinator: &'static str },
    /// Two unions.
    #[error("a composition takes one `union`; write one with a branch for each pair of branches")]
    TwoUnions,
    /// A key list stands inside a combinator.
    #[error(
        "`{part}` has a key list, which cannot stand inside `{combinator}`; compose it outside: `{combinator}(..) + \
         {part}`"
    )]
    ListInside { combinator: &'static str, part: String },
    /// Two parts have key lists.
    #[error("`{first}` and `{second}` both have a key list; a composition takes one of them")]
    TwoLists { first: String, second: String },
    /// A key list stands beside a union.
    #[error("`{part}` has a key list, which does not go together with `union`; take one of them out")]
    ListAndUnion { part: String },
    /// Branches of `per_head` have different normalisers.
    #[error(
        "branches {first} and {second} of `per_head` make weights in different ways; move the part that changes the \
         normaliser out of `per_head`, or into every branch"
    )]
    BranchNormalizers { first: usize, second: usize },
    /// The table of `per_head` names a branch that does not exist.
    #[error("`per_head`: `heads[{head}]` is {branch}, and there are {branches} branches, numbered from 0")]
    NoSuchBranch { head: usize, branch: i32, branches: usize },
    /// `per_head` has no heads or no branches.
    #[error("`per_head` needs the branch of each query head and at least one branch: `per_head(heads=[0, 1], a, b)`")]
    EmptyPerHead,
    /// Query heads of one KV head have different branches, and a branch rewrites keys or values.
    #[error(
        "`per_head`: query heads {first} and {second} share KV head {kv_head} and are in different branches, but \
         `{part}` rewrites its keys or values; give the query heads of a KV head one branch"
    )]
    SplitGroup {
        first: usize,
        /// A query head of the same group.
        second: usize,
        kv_head: usize,
        part: String,
    },
}
