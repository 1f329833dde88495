//! Rows of costs, as `attn calibrate` writes them.

use std::collections::BTreeMap;

use attn_core::spec::KernelKind;
use serde::{Deserialize, Deserializer, de::Error as _, de::IgnoredAny};

use super::{CostKernel, Costs, HookClass, measured::Measured};
use crate::compile::Arch;

/// A cost is at most a tenth of a second, so that sums of a few do not overflow. Of whole batches selection saturates,
/// and plans refuse.
type Nanoseconds<const LEAST: u32> = Within<LEAST, 100_000_000>;

/// The line before the rows of a GPU; of other lines `about` is missing.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object")]
struct Header {
    about: Option<About>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct About {
    #[serde(deserialize_with = "parsed")]
    arch: Arch,
}

/// The line of a kernel: what costs need, what `attn calibrate` notes beside them, and notes of the user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // notes
struct Row {
    #[serde(deserialize_with = "parsed")]
    kernel: KernelKind,
    backend: Option<String>,
    rows: Within<1, 1024>,
    kv: KvBits,
    head_dim: Within<1, 1024>,
    hooks: HookClass,
    ctas_per_sm: Within<1, 32>,
    launch: Nanoseconds<0>,
    item: Nanoseconds<0>,
    block: Nanoseconds<1>,
    first: Nanoseconds<0>,
    merge_launch: Nanoseconds<0>,
    merge: Nanoseconds<0>,
    off: Option<IgnoredAny>,
    us: Option<IgnoredAny>,
    merge_us: Option<IgnoredAny>,
    meta: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize)]
enum KvBits {
    #[serde(rename = "8-bit")]
    Bits8 = 8,
    #[serde(rename = "16-bit")]
    Bits16 = 16,
    #[serde(rename = "32-bit")]
    Bits32 = 32,
}

/// A number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
struct Within<const LEAST: u32, const MOST: u32>(u32);

impl<const LEAST: u32, const MOST: u32> TryFrom<u32> for Within<LEAST, MOST> {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        let ok = (LEAST..=MOST).contains(&number).then_some(Within(number));
        ok.ok_or_else(|| format!("{number} is not a whole number from {LEAST} to {MOST}"))
    }
}

fn parsed<'de, D: Deserializer<'de>, T: std::str::FromStr<Err: std::fmt::Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// The rows of a text; for a line that is none, its number and what is wrong.
pub(super) fn rows(text: &str) -> Result<Vec<Measured>, (usize, String)> {
    let (mut rows, mut lines, mut arch) = (Vec::<Measured>::new(), Vec::new(), None);
    for (line, text) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let not_json = |error: serde_json::Error| {
            // serde_json counts lines too, and there is one
            let why = error.to_string().replacen(" at line 1 column ", " at column ", 1);
            (line, format!("{why}; `attn calibrate --out FILE` writes such lines"))
        };
        let Header { about, others } = serde_json::from_str(text).map_err(not_json)?;
        if let Some(About { arch: of_rows }) = about {
            if !others.is_empty() {
                return Err((line, "`about` is a line of its own, before the rows of the GPU".to_owned()));
            }
            arch = Some(of_rows);
            continue;
        }
        let row = serde_json::from_str::<Row>(text).map_err(not_json)?;
        let row = row.measured(arch).map_err(|why| (line, why))?;
        if let Some(same) = rows.iter().position(|known| known.is_of_kernel_of(&row)) {
            let first: usize = lines[same];
            return Err((line, format!("line {first} has costs of the same kernel; remove one of them")));
        }
        rows.push(row);
        lines.push(line);
    }
    Ok(rows)
}

impl Row {
    fn measured(self, arch: Option<Arch>) -> Result<Measured, String> {
        let arch = arch.ok_or(
            "`arch` is missing: a line {\"about\": {\"arch\": \"sm_90\"}} says what GPU the rows after it are of; keep \
             the first line that `attn calibrate` writes",
        )?;
        let kernel = match (self.kernel, self.backend.as_deref()) {
            (KernelKind::Decode, None) => CostKernel::Decode,
            (KernelKind::Decode, Some("cuda-cores")) => CostKernel::DecodeCudaCores,
            (KernelKind::Prefill, None) => CostKernel::Prefill,
            (KernelKind::Prefill, Some("sm90")) => CostKernel::PrefillSm90,
            (KernelKind::Prefill, Some("cuda-cores")) => CostKernel::PrefillCudaCores,
            (kernel, backend) => {
                let backend = backend.map_or(String::new(), |backend| format!(" by `{backend}`"));
                return Err(format!(
                    "there are no costs of {kernel}{backend}; possible is decode, without `backend` or by \
                     `cuda-cores`, and prefill, without or by `cuda-cores` or `sm90`"
                ));
            }
        };
        let costs = Costs {
            launch: self.launch.0,
            item: self.item.0,
            block: self.block.0,
            first: self.first.0,
            merge_launch: self.merge_launch.0,
            merge: self.merge.0,
            ctas_per_sm: self.ctas_per_sm.0,
        };
        let (rows, kv_bits, head_dim) = (self.rows.0, self.kv as u32, self.head_dim.0);
        Ok(Measured {
            arch: Arch::new(arch.major(), arch.minor()),
            kernel,
            rows,
            kv_bits,
            head_dim,
            hooks: self.hooks,
            costs,
        })
    }
}
