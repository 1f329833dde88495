//! `attn list`.

use std::process::ExitCode;

use anyhow::Result;
use attn_core::{
    lang::{FieldDesc, FieldType, Hook, Normalizer, VariantDesc},
    registry::Registry,
};
use serde_json::{Value, json};

use crate::{Global, output::Output};

#[derive(clap::Args)]
pub(crate) struct List {
    /// Only this variant, with its whole documentation.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The cubins embedded in this binary instead.
    #[arg(long)]
    embedded: bool,
}

/// Writes the registry, or what is embedded.
pub(crate) fn run(args: &List, global: &Global) -> Result<ExitCode> {
    if args.embedded {
        return embedded(global);
    }
    let registry = Registry::global()?;
    if let Some(name) = &args.name {
        // an unknown name is best explained by the parser, which knows the nearest
        if registry.get(name).is_none() {
            attn_core::expr::Variant::parse(name)?;
        }
    }
    let mut output = Output::new(global, &["variant", "parameters", "hooks", "tiles of its mask", "what it is"])?;
    for desc in registry.iter().filter(|d| args.name.as_deref().is_none_or(|name| name == d.name)) {
        let whole = args.name.is_some();
        output.record(&record(desc), || {
            let doc = if whole { desc.doc.trim() } else { summary(desc) };
            vec![desc.name.to_owned(), parameters(desc), hooks(desc), structure(desc), doc.to_owned()]
        })?;
    }
    output.finish()?;
    let cubins = attn_kernels::aot::embedded().count();
    if args.name.is_none() {
        let of = attn_kernels::aot::archs().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match cubins {
            0 => eprintln!("no kernels are embedded in this binary (ATTN_CUDA_ARCHS was not set when it was built)"),
            n => eprintln!("{n} kernels are embedded, for {of}: attn list --embedded"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn embedded(global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &["kernel", "arch", "bytes", "compiler"])?;
    for cubin in attn_kernels::aot::embedded() {
        let record = json!({
            "embedded": cubin.name, "arch": cubin.arch, "bytes": cubin.cubin.len(), "compiler": cubin.compiler, "key": cubin.key,
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

/// `cap: f32, cap > 0.0`, a line each.
fn parameters(desc: &VariantDesc) -> String {
    let lines = desc.fields.iter().map(|f| {
        let default = f.default.map(|d| format!(" = {d}")).unwrap_or_default();
        let require = f.require.map(|r| format!(", {r}")).unwrap_or_default();
        format!("{}: {}{default}{require}", f.name, ty(f))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn hooks(desc: &VariantDesc) -> String {
    let mut names: Vec<_> = desc.hooks.iter().map(|h| h.hook.method().to_owned()).collect();
    if desc.normalizer != Normalizer::Softmax {
        names.push(format!("normaliser {:?}", desc.normalizer));
    }
    names.join("\n")
}

/// What is known of whole tiles of the mask, from its source.
fn structure(desc: &VariantDesc) -> String {
    let mask = &desc.mask;
    let mut said = Vec::new();
    match (desc.has(Hook::LogitsMask), mask.over.is_empty()) {
        (false, _) => {}
        (true, true) if mask.why_not.is_empty() => said.push("not derived".to_owned()),
        (true, true) => said.push(format!("not derived: {}", mask.why_not)),
        (true, false) => said.push("derived".to_owned()),
    }
    if !mask.bounds.is_empty() {
        said.push("keys of a row are an interval".to_owned());
    }
    if !mask.tables.is_empty() {
        said.push(format!("asks for least and greatest of {}", mask.tables.join(", ")));
    }
    if desc.has(Hook::KvRange) {
        said.push("kv_range".to_owned());
    }
    if desc.has(Hook::KvListLen) {
        said.push("keys from a list".to_owned());
    }
    said.join("; ")
}

fn ty(field: &FieldDesc) -> String {
    match field.ty {
        FieldType::Scalar(elem) => elem.name().to_owned(),
        FieldType::Tensor { elem, .. } => format!("[{}] of ({})", elem.name(), field.shape),
        FieldType::Out { .. } => format!("[f32] of ({}), stored to", field.shape),
    }
}
