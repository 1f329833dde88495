//! The types of numbers and bools, which rustc checks of a compiled file: C++ would convert them, and compute another
//! number.

use std::{collections::HashMap, rc::Rc};

use attn_codegen::type_check::{self, signature, written};
use attn_codegen::types::{Known, Ty};
use attn_core::lang::{FieldDesc, FieldType, desc::Elem};
use syn::{GenericParam, ItemImpl};

use crate::{items::In, module::Module};

impl Module {
    /// Reports contradictions in the hooks of an impl. `fields` are the parameters of the variant.
    pub(crate) fn check_hook_types(&mut self, file: usize, item: &ItemImpl, fields: &[FieldDesc]) {
        let mut of_item: HashMap<String, Ty> = fields.iter().filter_map(of_field).collect();
        of_item.extend(item.generics.params.iter().filter_map(|param| match param {
            GenericParam::Const(param) => Some((param.ident.to_string(), written(&param.ty)?)),
            _ => None,
        }));
        let known = Known { of_text: self.known_types(), of_item };
        self.reported(file, type_check::hooks(item, known));
    }

    /// Reports contradictions in a helper.
    pub(crate) fn check_helper_types(&mut self, name: &str) {
        let of_text = self.known_types();
        let Some(In { file, item: (_, item) }) = self.helpers.get(name) else { return };
        let (file, checked) = (*file, type_check::helper(item, Known { of_text, ..Known::default() }));
        self.reported(file, checked);
    }

    /// The types of constants and helpers.
    fn known_types(&mut self) -> Rc<HashMap<String, Ty>> {
        let (constants, helpers) = (&self.const_types, &self.helpers);
        let make = || {
            let constants = constants.iter().filter_map(|(name, ty)| Some((name.clone(), written(ty)?)));
            let helpers = helpers.values().flat_map(|In { item: (_, item), .. }| signature(item));
            Rc::new(constants.chain(helpers).collect())
        };
        self.known.get_or_insert_with(make).clone()
    }
}

/// A parameter, or the elements of a parameter tensor.
fn of_field(field: &FieldDesc) -> Option<(String, Ty)> {
    let (elem, name) = match field.ty {
        FieldType::Scalar(elem) => (elem, format!("self.{}", field.name)),
        FieldType::Tensor { elem, .. } => (elem, format!("self.{}[]", field.name)),
        FieldType::Out { .. } => return None,
    };
    let ty = match elem {
        Elem::I32 => Ty::I32,
        Elem::U32 => Ty::U32,
        Elem::U8 => Ty::U8,
        Elem::Bool | Elem::Bits => Ty::Bool,
        _ => Ty::F32,
    };
    Some((name, ty))
}
