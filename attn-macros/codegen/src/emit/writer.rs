//! The text of one function during emission: lines, names, and facts about locals.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{cpp_type::spelled, interval::Intervals};
use crate::ir::{Function, LocalId};
use crate::report::{self, Report};
use crate::types::{Ty, Types};

/// Writes the C++ text of one function.
pub(crate) struct CudaWriter<'a> {
    pub(super) types: &'a Types,
    pub(super) function: &'a Function,
    pub(super) report: &'a mut Report,
    pub(super) out: String,
    pub(super) indent: usize,
    pub(super) intervals: Intervals<'a>,
    /// Locals that are written as another expression.
    pub(super) aliases: HashMap<LocalId, String>,
    /// Immutable locals that hold a scalar parameter.
    pub(super) params: HashMap<LocalId, String>,
    /// The logit argument of a transform, not yet scaled ([`logit_factor`](super::logit_factor)).
    pub(super) logit: Option<LocalId>,
    /// What stands before the language's functions: `lang::` in other namespaces, which may have functions of the same
    /// names.
    pub(super) prefix: &'a str,
    /// Whether the result has the same bits on every device: products of floats are calls that no compiler fuses with a
    /// sum.
    pub(super) exact: bool,
    pub(super) used: &'a mut Used,
}

/// The parameters and features that the functions of an item use.
#[derive(Debug, Default)]
pub struct Used {
    /// Parameters that are read.
    pub params: BTreeSet<String>,
    /// Parameters that integers are divided by, and the first such division.
    pub divisors: BTreeMap<String, report::SpanRange>,
    /// Parameters that are compared: the comparison may exclude 0.
    pub compared: BTreeSet<String>,
    /// Whether anything is stored to an output tensor.
    pub stores: bool,
    /// Whether the position of a key's block in its list (`kv_slot`) is read.
    pub slots: bool,
}

impl Used {
    /// Records that a parameter is read.
    pub(super) fn read(&mut self, name: &str) {
        self.params.insert(name.strip_prefix("r#").unwrap_or(name).to_owned());
    }
}

impl CudaWriter<'_> {
    pub(super) fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    pub(super) fn name(&self, local: LocalId) -> String {
        self.aliases.get(&local).cloned().unwrap_or_else(|| self.function.locals[local].name.clone())
    }

    pub(super) fn settled(&self, ty: &Ty) -> Ty {
        self.types.settled(ty)
    }

    /// The C++ type of a local.
    pub(super) fn declared(&self, local: LocalId) -> Option<String> {
        spelled(&self.function.locals[local].ty, self.types)
    }

    /// Text that is written separately, one level deeper.
    pub(super) fn nested_text(&mut self, f: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.out);
        self.indent += 1;
        f(self);
        self.indent -= 1;
        std::mem::replace(&mut self.out, before)
    }
}
