//! Rows of costs, as `attn calibrate` writes them.

use std::fmt;

use attn_core::nearest::nearest;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{CostKernel, Costs, CostsLineError, HookClass, measured::Measured};
use crate::compile::{Arch, UnknownArch};

type Object = Map<String, Value>;

/// The fields of a row: what costs need, what `attn calibrate` notes beside them, and notes of the user.
const FIELDS: &str = "kernel backend rows kv head_dim hooks ctas_per_sm launch item block first merge_launch merge off \
                      us merge_us meta";

/// A cost is at most a tenth of a second, so that sums of a few do not overflow. Of whole batches selection saturates,
/// and plans refuse.
const MAX_NS: u32 = 100_000_000;

const HOOKS: [HookClass; 3] = [HookClass::None, HookClass::Logits, HookClass::Rewrites];
const HOOK_NAMES: &[&str] = &[HOOKS[0].name(), HOOKS[1].name(), HOOKS[2].name()];

/// The rows of a text; for a line that is none, its number and what is wrong.
pub(super) fn rows(text: &str) -> Result<Vec<Measured>, (usize, CostsLineError)> {
    let (mut rows, mut lines) = (Vec::<Measured>::new(), Vec::new());
    let mut arch = None;
    for (line, text) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let of_line = |why| (line + 1, why);
        let object = object(text).map_err(of_line)?;
        if let Some(about) = object.get("about") {
            arch = Some(arch_of(about).map_err(of_line)?);
            continue;
        }
        let row = measured(&object, arch.ok_or_else(|| of_line(CostsLineError::NoArch))?).map_err(of_line)?;
        known(&object).map_err(of_line)?;
        if let Some(same) = rows.iter().position(|known| known.is_of_kernel_of(&row)) {
            return Err(of_line(CostsLineError::Again { first: lines[same] }));
        }
        rows.push(row);
        lines.push(line + 1);
    }
    Ok(rows)
}

fn object(line: &str) -> Result<Object, CostsLineError> {
    match serde_json::from_str(line) {
        Ok(Fields(fields)) => unique(fields),
        Err(_) if serde_json::from_str::<IgnoredAny>(line).is_ok() => Err(CostsLineError::NoObject(String::new())),
        // serde_json counts lines too, and there is one
        Err(error) => Err(CostsLineError::NoObject(format!(" (column {}: {})", error.column(), category(&error)))),
    }
}

/// The fields of an object, each as often as it is there.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Entries)
    }
}

/// A line with one field of a name.
fn unique(fields: Vec<(String, Value)>) -> Result<Object, CostsLineError> {
    let mut object = Object::new();
    for (field, value) in fields {
        if object.contains_key(&field) {
            return Err(CostsLineError::Twice { field });
        }
        object.insert(field, value);
    }
    if object.len() > 1 && object.contains_key("about") {
        return Err(CostsLineError::AboutBeside);
    }
    Ok(object)
}

/// Checks that a row has no fields but those of rows.
fn known(row: &Object) -> Result<(), CostsLineError> {
    let Some(field) = row.keys().find(|field| !FIELDS.split(' ').any(|known| known == *field)) else { return Ok(()) };
    let near = nearest(field, FIELDS.split(' ')).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(CostsLineError::Unknown { field: field.clone(), near })
}

fn category(error: &serde_json::Error) -> &'static str {
    if error.is_eof() { "it ends early" } else { "not JSON" }
}

fn arch_of(about: &Value) -> Result<Arch, CostsLineError> {
    let arch = about.get("arch").ok_or(CostsLineError::NoArch)?;
    let name = arch.as_str().ok_or_else(|| CostsLineError::Arch(UnknownArch(found(arch))))?;
    name.parse().map_err(CostsLineError::Arch)
}

fn found(value: &Value) -> String {
    const MOST: usize = 40;
    let text = value.to_string();
    match (value, text.chars().count()) {
        (Value::Null, _) => "missing".to_owned(),
        (_, ..=MOST) => text,
        _ => format!("{}..", text.chars().take(MOST).collect::<String>()),
    }
}

fn measured(of: &Object, arch: Arch) -> Result<Measured, CostsLineError> {
    let (alone, backends, names): (_, &[_], &[_]) = match word(of, "kernel", &["decode", "prefill"])? {
        0 => (CostKernel::Decode, &[CostKernel::DecodeCudaCores], &["cuda-cores"]),
        _ => (CostKernel::Prefill, &[CostKernel::PrefillCudaCores, CostKernel::PrefillSm90], &["cuda-cores", "sm90"]),
    };
    let kernel = if of.contains_key("backend") { backends[word(of, "backend", names)?] } else { alone };
    let kv_bits = [8, 16, 32][word(of, "kv", &["8-bit", "16-bit", "32-bit"])?];
    let hooks = HOOKS[word(of, "hooks", HOOK_NAMES)?];
    let cost = |field| number(of, field, 0, MAX_NS);
    let costs = Costs {
        launch: cost("launch")?,
        item: cost("item")?,
        block: number(of, "block", 1, MAX_NS)?,
        first: cost("first")?,
        merge_launch: cost("merge_launch")?,
        merge: cost("merge")?,
        ctas_per_sm: number(of, "ctas_per_sm", 1, 32)?,
    };
    let (rows, head_dim) = (number(of, "rows", 1, 1024)?, number(of, "head_dim", 1, 1024)?);
    let (major, minor) = (arch.major(), arch.minor());
    Ok(Measured { major, minor, kernel, rows, kv_bits, head_dim, hooks, costs })
}

/// The number of a field's word among those that it may be.
fn word(of: &Object, field: &'static str, possible: &'static [&'static str]) -> Result<usize, CostsLineError> {
    let value = of.get(field).unwrap_or(&Value::Null);
    let at = possible.iter().position(|word| value == word);
    at.ok_or_else(|| CostsLineError::Word { field, found: found(value), possible })
}

fn number(of: &Object, field: &'static str, least: u32, most: u32) -> Result<u32, CostsLineError> {
    let value = of.get(field).unwrap_or(&Value::Null);
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| CostsLineError::Number { field, found: found(value), least, most })
}
