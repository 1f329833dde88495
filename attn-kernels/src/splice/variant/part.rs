//! The CUDA struct of one part: its parameters, constants, helpers and hooks.

use attn_core::lang::desc::Elem;
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormatDesc};
use attn_core::lang::param_tensor::OutBuffer;
use attn_core::lang::params::{ArgVisitor, TensorArg};
use attn_core::lang::{ConstValue, DeviceFn, FieldType, VariantDesc};

use super::declared::Declared;
use super::error::VariantError;
use super::links::Links;
use super::member::{DataMember, members};
use super::size;

/// `struct SoftCap { .. };`, with the `#line`s of the user's file inside.
pub(super) fn struct_text(desc: &VariantDesc, name: &str) -> Result<String, VariantError> {
    let (mut text, links) = begin(&desc.into(), name, &[])?;
    let (of_helpers, of_hooks) = size::texts(desc, &links.helpers);
    for (helper, cuda) in links.helpers.iter().zip(of_helpers) {
        text += "\n";
        text += &indented(&cuda);
        if !(desc.mask.over.is_empty() && desc.mask.remap.is_empty()) {
            text += &indented(helper.over);
        }
    }
    for cuda in of_hooks {
        text += "\n";
        text += &indented(&cuda);
    }
    for of_transform in [desc.bias, desc.slope, desc.bias_row, desc.bound] {
        if !of_transform.is_empty() {
            text += "\n";
            text += &indented(of_transform);
        }
    }
    for derived in [desc.mask.over, desc.mask.bounds, desc.mask.remap] {
        if !derived.is_empty() {
            text += "\n#line 1 \"derived from logits_mask\"\n";
            text += &indented(derived);
        }
    }
    text += "#line 1 \"variant\"\n};\n\n";
    Ok(text)
}

/// `struct KeyFormat { .. };` of a KV format, with its parameters as members.
///
/// # Errors
/// Two constants, helpers or types of one name, or helpers that call each other in a circle.
pub fn kv_format_text(desc: &KvFormatDesc, name: &str) -> Result<String, VariantError> {
    let (text, links) = begin(&desc.into(), name, &[])?;
    Ok(with_functions(desc, text, &links))
}

/// The same for kernels, which are compiled for the scalars of a format: these are constants, and their arguments are
/// not read.
///
/// # Errors
/// The errors of [`kv_format_text`].
pub(super) fn kv_format_of_kernel(format: &dyn ErasedKvFormat, name: &str) -> Result<String, VariantError> {
    let (text, links) = begin(&format.desc().into(), name, &scalars(format))?;
    Ok(with_functions(format.desc(), text, &links))
}

/// The bits of the scalar parameters, by field.
fn scalars(format: &dyn ErasedKvFormat) -> Vec<Option<u32>> {
    struct Scalars(Vec<Option<u32>>);
    impl ArgVisitor for Scalars {
        fn scalar(&mut self, bits: u32) {
            self.0.push(Some(bits));
        }
        fn tensor(&mut self, _tensor: TensorArg<'_>) {
            self.0.push(None);
        }
        fn out(&mut self, _buffer: Option<&OutBuffer>, _shape: &[i64]) {
            self.0.push(None);
        }
    }
    let mut scalars = Scalars(Vec::new());
    format.visit_args(&mut scalars);
    scalars.0
}

/// The value of a member that is a scalar, or the divisor of one.
fn constant(declared: &Declared, member: &DataMember, scalars: &[Option<u32>]) -> Option<ConstValue> {
    let (field, bits) = (declared.fields.get(member.field)?, (*scalars.get(member.field)?)?);
    match field.ty {
        FieldType::Scalar(Elem::F32) => Some(ConstValue::F32(f32::from_bits(bits))),
        FieldType::Scalar(Elem::I32) => Some(ConstValue::I32(bits.cast_signed())),
        FieldType::Scalar(Elem::U32) => Some(ConstValue::U32(bits)),
        FieldType::Scalar(Elem::Bool) => Some(ConstValue::Bool(bits != 0)),
        _ => None,
    }
}

/// A struct that was begun, with the functions of a format.
fn with_functions(desc: &KvFormatDesc, mut text: String, links: &Links) -> String {
    // products of formats are not fused with sums, in helpers too
    let exact = |helper: &&DeviceFn| if helper.exact.is_empty() { helper.cuda } else { helper.exact };
    let or = |written: &'static str, default| if written.is_empty() { default } else { written };
    let of_codes = [or(desc.scale, NO_SCALE), or(desc.zero, NO_ZERO), or(desc.level, NO_LEVEL)];
    for cuda in links.helpers.iter().map(exact).chain([desc.encode, desc.decode]).chain(of_codes) {
        text += "\n";
        text += &indented(cuda);
    }
    text + "#line 1 \"variant\"\n};\n\n"
}

/// What the trait gives a format that has no linear codes, or none with zeros or levels.
const NO_SCALE: &str = "template <class S> ATTN_FN float scale(S, int, int) const { return 1.f; }\n";
const NO_ZERO: &str = "template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }\n";
const NO_LEVEL: &str = "ATTN_FN float level(int) const { return 0.f; }\n";

/// The struct as far as its functions: doc comment, parameters, types and constants. Scalars whose bits are given by
/// field are constants; their arguments stay, so that the layout is the same.
fn begin(declared: &Declared, name: &str, scalars: &[Option<u32>]) -> Result<(String, Links), VariantError> {
    let mut text = String::new();
    for line in declared.doc.lines() {
        text += &comment(line);
        text.push('\n');
    }
    text += &format!("struct {name} {{\n");
    for member in members(declared).0 {
        let DataMember { ty, name, .. } = &member;
        text += &match constant(declared, &member, scalars) {
            Some(value) => {
                let (of, value) = (const_type(value), const_text(value));
                format!("  {ty} {name}arg_;\n  static constexpr {of} {name} = {value};\n")
            }
            None => format!("  {ty} {name};\n"),
        };
    }
    let links = Links::of(declared)?;
    text += &indented(&links.types.text());
    for (name, value) in &links.consts {
        text += &format!("  static constexpr {} {name} = {};\n", const_type(*value), const_text(*value));
    }
    Ok((text, links))
}

/// A line of a C++ comment: without control characters, trigraphs, and a backslash that would join it with the next
/// line.
fn comment(line: &str) -> String {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.replace("??/", "?/");
    format!("/// {line}").trim_end_matches(|c: char| c == '\\' || c.is_whitespace()).to_owned()
}

fn const_type(value: ConstValue) -> &'static str {
    match value {
        ConstValue::F32(_) => "float",
        ConstValue::I32(_) => "int",
        ConstValue::U32(_) => "u32",
        ConstValue::U64(_) => "u64",
        ConstValue::I64(_) => "i64",
        ConstValue::Bool(_) => "bool",
        ConstValue::Enum(ty, _) => ty.name,
    }
}

/// A literal for a constant, bit-exact apart from the payload of a NaN.
pub(super) fn const_text(value: ConstValue) -> String {
    match value {
        ConstValue::F32(x) if x.is_nan() => "F32_NAN".to_owned(),
        ConstValue::F32(x) if x.is_infinite() => if x > 0.0 { "F32_INFINITY" } else { "-F32_INFINITY" }.to_owned(),
        ConstValue::F32(x) => format!("{x:?}f"),
        ConstValue::I32(i32::MIN) => "I32_MIN".to_owned(),
        ConstValue::I32(x) => x.to_string(),
        ConstValue::U32(x) => format!("{x}u"),
        ConstValue::U64(x) => format!("{x}ull"),
        ConstValue::I64(i64::MIN) => "I64_MIN".to_owned(),
        ConstValue::I64(x) => format!("{x}ll"),
        ConstValue::Bool(x) => x.to_string(),
        ConstValue::Enum(ty, x) => match ty.variants.iter().find(|(_, value)| *value == x) {
            Some((variant, _)) => format!("{}::{variant}", ty.name),
            None => format!("{}({x})", ty.name),
        },
    }
}

/// Indents each line that is no directive.
fn indented(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if !line.starts_with('#') && !line.is_empty() {
            out += "  ";
        }
        out += line;
        out.push('\n');
    }
    out
}
