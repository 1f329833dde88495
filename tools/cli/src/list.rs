//! `attn list`: the registered variants, and a page about one of them.

use std::process::ExitCode;

use anyhow::{Result, bail};
use attn_core::lang::{DeviceFn, FieldDesc, FieldType, Hook, Normalizer, VariantDesc};
use attn_core::registry::Registry;
use comfy_table::{Cell as TableCell, Color, presets};
use serde_json::{Value, json};

use crate::global::Global;
use crate::output::{self, Output, message, plain_table, wrap};

#[derive(clap::Args)]
pub(crate) struct List {
    /// Prints one variant: its documentation, parameters, hooks and tile classes.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Lists the cubins embedded in this binary instead.
    #[arg(long, conflicts_with = "name")]
    embedded: bool,
}

/// Prints the registry, one variant, or the embedded cubins.
pub(crate) fn run(args: &List, global: &Global) -> Result<ExitCode> {
    if args.embedded {
        return embedded(global);
    }
    let registry = Registry::global()?;
    if let Some(name) = &args.name {
        let Some(desc) = registry.get(name) else {
            // the parser's error names the nearest variant
            attn_core::expr::Variant::parse(name)?;
            bail!("`{name}` is an expression: attn list takes the name of one variant");
        };
        return one(desc, global);
    }
    let mut output = Output::new(global, &["variant", "parameters", "hooks", "summary"])?.keep_words(&[0, 2]);
    for desc in registry.iter() {
        output.record(&record(desc), || {
            let parameters: Vec<_> =
                desc.fields.iter().map(|field| format!("{}: {}", field.name, element(field))).collect();
            vec![desc.name.to_owned(), parameters.join("\n"), hooks(desc).join("\n"), paragraphs(summary(desc))]
        })?;
    }
    output.finish()?;
    let of = attn_kernels::aot::archs().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match attn_kernels::aot::embedded().count() {
        0 => message!("no kernels are embedded in this binary (ATTN_CUDA_ARCHS was not set when it was built)"),
        n => message!("{n} kernels are embedded, for {of}: attn list --embedded"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one variant as a page.
fn one(desc: &VariantDesc, global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &[])?;
    output.line(&record(desc))?;
    if output.is_table() {
        output.text(&page(desc))?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The columns of the labels of a page and of the spaces around them and the text.
const LABELS: usize = "tile classes".len() + 4;

/// Labels at the left, text at the right, wrapped to the width.
fn page(desc: &VariantDesc) -> String {
    let mut table = plain_table(presets::NOTHING);
    let width = output::width(&table).saturating_sub(LABELS).max(LABELS);
    let mut row = |label: &str, text: String| {
        if !text.is_empty() {
            table.add_row([TableCell::new(label).fg(Color::Cyan), TableCell::new(text)]);
        }
    };
    row("name", desc.name.to_owned());
    row("summary", paragraphs(summary(desc)));
    for (i, field) in desc.fields.iter().enumerate() {
        let label = if i == 0 { "parameters" } else { "" };
        let (head, doc) = (wrap(&parameter(field), width, "    "), wrap(field.doc, width - 2, "  "));
        row(label, if doc.is_empty() { head } else { format!("{head}\n  {doc}") });
    }
    row("hooks", hooks(desc).join(", "));
    row("tile classes", structure(desc));
    row("source", format!("{}:{}", desc.file, desc.line));
    let more = desc.doc.trim().strip_prefix(summary(desc)).unwrap_or_default();
    row("details", paragraphs(more.trim()));
    format!("{}\n", table.trim_fmt())
}

/// Lines of a paragraph joined, so that the table wraps them to its width. Code blocks and lists keep their lines.
fn paragraphs(doc: &str) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in doc.lines() {
        let line = line.trim_end();
        let fence = line.starts_with("```");
        let own = fenced || fence || line.is_empty() || line.starts_with(['-', '*', '|']);
        if !text.is_empty() {
            text.push(if own || text.ends_with('\n') { '\n' } else { ' ' });
        }
        text.push_str(if own { line } else { line.trim_start() });
        fenced ^= fence;
        if own && !line.starts_with(['-', '*']) {
            text.push('\n');
        }
    }
    text.trim_end().replace("\n\n\n", "\n\n")
}

fn embedded(global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &["kernel", "arch", "bytes", "compiler"])?;
    for cubin in attn_kernels::aot::embedded() {
        let record = json!({
            "embedded": cubin.name, "arch": cubin.arch, "bytes": cubin.cubin.len(), "compiler": cubin.compiler,
            "key": cubin.key,
        });
        output.record(&record, || {
            let bytes = cubin.cubin.len().to_string();
            vec![cubin.name.to_owned(), cubin.arch.to_owned(), bytes, cubin.compiler.to_owned()]
        })?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn record(desc: &VariantDesc) -> Value {
    let field = |f: &FieldDesc| {
        json!({
            "name": f.name, "type": ty(f), "default": f.default, "require": f.require, "doc": f.doc.trim(),
            "shape": if f.shape.is_empty() { None } else { Some(f.shape) },
        })
    };
    json!({
        "variant": desc.name,
        "summary": summary(desc),
        "params": desc.fields.iter().map(field).collect::<Vec<_>>(),
        "hooks": desc.hooks.iter().map(|h| h.hook.method()).collect::<Vec<_>>(),
        "tiles": if desc.has(Hook::LogitsMask) { Some(structure(desc)) } else { None },
        "normalizer": format!("{:?}", desc.normalizer),
        "doc": desc.doc.trim(),
        "at": format!("{}:{}", desc.file, desc.line),
    })
}

fn summary(desc: &VariantDesc) -> &'static str {
    desc.doc.trim().split("\n\n").next().unwrap_or_default()
}

/// A parameter with its type, default and condition: `cap: f32, cap > 0.0`.
fn parameter(field: &FieldDesc) -> String {
    let default = field.default.map(|d| format!(" = {d}")).unwrap_or_default();
    let require = field.require.map(|r| format!(", {r}")).unwrap_or_default();
    format!("{}: {}{default}{require}", field.name, ty(field))
}

fn hooks(desc: &VariantDesc) -> Vec<String> {
    let mut names: Vec<_> = desc.hooks.iter().map(|h| h.hook.method().to_owned()).collect();
    if desc.normalizer != Normalizer::Softmax {
        names.push(match desc.normalizer {
            Normalizer::Plain { divide: true } => "normaliser Plain, divided".to_owned(),
            Normalizer::Plain { divide: false } => "normaliser Plain".to_owned(),
            other => format!("normaliser {other:?}"),
        });
    }
    names
}

/// How the planner and the kernels classify tiles of the mask.
fn structure(desc: &VariantDesc) -> String {
    let mask = &desc.mask;
    let mut said = Vec::new();
    match (desc.has(Hook::LogitsMask), mask.over.is_empty()) {
        (false, _) => {}
        (true, true) if mask.why_not.is_empty() => said.push("not derived".to_owned()),
        (true, true) => said.push(format!("not derived: {}", mask.why_not)),
        (true, false) => said.push(derived(desc)),
    }
    if !mask.bounds.is_empty() {
        said.push("the keys of a row are one interval".to_owned());
    }
    if !mask.tables.is_empty() {
        said.push(format!("reads block minima and maxima of {}", mask.tables.join(", ")));
    }
    if desc.has(Hook::KvRange) {
        said.push("kv_range".to_owned());
    }
    if desc.has(Hook::KvListLen) {
        said.push("keys from a list".to_owned());
    }
    said.join("; ")
}

/// How much of a mask is derived.
fn derived(desc: &VariantDesc) -> String {
    // only those that the mask over a tile calls
    let called = |name: &&str| calls(desc.mask.over, name) || desc.device_fns.iter().any(|of| calls(of.over, name));
    let helpers = |with: &str| {
        let mut found = Vec::new();
        desc.device_fns.iter().for_each(|helper| helpers_with(with, helper, &mut found));
        found.retain(called);
        found
    };
    let listed = |names: &[&str]| {
        names.iter().map(|name| format!("`{}`", name.trim_end_matches("_fn"))).collect::<Vec<_>>().join(", ")
    };
    let (unknown, not_all) = (helpers("  return interval::Any{};"), helpers("interval::Any{}"));
    let listed_unknown = listed(&unknown);
    // the whole mask is the value of one of them
    let whole = |name: &&str| desc.mask.over.contains(&format!("return interval::tristate({name}_over("));
    match (desc.mask.why_not, unknown.as_slice()) {
        ("", []) if not_all.is_empty() => "derived".to_owned(),
        ("", []) => format!("derived in part: not all of the helper {} is known", listed(&not_all)),
        (_, names) if names.iter().any(whole) => {
            format!("not derived: nothing is known of the helper {listed_unknown}")
        }
        (why, []) => format!("derived in part: {why}"),
        ("", _) => format!("derived in part: nothing is known of the helper {listed_unknown}"),
        (why, _) => format!("derived in part: {why}, and nothing is known of the helper {listed_unknown}"),
    }
}

fn calls(text: &str, helper: &str) -> bool {
    let call = format!("{helper}_over(");
    let begins = |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    text.match_indices(&call).any(|(at, _)| begins(at))
}

/// The helpers whose text over a tile has these words.
fn helpers_with<'a>(words: &str, helper: &'a DeviceFn, found: &mut Vec<&'a str>) {
    if helper.over.contains(words) && !found.contains(&helper.name) {
        found.push(helper.name);
    }
    helper.device_fns.iter().for_each(|inner| helpers_with(words, inner, found));
}

/// The type of a parameter without the shape of a tensor.
fn element(field: &FieldDesc) -> String {
    match field.ty {
        FieldType::Scalar(elem) => elem.name().to_owned(),
        FieldType::Tensor { elem, .. } => format!("[{}]", elem.name()),
        FieldType::Out { .. } => "[f32], an output".to_owned(),
    }
}

/// The type of a parameter.
fn ty(field: &FieldDesc) -> String {
    match field.ty {
        FieldType::Scalar(elem) => elem.name().to_owned(),
        FieldType::Tensor { elem, .. } => format!("[{}] of ({})", elem.name(), field.shape),
        FieldType::Out { .. } => format!("[f32] of ({}), an output", field.shape),
    }
}

#[cfg(test)]
mod tests {
    use attn_core::lang::VariantDesc;

    use super::structure;

    /// The classes of a mask in Rust text, with a helper of floats.
    fn of(body: &str, name: &str) -> String {
        let text = format!(
            "#[device_fn] fn far(x: f32) -> bool {{ x > 1.0 }}\n\
             #[device_fn] fn pair(p: i32) -> (i32, i32) {{ (p / 4, p % 4) }}\n\
             #[derive(Clone, VariantParams)] struct M;\n#[attention_variant(name = \"{name}\")]\n\
             impl AttentionVariant for M {{ fn logits_mask(&self, at: LogitIndex) -> bool {{ {body} }} }}"
        );
        let made: Vec<&'static VariantDesc> = attn_text::load(&[("mask.rs", &text)]).expect("Rust text");
        structure(made[0])
    }

    #[test]
    fn a_page_says_how_much_of_a_mask_is_known() {
        assert_eq!(of("pair(at.qo_pos).0 == pair(at.kv_pos).0", "m1"), "derived");
        assert_eq!(of("far(at.qo_pos as f32)", "m2"), "not derived: nothing is known of the helper `far`");
        assert_eq!(
            of("at.kv_pos <= at.qo_pos && far(at.qo_pos as f32)", "m3"),
            "derived in part: the mask depends on float data, and nothing is known of the helper `far`"
        );
        assert_eq!(
            of("at.kv_pos <= at.qo_pos && at.qo_pos as f32 > 0.5", "m4"),
            "derived in part: the mask depends on float data"
        );
        assert_eq!(of("at.qo_pos as f32 > 0.5", "m5"), "not derived: the mask depends on float data");
    }
}
