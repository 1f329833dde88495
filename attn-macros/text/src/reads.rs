//! The parameters that hooks read, which rustc checks of a compiled file.

use attn_core::lang::{FieldDesc, FieldType};
use syn::{Expr, Ident, ItemImpl, Member, visit::Visit};

/// Fields that hooks read and the struct does not have, and what is wrong; rustc would say it.
pub(crate) fn mistakes(item: &ItemImpl, fields: &[FieldDesc]) -> Vec<(Ident, String)> {
    let mut mistakes = Vec::new();
    let mut read = FieldsOfSelf::default();
    read.visit_item_impl(item);
    for name in read.elements {
        let plain = name.to_string();
        let plain = plain.trim_start_matches("r#");
        if fields.iter().any(|field| field.name == plain && matches!(field.ty, FieldType::Out { .. })) {
            mistakes.push((name, OUTPUT_IS_READ.to_owned()));
        }
    }
    for name in read.names {
        let plain = name.to_string();
        let plain = plain.trim_start_matches("r#");
        if !fields.iter().any(|field| field.name == plain) {
            let there: Vec<_> = fields.iter().take(32).map(|field| format!("`{}`", field.name)).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            let more = if fields.len() > 32 { ", .." } else { "" };
            let message = format!("no field `{plain}` on this variant; there are: {there}{more}");
            mistakes.push((name, message));
        }
    }
    mistakes
}

/// As rustc has it: `attn_core::lang::param_tensor`.
const OUTPUT_IS_READ: &str = "an output tensor is written by hooks and not read: write `self.name.store([i, j], x)`, \
                              and read a parameter tensor, `Tensor1` to `Tensor4`";

/// The names in `self.name`, method calls aside, and those of which an element is read.
#[derive(Default)]
struct FieldsOfSelf {
    names: Vec<Ident>,
    elements: Vec<Ident>,
}

/// The name in `self.name`.
fn field_of_self(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Paren(inner) => field_of_self(&inner.expr),
        Expr::Field(field) => match (&*field.base, &field.member) {
            (Expr::Path(path), Member::Named(name)) if path.path.is_ident("self") => Some(name),
            _ => None,
        },
        _ => None,
    }
}

impl<'ast> Visit<'ast> for FieldsOfSelf {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Field(_) => self.names.extend(field_of_self(expr).cloned()),
            Expr::Index(index) => self.elements.extend(field_of_self(&index.expr).cloned()),
            Expr::MethodCall(call) if call.method == "get" => {
                self.elements.extend(field_of_self(&call.receiver).cloned());
            }
            _ => {}
        }
        syn::visit::visit_expr(self, expr);
    }
}
