//! Rows of costs, as `attn calibrate` writes them.

use std::collections::BTreeMap;

use attn_core::nearest::nearest;
use serde::{Deserialize, de::DeserializeOwned, de::IgnoredAny};

use super::{CostKernel, CostKey, Costs, HookClass, measured::Measured};
use crate::compile::Arch;

/// The fields of a row: what costs need, what `attn calibrate` notes beside them, and notes of the user.
const FIELDS: &str = "kernel backend rows kv head_dim hooks ctas_per_sm launch item block first merge_launch merge off \
                      us merge_us meta";

/// A cost is at most a tenth of a second, so that sums of a few do not overflow. Of whole batches selection saturates,
/// and plans refuse.
const MAX_NS: u32 = 100_000_000;

/// The line before the rows of a GPU; of other lines `about` is missing, and the others are the fields of a row.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct Header {
    about: Option<About>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct About {
    arch: String,
}

/// The line of a kernel.
#[derive(Deserialize)]
struct Row {
    kernel: String,
    backend: Option<String>,
    rows: u32,
    kv: String,
    head_dim: u32,
    hooks: HookClass,
    #[serde(flatten)]
    costs: Costs,
}

/// The rows of a text; for a line that is none, its number and what is wrong.
pub(super) fn rows(text: &str) -> Result<Vec<Measured>, (usize, String)> {
    let (mut rows, mut lines, mut arch) = (Vec::<Measured>::new(), Vec::<usize>::new(), None);
    for (line, text) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let of_line = |why| (line, why);
        let Header { about, others } = parsed(text).map_err(of_line)?;
        if let Some(about) = about {
            if !others.is_empty() {
                return Err(of_line("`about` is a line of its own, before the rows of the GPU".to_owned()));
            }
            arch = Some(about.arch.parse::<Arch>().map_err(|unknown| of_line(unknown.to_string()))?);
            continue;
        }
        let row = known(&others).and_then(|()| measured(text, arch)).map_err(of_line)?;
        if let Some(same) = rows.iter().position(|known| known.is_of_kernel_of(&row)) {
            return Err(of_line(format!("line {} has costs of the same kernel; remove one of them", lines[same])));
        }
        rows.push(row);
        lines.push(line);
    }
    Ok(rows)
}

/// Checks that a row has no fields but those of rows.
fn known(fields: &BTreeMap<String, IgnoredAny>) -> Result<(), String> {
    let unknown = |field: &&String| !FIELDS.split(' ').any(|known| known == *field);
    let Some(field) = fields.keys().find(unknown) else { return Ok(()) };
    let near = nearest(field, FIELDS.split(' ')).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(format!("`{field}` is no field of a row of costs{near}; notes are in `meta`"))
}

fn measured(line: &str, arch: Option<Arch>) -> Result<Measured, String> {
    let arch = arch.ok_or(
        "`arch` is missing: a line {\"about\": {\"arch\": \"sm_90\"}} says what GPU the rows after it are of; keep the \
         first line that `attn calibrate` writes",
    )?;
    let Row { kernel, backend, rows, kv, head_dim, hooks, costs } = parsed(line)?;
    let Costs { launch, item, block, first, merge_launch, merge, ctas_per_sm } = costs;
    let sizes = [("rows", rows, 1, 1024), ("head_dim", head_dim, 1, 1024), ("ctas_per_sm", ctas_per_sm, 1, 32)];
    let work = [("launch", launch, 0), ("item", item, 0), ("block", block, 1), ("first", first, 0)];
    let times = work.into_iter().chain([("merge_launch", merge_launch, 0), ("merge", merge, 0)]);
    let times = times.map(|(field, ns, least)| (field, ns, least, MAX_NS));
    for (field, number, least, most) in sizes.into_iter().chain(times) {
        if !(least..=most).contains(&number) {
            return Err(format!("`{field}` is {number}; possible is a whole number from {least} to {most}"));
        }
    }
    let kernel = match (&*kernel, backend.as_deref()) {
        ("decode", None) => CostKernel::Decode,
        ("decode", Some("cuda-cores")) => CostKernel::DecodeCudaCores,
        ("prefill", None) => CostKernel::Prefill,
        ("prefill", Some("sm90")) => CostKernel::PrefillSm90,
        ("prefill", Some("cuda-cores")) => CostKernel::PrefillCudaCores,
        ("decode" | "prefill", Some(backend)) => {
            return Err(format!("`backend` is {backend}; possible is cuda-cores, and for prefill sm90"));
        }
        _ => return Err(format!("`kernel` is {kernel}; possible is decode, prefill")),
    };
    let bits = [8, 16, 32].into_iter().find(|bits| kv == format!("{bits}-bit"));
    let kv_bits: u32 = bits.ok_or_else(|| format!("`kv` is {kv}; possible is 8-bit, 16-bit, 32-bit"))?;
    let arch = Arch::new(arch.major(), arch.minor());
    let (kv_bytes, row_products) = (2 * head_dim * kv_bits / 8, 2 * head_dim);
    let key = CostKey { kernel, arch, rows, kv_bits, head_dim, kv_bytes, row_products, ctas_per_sm };
    Ok(Measured { key, hooks, costs })
}

fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        // serde_json counts lines too, and there is one
        let why = error.to_string().replacen(" at line 1 column ", " at column ", 1);
        format!("{why}; `attn calibrate --out FILE` writes such lines")
    })
}
