//! The costs that a device's kernels are chosen by.

use std::sync::{Arc, OnceLock};

use crate::cost::{CostTable, CostsError};

/// Costs that were given, else those of the file that `ATTN_COSTS` names. The file is read when they are first needed:
/// one that cannot be read is no error beside costs that are given later. Clones share what was read.
#[derive(Clone, Default)]
pub(super) struct DeviceCosts {
    given: Option<CostTable>,
    of_environment: Arc<OnceLock<CostTable>>,
}

impl DeviceCosts {
    /// These costs, in place of any others.
    pub(super) fn given(costs: CostTable) -> Self {
        DeviceCosts { given: Some(costs), ..Self::default() }
    }

    pub(super) fn table(&self) -> Result<&CostTable, CostsError> {
        self.table_or(CostTable::from_env)
    }

    fn table_or(&self, read: impl FnOnce() -> Result<CostTable, CostsError>) -> Result<&CostTable, CostsError> {
        if let Some(costs) = self.given.as_ref().or_else(|| self.of_environment.get()) {
            return Ok(costs);
        }
        let costs = read()?;
        Ok(self.of_environment.get_or_init(|| costs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: &str = include_str!("../../../costs/sm_90.jsonl");

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_where_no_costs_are_given() {
        let bad = || CostTable::load("/nowhere/costs.jsonl");
        let opened = DeviceCosts::default();
        assert!(matches!(opened.table_or(bad), Err(CostsError::Read { .. })));
        let costs = CostTable::parse(COSTS).expect("ours");
        let given = DeviceCosts::given(costs.clone());
        assert_eq!(given.table_or(|| panic!("it is not read")).expect("given"), &costs);
        assert_eq!(given.table().expect("given"), &costs);
    }

    #[test]
    fn the_file_is_read_once_for_all_clones() {
        let opened = DeviceCosts::default();
        let clone = opened.clone();
        let costs = CostTable::parse(COSTS).expect("ours");
        assert_eq!(opened.table_or(|| Ok(costs.clone())).expect("read"), &costs);
        assert_eq!(clone.table_or(|| panic!("it is read again")).expect("read before"), &costs);
    }
}
