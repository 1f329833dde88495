//! The lines of a file of costs.

use anyhow::{Context as _, Result};
use attn::cuda::{Device, driver};
use attn_kernels::cost::{COST_KEYS, CostTable};
use serde_json::{Value, json};

use super::fit::{Fitted, Merged};
use super::measured_kernel::{KV_HEADS, MeasuredKernel, QO_HEADS};
use crate::date::today;

/// The first line: what the rows after it are of.
pub(super) fn about(device: &Device, commit: Option<&str>, reps: usize) -> Result<Value> {
    let ((major, minor), (driver_major, driver_minor)) = (device.capability(), driver::version()?);
    Ok(json!({ "about": {
        "arch": format!("sm_{major}{minor}"),
        "device": device.name(),
        "driver": format!("CUDA {driver_major}.{driver_minor}"),
        "commit": commit.map_or_else(|| format!("of version {}", env!("CARGO_PKG_VERSION")), str::to_owned),
        "date": today(),
        "method": format!(
            "attn calibrate: {QO_HEADS}/{KV_HEADS} heads, pages of 16, cold L2, graph replay, medians of {reps}; \
             nanoseconds of a CTA with the device full, {COST_KEYS} keys a block"
        ),
    }}))
}

/// The row of a kernel.
pub(super) fn row(kernel: &MeasuredKernel, rows: u32, ctas_per_sm: u32, work: &Fitted, merged: &Merged) -> Value {
    let rounded = |ns: f64| ns.round().max(0.0) as u64;
    let mut row = json!({
        "kernel": kernel.kind.to_string(),
        "rows": rows,
        "kv": kernel.kv(),
        "head_dim": kernel.head_dim,
        "hooks": kernel.hooks,
        "ctas_per_sm": ctas_per_sm,
        "launch": rounded(work.launch),
        "item": rounded(work.item),
        "block": rounded(work.block),
        "first": rounded(work.first),
        "merge_launch": rounded(merged.merge_launch),
        "merge": rounded(merged.merge),
        "off": (work.off * 1e3).round() / 1e3,
    });
    if let Some(backend) = kernel.backend() {
        row["backend"] = json!(backend);
    }
    row
}

/// Refuses a row that plans could not use: keys that cost nothing, for instance.
pub(super) fn check(about: &Value, row: &Value) -> Result<()> {
    CostTable::parse(&format!("{about}\n{row}")).context("the measurement is no use")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use attn_kernels::{compile::Arch, cost::Costs, kernel_traits::KernelTraits};

    use super::*;

    /// The traits of a measured kernel on Hopper.
    fn traits(kernel: &MeasuredKernel) -> KernelTraits {
        let case = kernel.case(MeasuredKernel::queries(kernel.rows), 64);
        let of = crate::kernels::of_case(&case, Arch::for_device(9, 0), &CostTable::default());
        of.expect("there is a kernel")[0].traits
    }

    #[test]
    fn every_row_is_read_back_as_the_costs_of_its_kernel() {
        let dims = [64, 128, 256].into_iter().flat_map(|dim| [8, 16, 32].map(|bits| (dim, bits)));
        let all: Vec<_> = dims.flat_map(|(dim, bits)| MeasuredKernel::over(dim, bits)).collect();
        let mut lines = json!({ "about": { "arch": "sm_90", "device": "D" } }).to_string();
        let of = |number: usize| {
            let ns = number as f64;
            let work = Fitted { launch: 5000.4 + ns, item: 900.0, block: 1000.0 + ns, first: 30.0, off: 0.01 };
            (work, Merged { merge_launch: 800.0, merge: 100.0 + ns })
        };
        for (number, kernel) in all.iter().enumerate() {
            let (work, merged) = of(number);
            let row = row(kernel, kernel.rows, 2, &work, &merged);
            check(&json!({ "about": { "arch": "sm_90" } }), &row).expect("sound");
            lines += &format!("\n{row}");
        }
        let table = CostTable::parse(&lines).expect("sound");
        assert_eq!(table.loaded_rows(), all.len());
        for (number, kernel) in all.iter().enumerate() {
            let ns = number as u32;
            let costs = Costs {
                launch: 5000 + ns,
                item: 900,
                block: 1000 + ns,
                first: 30,
                merge_launch: 800,
                merge: 100 + ns,
                ctas_per_sm: 2,
            };
            assert_eq!(table.of(&traits(kernel).cost_key(), kernel.hooks), costs, "{kernel}");
        }
    }

    #[test]
    fn keys_that_cost_nothing_are_refused() {
        let kernel = MeasuredKernel::over(128, 16)[0];
        let row = row(&kernel, kernel.rows, 2, &Fitted::default(), &Merged::default());
        let error = check(&json!({ "about": { "arch": "sm_90" } }), &row).expect_err("it has no block");
        assert!(format!("{error:#}").contains("`block` is 0"), "{error:#}");
    }
}
