//! The structs and enums of a part: their definitions, each after those of its fields.

use attn_core::lang::device_type::{TypeDesc, TypeLink};

use super::{declared::Declared, error::VariantError};

/// Types by the names that the text of the part uses.
#[derive(Default)]
pub(super) struct Types {
    named: Vec<(&'static str, &'static TypeDesc)>,
}

impl Types {
    /// Adds types under the names that the text of the part uses.
    pub(super) fn add_all(&mut self, desc: &Declared, links: &[TypeLink]) -> Result<(), VariantError> {
        for link in links {
            self.add(desc, link.ty)?;
            self.name(desc, link.name, link.ty)?;
        }
        Ok(())
    }

    /// Adds a type under its own name, after the types of its fields.
    pub(super) fn add(&mut self, desc: &Declared, ty: &'static TypeDesc) -> Result<(), VariantError> {
        self.add_all(desc, ty.types)?;
        self.name(desc, ty.name, ty)
    }

    /// Types are compared by value, because there may be several copies of a descriptor.
    fn name(&mut self, desc: &Declared, name: &'static str, ty: &'static TypeDesc) -> Result<(), VariantError> {
        match self.named.iter().find(|(there, _)| *there == name) {
            Some((_, there)) if *there != ty => Err(VariantError::clash(desc, name)),
            Some(_) => Ok(()),
            None => {
                self.named.push((name, ty));
                Ok(())
            }
        }
    }

    /// The text of the definitions.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, ty) in &self.named {
            if *name == ty.name {
                text += &definition(ty);
            } else {
                text += &format!("using {name} = {};\n", ty.name);
            }
        }
        if !text.is_empty() {
            text += "#line 1 \"variant\"\n";
        }
        text
    }
}

fn definition(ty: &TypeDesc) -> String {
    if ty.variants.is_empty() {
        return ty.cuda.to_owned();
    }
    let variants: Vec<String> =
        ty.variants.iter().map(|(name, value)| format!("{name} = {}", number(*value))).collect();
    format!("{} {{ {} }};\n", ty.cuda, variants.join(", "))
}

/// A literal; C++ has none for the least `int`.
fn number(value: i32) -> String {
    if value == i32::MIN { "I32_MIN".to_owned() } else { value.to_string() }
}
