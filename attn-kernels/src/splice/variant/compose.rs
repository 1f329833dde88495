//! The structs of a variant: one for each part, one for each combinator with its operands as members, and `struct
//! Variant`.

use attn_core::lang::{ConstValue, Hook, Normalizer, VariantDesc, kv_format::KvFormats};

use super::hooks::{self, MemberFunction};
use super::layout::variant_size;
use super::shape::Shape;
use super::size::LongHooks;
use super::{VariantError, branches, combine, names, part};

/// All structs, `struct Variant` last.
pub(super) fn text(root: &Shape<'_>, formats: Option<&KvFormats>) -> Result<String, VariantError> {
    let parts = root.parts();
    let names = names::of_parts(&parts);
    let mut writer = StructWriter { text: String::new(), written: Vec::new(), parts, names };
    let members = writer.members(root)?;
    let mut text = writer.text;
    if let Some(formats) = formats {
        text += &format_structs(formats)?;
    }
    text += "struct Variant {\n";
    text += &member_lines(root, &members);
    if let Some(formats) = formats {
        text += if formats.shares_keys() { FORMAT_OF_KEYS } else { FORMATS };
    }
    let long = LongHooks::of(root);
    for (flag, value) in flags(root, &long) {
        text += &format!("  static constexpr bool {flag} = {value};\n");
    }
    let max_scaled = root.normalizing().filter(|part| part.normalizer == Normalizer::MaxScaled);
    let floor = ConstValue::F32(max_scaled.map_or(f32::NEG_INFINITY, |part| part.max_floor));
    text += &format!("  static constexpr float MAX_FLOOR = {};\n", part::const_text(floor));
    for hook in hooks::ORDER {
        let body = combine::all(*hook, root.inside().1);
        // With parameter tensors `tile_class` is long, and kernels call it at several places, but rarely. Inlined it
        // took up to half of the compile time of a kernel.
        let called = *hook == MemberFunction::TileClass && root.asks_tables() || long.calls(*hook);
        text += &format!("\n{}", if called { hooks::called(*hook, &body) } else { hooks::function(*hook, &body) });
    }
    text += "};\n";
    text += &format!("static_assert(sizeof(Variant) == {}, \"host and device agree\");\n", variant_size(root, formats));
    Ok(text)
}

/// The formats of keys and of values as members of `Variant`.
const FORMATS: &str = "  KeyFormat key_format;
  ValueFormat value_format;
  ATTN_FN const ValueFormat& format_of_values() const { return value_format; }

";
/// The same where values are the first elements of keys.
const FORMAT_OF_KEYS: &str = "  KeyFormat key_format;
  ATTN_FN const ValueFormat& format_of_values() const { return key_format; }

";

/// The structs of the formats of keys and of values.
fn format_structs(formats: &KvFormats) -> Result<String, VariantError> {
    let of_keys = part::kv_format_of_kernel(formats.keys(), "KeyFormat")?;
    // a format of the same scalars has the same text
    let of_values = match part::kv_format_of_kernel(formats.values(), "KeyFormat")? == of_keys {
        true => "using ValueFormat = KeyFormat;\n\n".to_owned(),
        false => part::kv_format_of_kernel(formats.values(), "ValueFormat")?,
    };
    Ok(of_keys + &of_values)
}

struct StructWriter<'d> {
    text: String,
    /// The structs that have been written.
    written: Vec<String>,
    parts: Vec<&'d VariantDesc>,
    /// The struct names of the parts, then those of combinators.
    names: Vec<String>,
}

impl<'d> StructWriter<'d> {
    /// Writes the structs of the members of a shape, and returns their names.
    fn members(&mut self, shape: &Shape<'d>) -> Result<Vec<String>, VariantError> {
        let (part, inner) = shape.inside();
        let mut types = Vec::new();
        if let Some(part) = part {
            types.push(self.part(part)?);
        }
        for shape in inner {
            types.push(self.shape(shape)?);
        }
        Ok(types)
    }

    fn part(&mut self, desc: &'d VariantDesc) -> Result<String, VariantError> {
        let number = self.parts.iter().position(|part| std::ptr::eq(*part, desc)).unwrap_or_default();
        let name = self.names[number].clone();
        if !self.written.contains(&name) {
            self.text += &part::struct_text(desc, &name)?;
            self.written.push(name.clone());
        }
        Ok(name)
    }

    fn shape(&mut self, shape: &Shape<'d>) -> Result<String, VariantError> {
        let kind = match shape {
            Shape::Part(desc) => return self.part(desc),
            Shape::All(_) | Shape::Stored(_) => "All",
            Shape::Or(_) => "Or",
            Shape::Not(_) => "Not",
            Shape::Remap(_, _) => "Remap",
            Shape::PerHead(_) => "PerHead",
        };
        let members = self.members(shape)?;
        let name = names::of_combinator(kind, &self.names);
        self.names.push(name.clone());
        self.text += &format!("// {shape}\nstruct {name} {{\n{}", member_lines(shape, &members));
        self.text += &match shape {
            Shape::PerHead(_) => branches::HELPER.to_owned(),
            _ => combine::helpers(shape),
        };
        for hook in hooks::ORDER.iter().filter(|hook| hook.is_in(shape)) {
            let body = match shape {
                Shape::PerHead(inner) => {
                    branches::check(*hook, inner)?;
                    branches::body(*hook, inner)
                }
                _ => combine::body(*hook, shape),
            };
            self.text += &format!("\n{}", hooks::function(*hook, &body));
        }
        self.text += "};\n\n";
        Ok(name)
    }
}

/// The member declarations of a struct, followed by an empty line if there are any.
fn member_lines(shape: &Shape<'_>, types: &[String]) -> String {
    let mut text = String::new();
    if let Shape::PerHead(_) = shape {
        text += "  Tensor1<int> heads_;\n";
        if shape.rewrites_keys() {
            text += "  Tensor1<int> kv_heads_;\n";
        }
    }
    for (i, ty) in types.iter().enumerate() {
        text += &format!("  {ty} {};\n", combine::member(shape, i));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn flags(root: &Shape<'_>, long: &LongHooks) -> Vec<(&'static str, bool)> {
    let has = |hook| root.has(hook);
    let normalizer = root.normalizing().map_or(Normalizer::Softmax, |part| part.normalizer);
    let bounds = hooks::MemberFunction::KvBounds.is_in(root);
    let [slope, rows] = [MemberFunction::LogitsSlope, MemberFunction::LogitsBiasRow].map(|f| f.is_in(root));
    // A long bias is no start of the accumulator: as a transform it runs beside gemm_pv, and needs fewer registers.
    let bias = MemberFunction::LogitsBias.is_in(root) && (!long.rolled || slope || rows);
    let mut flags = vec![
        ("HAS_QUERY_TRANSFORM", has(Hook::QueryTransform)),
        ("HAS_KEY_TRANSFORM", has(Hook::KeyTransform)),
        ("HAS_VALUE_TRANSFORM", has(Hook::ValueTransform)),
        ("HAS_LOGITS_TRANSFORM", has(Hook::LogitsTransform)),
        ("HAS_LOGITS_BIAS", bias),
        ("HAS_LOGITS_SLOPE", slope),
        ("HAS_LOGITS_BIAS_ROW", rows),
        ("HAS_LOGITS_BOUND", hooks::MemberFunction::LogitsBound.is_in(root)),
        ("TRANSFORM_IS_SPECIAL", root.transform_is_special()),
        ("HAS_LOGITS_MASK", has(Hook::LogitsMask)),
        ("HAS_TILE_CLASS", root.has_class()),
        ("HAS_WEIGHT", has(Hook::Weight)),
        ("HAS_DENOMINATOR", has(Hook::Denominator)),
        ("HAS_SINK", has(Hook::SinkLogit)),
        ("HAS_OUTPUT_TRANSFORM", has(Hook::OutputTransform)),
        ("HAS_KV_RANGE", has(Hook::KvRange)),
        ("HAS_KV_LIST", has(Hook::KvListLen)),
        ("HAS_BOUNDS", bounds),
        ("STORES", root.stores()),
        ("MAX_SCALED", normalizer == Normalizer::MaxScaled),
        ("PLAIN", matches!(normalizer, Normalizer::Plain { .. })),
        ("PLAIN_DIVIDE", normalizer == Normalizer::Plain { divide: true }),
    ];
    // only a variant with long hooks on logits has it
    flags.extend(long.rolled.then_some(("HAS_LONG_HOOKS", true)));
    flags
}
