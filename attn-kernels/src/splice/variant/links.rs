//! What the text of a part refers to: types, constants and helpers.

use attn_core::lang::{ConstValue, DeviceFn, desc::ConstDesc};

use super::{declared::Declared, device_type::Types, error::VariantError};

/// The types, constants and helpers that a part and its helpers use, each once.
#[derive(Default)]
pub(super) struct Links {
    pub(super) types: Types,
    pub(super) consts: Vec<(&'static str, ConstValue)>,
    pub(super) helpers: Vec<&'static DeviceFn>,
}

impl Links {
    pub(super) fn of(desc: &Declared) -> Result<Links, VariantError> {
        let mut links = Links::default();
        links.types.add_all(desc, desc.types)?;
        links.add_consts(desc, desc.consts)?;
        for helper in desc.device_fns {
            links.add_helper(desc, helper, &mut Vec::new())?;
        }
        Ok(links)
    }

    fn add_consts(&mut self, desc: &Declared, consts: &[ConstDesc]) -> Result<(), VariantError> {
        for link in consts {
            let value = link.value.get();
            if let ConstValue::Enum(ty, _) = value {
                self.types.add(desc, ty)?;
            }
            match self.consts.iter().find(|(name, _)| *name == link.name) {
                Some((_, there)) if !same_bits(*there, value) => return Err(VariantError::clash(desc, link.name)),
                Some(_) => {}
                None => self.consts.push((link.name, value)),
            }
        }
        Ok(())
    }

    /// Adds a helper after those that it calls; `callers` are the helpers around.
    fn add_helper(
        &mut self,
        desc: &Declared,
        helper: &'static DeviceFn,
        callers: &mut Vec<&'static DeviceFn>,
    ) -> Result<(), VariantError> {
        if callers.iter().any(|c| std::ptr::eq(*c, helper)) {
            return Err(VariantError::Recursion { variant: desc.name.to_owned(), name: helper.name.to_owned() });
        }
        match self.helpers.iter().find(|h| h.name == helper.name) {
            Some(there) if std::ptr::eq(*there, helper) => return Ok(()),
            Some(_) => return Err(VariantError::clash(desc, helper.name)),
            None => {}
        }
        self.types.add_all(desc, helper.types)?;
        self.add_consts(desc, helper.consts)?;
        callers.push(helper);
        for inner in helper.device_fns {
            self.add_helper(desc, inner, callers)?;
        }
        callers.pop();
        self.helpers.push(helper);
        Ok(())
    }
}

fn same_bits(a: ConstValue, b: ConstValue) -> bool {
    match (a, b) {
        (ConstValue::F32(a), ConstValue::F32(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}
