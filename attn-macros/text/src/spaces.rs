//! Index spaces: the checks that rustc evaluates as constants, `attn_core::lang::lints::spaces`.

use attn_codegen::parse;
use attn_codegen::spaces::{Condition, Deferred, Refusal, Summary};
use attn_core::lang::FieldDesc;
use attn_core::lang::lints::spaces::{self, Spaces};

use crate::{kept::kept_list, module::Module, path::last_name};

impl Module {
    /// Reports the mistakes whose conditions hold. `fields` are the parameters of the variant.
    pub(crate) fn check_spaces(
        &mut self,
        file: usize,
        deferred: &[Deferred],
        links: &parse::Links,
        fields: &[FieldDesc],
    ) {
        for check in deferred {
            let conditions = check.conditions.iter().map(|condition| self.holds(condition, links));
            let Some(conditions) = conditions.collect::<Option<Vec<_>>>() else { continue };
            let message = match &check.refusal {
                Refusal::Mixed(message) => spaces::mixed(&conditions, message),
                Refusal::Axis { tensor, axis, messages } => {
                    let (tensor, messages) = (tensor.trim_start_matches("r#"), messages.each_ref());
                    spaces::on_axis(&conditions, fields, tensor, *axis, messages.map(String::as_str))
                }
            };
            if let Some(message) = message {
                self.mistake_at(file, check.span.start(), message);
            }
        }
    }

    fn holds(&mut self, condition: &Condition, links: &parse::Links) -> Option<bool> {
        let (Condition::Returns { helper, .. } | Condition::Relates { helper, .. }) = condition;
        let (_, path) = links.helpers.iter().find(|(name, _)| name == helper)?;
        let name = last_name(path);
        let of_helper = self.helper(&name)?.spaces;
        Some(match *condition {
            Condition::Returns { part, arg, unscaled, .. } => spaces::returns(&name, &of_helper, part, arg, unscaled),
            Condition::Relates { a, b, subtracts, .. } => spaces::relates(&name, &of_helper, a, b, subtracts),
        })
    }
}

/// What a helper does with its arguments.
pub(crate) fn of_helper(summary: &Summary) -> Spaces {
    Spaces {
        compared: kept_list(summary.compared.clone()),
        subtracted: kept_list(summary.subtracted.clone()),
        returned: kept_list(summary.returned.clone()),
    }
}
