//! The variants that expressions may name.

use std::sync::Once;

use attn::{Error, ErrorKind, Registry, Variant};
use attn_core::lang::FieldDesc;
use pyo3::{prelude::*, types::PyDict};

use crate::argument::{Arg, TEXT, optional};
use crate::error::{Failure, call};
use crate::params::read;

/// Registers the stock variants, also where a linker dropped what registers them.
pub(crate) fn register() {
    static REGISTERED: Once = Once::new();
    // a second variant of one name is the error of each expression
    REGISTERED.call_once(|| drop(attn::registry::register(attn::stock::variants())));
}

/// The variant of an expression, with parameters by name.
pub(crate) fn parse(expression: &Bound<'_, PyAny>, params: Option<&Bound<'_, PyAny>>) -> Result<Variant, Failure> {
    let of = |object: &Bound<'_, PyAny>| object.get_type().name().map(|name| name.to_string());
    let Ok(expression) = expression.extract::<&str>() else {
        let class = of(expression)?;
        return Err(Failure::variant(format!(
            "the variant is of the type `{class}`; it is an expression, such as `causal + soft_cap(cap=30)`"
        )));
    };
    let Some(params) = params else { return Ok(Variant::parse(expression)?) };
    let Ok(params) = params.cast::<PyDict>() else {
        let class = of(params)?;
        return Err(Failure::WrongType(format!(
            "params is of the type `{class}`; it is a dict of parameters by name, such as {{\"soft_cap.cap\": 30.0}}"
        )));
    };
    let mut values = Vec::new();
    for (name, value) in params {
        let Ok(name) = name.extract::<String>() else {
            let class = of(&name)?;
            return Err(Failure::WrongType(format!(
                "params has a name of the type `{class}`; names are str, such as \"soft_cap.cap\""
            )));
        };
        let value = read(&name, &value)?;
        values.push((name, value));
    }
    Ok(Variant::parse_with_values(expression, values)?)
}

/// Whether an expression is a variant: its normal form, with all parameters.
#[pyfunction]
#[pyo3(signature = (expression, params=None))]
pub(crate) fn check(
    py: Python<'_>,
    expression: &Bound<'_, PyAny>,
    params: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    call(py, || Ok(parse(expression, params)?.to_string()))
}

/// Registers the variants of Rust text, and gives their names.
#[pyfunction]
#[pyo3(signature = (rust, file=None))]
pub(crate) fn variant(py: Python<'_>, rust: Arg<&str>, file: Option<Arg<&str>>) -> PyResult<Vec<&'static str>> {
    call(py, || {
        let rust = rust.get(py, "rust", "a str: the text of a source file")?;
        let file = optional(file, py, "file", TEXT)?.unwrap_or("variant.rs");
        let variants = attn_text::load(&[(file, rust)])
            .map_err(|error| Failure::Ours(ErrorKind::InvalidVariant, error.to_string()))?;
        attn::registry::register(&variants).map_err(Error::from)?;
        Ok(variants.iter().map(|variant| variant.name).collect())
    })
}

/// A dictionary for each variant, by name: `name`, `doc` and `params`, of which each has `name`, `type`, `shape`, `doc`
/// and `default`.
#[pyfunction]
pub(crate) fn variants(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    call(py, || {
        let registry = Registry::global().map_err(Error::from)?;
        let of_field = |field: &FieldDesc| {
            let dict = PyDict::new(py);
            dict.set_item("name", field.name)?;
            dict.set_item("type", field.ty.to_string())?;
            dict.set_item("shape", field.shape)?;
            dict.set_item("doc", field.doc.trim())?;
            dict.set_item("default", field.default)?;
            PyResult::Ok(dict)
        };
        let all = registry.iter().map(|variant| {
            let dict = PyDict::new(py);
            dict.set_item("name", variant.name)?;
            dict.set_item("doc", variant.doc.trim())?;
            dict.set_item("params", variant.fields.iter().map(of_field).collect::<PyResult<Vec<_>>>()?)?;
            PyResult::Ok(dict)
        });
        Ok(all.collect::<PyResult<Vec<_>>>()?)
    })
}
