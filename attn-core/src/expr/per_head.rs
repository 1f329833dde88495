//! `per_head`: a table of the branch of each query head.

use super::tree::{PerHeadNode, Variant};
use crate::lang::params::{ArgVisitor, ParamField};
use crate::lang::{BindError, ComposeError, Dims, Hook, Tensor1};

impl PerHeadNode {
    pub(super) fn new(heads: Vec<i32>, branches: Vec<Variant>) -> Self {
        PerHeadNode { heads: heads.into(), kv_heads: None, branches }
    }

    /// The number of the branch of each query head.
    #[must_use]
    pub fn heads(&self) -> &[i32] {
        &self.heads
    }

    /// The number of the branch of each KV head, where a branch rewrites keys or values; known after binding.
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

    /// Whether a branch rewrites keys or values. Then all query heads of a KV head must have the same branch.
    #[must_use]
    pub fn rewrites_keys(&self) -> bool {
        self.branches.iter().any(|b| b.has(Hook::KeyTransform) || b.has(Hook::ValueTransform))
    }

    /// The number of the branch of a query head. The head is clamped into the table, like an index of a parameter
    /// tensor.
    #[must_use]
    pub fn number_of(&self, qo_head: i32) -> usize {
        look_up(&self.heads, qo_head)
    }

    /// The branch of a query head.
    pub(super) fn branch(&self, qo_head: i32) -> Option<&Variant> {
        self.branches.get(self.number_of(qo_head))
    }

    /// The branch of a KV head; the first one while the number of KV heads is unknown.
    pub(super) fn kv_branch(&self, kv_head: i32) -> Option<&Variant> {
        self.branches.get(self.kv_heads.as_deref().map_or(0, |table| look_up(table, kv_head)))
    }

    /// The distinct branches of query heads `min..=max`, in order.
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

    /// Checks the table against the head counts, as far as they are known, and derives the branches of KV heads.
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

    /// Visits the tables as kernel arguments, before the arguments of the branches: the branch of each query head and,
    /// if a branch rewrites keys or values, of each KV head.
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
