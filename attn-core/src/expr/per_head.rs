//! A branch for each query head.

use std::sync::Arc;

use super::variant::Variant;
use crate::lang::params::{ArgVisitor, ParamField};
use crate::lang::{BindError, ComposeError, Dims, Hook, Tensor1};

/// `per_head(heads=[0, 0, 1, 1], a, b)`: query heads 0 and 1 have the hooks of `a`, 2 and 3 those of `b`.
#[derive(Clone, Debug)]
pub struct PerHead {
    heads: Arc<[i32]>,
    /// The same by KV head, once that is known to make sense: for hooks of keys and values.
    kv_heads: Option<Arc<[i32]>>,
    branches: Vec<Variant>,
}

impl PerHead {
    pub(super) fn new(heads: Vec<i32>, branches: Vec<Variant>) -> Self {
        PerHead { heads: heads.into(), kv_heads: None, branches }
    }

    /// The number of a branch for each query head.
    #[must_use]
    pub fn heads(&self) -> &[i32] {
        &self.heads
    }

    /// The same for each KV head, where a branch rewrites keys or values: known once it is bound.
    #[must_use]
    pub fn kv_heads(&self) -> Option<&[i32]> {
        self.rewrites_keys().then(|| self.kv_heads.as_deref().unwrap_or(&[0]))
    }

    /// The branches in order.
    #[must_use]
    pub fn branches(&self) -> &[Variant] {
        &self.branches
    }

    pub(super) fn branches_mut(&mut self) -> &mut [Variant] {
        &mut self.branches
    }

    /// Whether a branch rewrites keys or values: all query heads of a KV head then have one branch.
    #[must_use]
    pub fn rewrites_keys(&self) -> bool {
        self.branches.iter().any(|b| b.has(Hook::KeyTransform) || b.has(Hook::ValueTransform))
    }

    /// Number of the branch of a query head. A head outside is clamped into the table, as indices of captured tensors are.
    #[must_use]
    pub fn number_of(&self, qo_head: i32) -> usize {
        look_up(&self.heads, qo_head)
    }

    /// The branch of a query head.
    pub(super) fn branch(&self, qo_head: i32) -> Option<&Variant> {
        self.branches.get(self.number_of(qo_head))
    }

    /// The branch of a KV head; the first one, while the number of KV heads is not known.
    pub(super) fn kv_branch(&self, kv_head: i32) -> Option<&Variant> {
        self.branches.get(self.kv_heads.as_deref().map_or(0, |table| look_up(table, kv_head)))
    }

    /// Numbers of the branches that query heads `min` to `max` have, each once.
    pub(super) fn numbers_of(&self, min: i32, max: i32) -> Vec<usize> {
        let last = self.heads.len().saturating_sub(1) as i32;
        let mut numbers: Vec<usize> = match min <= max {
            true => (min.clamp(0, last)..=max.clamp(0, last)).map(|head| self.number_of(head)).collect(),
            false => Vec::new(),
        };
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Checks that every head has a branch.
    pub(crate) fn check(&self) -> Result<(), ComposeError> {
        if self.heads.is_empty() || self.branches.is_empty() {
            return Err(ComposeError::EmptyPerHead);
        }
        let branches = self.branches.len();
        match self.heads.iter().position(|&b| usize::try_from(b).map_or(true, |b| b >= branches)) {
            Some(head) => Err(ComposeError::NoSuchBranch { head, branch: self.heads[head], branches }),
            None => Ok(()),
        }
    }

    /// Checks the table against the heads of the attention, as far as they are known, and finds the branches of KV heads.
    pub(super) fn bind(&mut self, dims: &Dims) -> Result<(), BindError> {
        let got = self.heads.len() as i64;
        if let Some(want) = dims.qo_heads.filter(|&want| want != got) {
            let (name, shape) = ("heads".to_owned(), "qo_heads".to_owned());
            let source = Box::new(BindError::Shape { name, shape, want: vec![want], got: vec![got] });
            return Err(BindError::Part { variant: "per_head".to_owned(), source });
        }
        let rewriting = |hook| self.branches.iter().flat_map(Variant::parts).find(|part| part.desc().has(hook));
        let rewriting = rewriting(Hook::KeyTransform).or_else(|| rewriting(Hook::ValueTransform));
        if let (Some(part), Some(kv_heads)) = (rewriting, dims.kv_heads) {
            let group = usize::try_from(got / kv_heads.max(1)).unwrap_or(0).max(1);
            let split = |(_, heads): &(usize, &[i32])| heads.iter().any(|b| *b != heads[0]);
            if let Some((kv_head, heads)) = self.heads.chunks(group).enumerate().find(split) {
                let second = heads.iter().position(|b| *b != heads[0]).unwrap_or(0);
                let (first, part) = (kv_head * group, part.desc().name.to_owned());
                return Err(ComposeError::SplitGroup { first, second: first + second, kv_head, part }.into());
            }
            self.kv_heads = Some(self.heads.chunks(group).map(|heads| heads[0]).collect());
        }
        Ok(())
    }

    /// Visits the tables as kernel arguments, before those of the branches: the branch of each query head, and, if a branch
    /// rewrites keys or values, that of each KV head.
    pub fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        Tensor1::from(&*self.heads).visit(visitor);
        if let Some(kv_heads) = self.kv_heads() {
            Tensor1::from(kv_heads).visit(visitor);
        }
    }
}

fn look_up(table: &[i32], head: i32) -> usize {
    let last = table.len().saturating_sub(1);
    let head = usize::try_from(head).unwrap_or(0).min(last);
    table.get(head).map_or(0, |&branch| usize::try_from(branch).unwrap_or(0))
}
