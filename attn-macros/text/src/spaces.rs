//! Index spaces: the checks that rustc evaluates as constants, `attn_core::lang::lints::spaces`.

use attn_core::lang::{
    FieldDesc,
    lints::spaces::{self, Spaces},
};
use syn::{
    Expr, ExprCall, ExprStruct, Lit,
    visit::{self, Visit},
};

use crate::{
    expansion::{Expansion, last_name, list, string},
    kept::kept_list,
    module::Module,
};

impl Module {
    /// Reports the emitted checks whose message applies. `fields` are the parameters of the variant.
    pub(crate) fn check_spaces(&mut self, file: usize, emitted: &[&ExprCall], fields: &[FieldDesc]) {
        for call in emitted {
            if let Some(message) = self.refusal(call, fields) {
                self.mistake(file, call, message);
            }
        }
    }

    fn refusal(&mut self, call: &ExprCall, fields: &[FieldDesc]) -> Option<String> {
        let mut args = call.args.iter();
        let conditions = self.conditions(args.next()?)?;
        match called(call)?.as_str() {
            "mixed" => spaces::mixed(&conditions, &string(args.next()?)?).map(str::to_owned),
            _ => {
                let _the_fields = args.next()?;
                let (tensor, axis) = (string(args.next()?)?, number(args.next()?)?);
                let Expr::Array(messages) = args.next()? else { return None };
                let messages: Vec<String> = messages.elems.iter().filter_map(string).collect();
                let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
                spaces::on_axis(&conditions, fields, &tensor, axis, messages.try_into().ok()?).map(str::to_owned)
            }
        }
    }

    /// `&[returns("helper", .., 0, 1, false), ..]`.
    fn conditions(&mut self, conditions: &Expr) -> Option<Vec<bool>> {
        let Expr::Reference(reference) = conditions else { return None };
        let Expr::Array(array) = &*reference.expr else { return None };
        let holds = |condition: &Expr| {
            let Expr::Call(call) = condition else { return None };
            let args: Vec<&Expr> = call.args.iter().collect();
            let [helper, _, a, b, flag] = args[..] else { return None };
            let helper = string(helper)?;
            let of_helper = self.helper(&helper)?.spaces;
            let (a, b, flag) = (number(a)?, number(b)?, truth(flag)?);
            Some(match called(call)?.as_str() {
                "returns" => spaces::returns(&helper, &of_helper, a, b, flag),
                _ => spaces::relates(&helper, &of_helper, a, b, flag),
            })
        };
        array.elems.iter().map(holds).collect()
    }
}

/// The checks in what a macro emitted for a variant.
pub(crate) fn checks_in(block: &syn::Block) -> Vec<&ExprCall> {
    let mut found = Checks(Vec::new());
    found.visit_block(block);
    found.0
}

impl Expansion {
    /// The checks of a helper.
    pub(crate) fn checks(&self) -> Vec<&ExprCall> {
        let mut found = Checks(Vec::new());
        found.visit_file(&self.file);
        found.0
    }
}

/// The calls of `mixed` and `on_axis`.
struct Checks<'ast>(Vec<&'ast ExprCall>);

impl<'ast> Visit<'ast> for Checks<'ast> {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if called(call).is_some_and(|name| name == "mixed" || name == "on_axis") {
            self.0.push(call);
        }
        visit::visit_expr_call(self, call);
    }
}

/// What the macro says of a helper's arguments.
pub(crate) fn of_helper(emitted: &ExprStruct) -> Spaces {
    let tuples = |name: &str| -> Vec<Vec<Expr>> {
        let tuples = list(emitted, name).into_iter().filter_map(|tuple| match tuple {
            Expr::Tuple(tuple) => Some(tuple.elems.iter().cloned().collect()),
            _ => None,
        });
        tuples.collect()
    };
    let pairs = |name: &str| {
        let pairs = tuples(name).into_iter().filter_map(|pair| Some((number(pair.first()?)?, number(pair.get(1)?)?)));
        kept_list(pairs.collect())
    };
    let returned = tuples("returned")
        .into_iter()
        .filter_map(|of| Some((number(of.first()?)?, number(of.get(1)?)?, truth(of.get(2)?)?)));
    Spaces { compared: pairs("compared"), subtracted: pairs("subtracted"), returned: kept_list(returned.collect()) }
}

/// The last name of the function that is called, if the one before is `spaces`.
fn called(call: &ExprCall) -> Option<String> {
    let Expr::Path(path) = &*call.func else { return None };
    let of_spaces = path.path.segments.iter().rev().nth(1).is_some_and(|segment| segment.ident == "spaces");
    of_spaces.then(|| last_name(&path.path))
}

fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn truth(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Bool(truth) => Some(truth.value),
            _ => None,
        },
        _ => None,
    }
}
