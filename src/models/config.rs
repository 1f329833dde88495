//! Typed access to the fields of a configuration. `null` counts as missing. What was read is recorded, so that fields
//! that nobody has read can be refused.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use serde_json::Value;

use super::{ModelError, error::shown};

/// The most layers of a model. Larger numbers are mistakes, for which nothing is allocated.
const MAX_LAYERS: u32 = 1024;

/// The keys that a layer attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerMask {
    /// All earlier keys.
    All,
    /// The keys of a sliding window.
    Window,
    /// The keys of its chunk.
    Chunk,
}

/// One object of a configuration.
#[derive(Clone, Debug)]
pub(super) struct Config<'a> {
    value: &'a Value,
    /// The names that were asked for; clones share them.
    read: Rc<RefCell<BTreeSet<String>>>,
}

impl<'a> Config<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Config { value, read: Rc::default() }
    }

    pub(super) fn field(&self, name: &str) -> Option<&'a Value> {
        self.mark_read(&[name]);
        self.value.get(name).filter(|value| !value.is_null())
    }

    /// Fields that are understood although their value does not matter here.
    pub(super) fn mark_read(&self, names: &[&str]) {
        self.read.borrow_mut().extend(names.iter().map(|&name| name.to_owned()));
    }

    /// The fields that are there and that nobody has asked for.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let fields = self.value.as_object().into_iter().flatten();
        let unread = fields.filter(|(name, value)| !value.is_null() && !self.read.borrow().contains(*name));
        unread.map(|(name, value)| (name.as_str(), value))
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.field(name) else { return Ok(None) };
        let wrong = || ModelError::Type { field: name.to_owned(), expected, got: shown(value) };
        read(value).map(Some).ok_or_else(wrong)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ModelError> {
        self.typed(name, "a text", Value::as_str)
    }

    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, ModelError> {
        self.typed(name, "true or false", |value| value.as_bool().or_else(|| value.as_f64().map(|x| x != 0.0)))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f32>, ModelError> {
        let finite = |x: f64| (x as f32).is_finite().then_some(x as f32);
        self.typed(name, "a number", |value| value.as_f64().and_then(finite))
    }

    /// A number above 0.
    pub(super) fn above_zero(&self, name: &str) -> Result<Option<f32>, ModelError> {
        let above = |x: f64| (x as f32).is_finite().then_some(x as f32).filter(|&x| x > 0.0);
        self.typed(name, "a number above 0", |value| value.as_f64().and_then(above))
    }

    /// A list.
    pub(super) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ModelError> {
        self.typed(name, "a list", Value::as_array)
    }

    /// An integer above 0.
    pub(super) fn positive(&self, name: &str) -> Result<Option<u32>, ModelError> {
        let positive = |x: u64| u32::try_from(x).ok().filter(|&x| (1..=i32::MAX as u32).contains(&x));
        self.typed(name, "a whole number above 0", |value| value.as_u64().and_then(positive))
    }

    /// As `positive`, as the i32 of variant parameters.
    pub(super) fn length(&self, name: &str) -> Result<Option<i32>, ModelError> {
        Ok(self.positive(name)?.map(u32::cast_signed))
    }

    pub(super) fn object(&self, name: &str) -> Result<Option<Config<'a>>, ModelError> {
        self.typed(name, "an object", |value| value.is_object().then(|| Config::new(value)))
    }

    pub(super) fn layers(&self) -> Result<usize, ModelError> {
        let field = "num_hidden_layers";
        let layers = self.positive(field)?.ok_or(ModelError::Missing { field })?;
        if layers > MAX_LAYERS {
            let (expected, got) = ("a whole number from 1 to 1024", layers.to_string());
            return Err(ModelError::Type { field: field.to_owned(), expected, got });
        }
        Ok(layers as usize)
    }

    pub(super) fn heads(&self) -> Result<u32, ModelError> {
        let field = "num_attention_heads";
        self.positive(field)?.ok_or(ModelError::Missing { field })
    }

    pub(super) fn head_dim(&self) -> Result<u32, ModelError> {
        if let Some(given) = self.positive("head_dim")? {
            return Ok(given);
        }
        let hidden = self.positive("hidden_size")?.ok_or(ModelError::Missing { field: "head_dim" })?;
        let heads = self.heads()?;
        if hidden % heads != 0 {
            let (field, expected) = ("hidden_size".to_owned(), "a multiple of `num_attention_heads`");
            return Err(ModelError::Type { field, expected, got: format!("{hidden} for {heads} heads") });
        }
        Ok(hidden / heads)
    }

    /// The keys of each layer: `layer_types`, else the default of the model family.
    pub(super) fn layer_types(&self, default: impl Fn(usize) -> LayerMask) -> Result<Vec<LayerMask>, ModelError> {
        let layers = self.layers()?;
        // these matter to layers of their kind alone
        self.mark_read(&["sliding_window", "attention_chunk_size"]);
        let Some(given) = self.list("layer_types")? else {
            return Ok((0..layers).map(default).collect());
        };
        if given.len() != layers {
            let got = format!("a list of {}", given.len());
            return Err(ModelError::Type { field: "layer_types".to_owned(), expected: "one text for each layer", got });
        }
        let one = |(i, value): (usize, &Value)| match value.as_str() {
            Some("full_attention") => Ok(LayerMask::All),
            Some("sliding_attention") => Ok(LayerMask::Window),
            Some("chunked_attention") => Ok(LayerMask::Chunk),
            _ => Err(ModelError::Unsupported {
                field: format!("layer_types[{i}]"),
                got: shown(value).trim_matches('"').to_owned(),
                known: "full_attention, sliding_attention, chunked_attention",
            }),
        };
        given.iter().enumerate().map(one).collect()
    }

    /// Refuses a boolean setting that is on.
    pub(super) fn off(&self, name: &str) -> Result<(), ModelError> {
        match self.truth(name)? {
            Some(true) => {
                Err(ModelError::Unsupported { field: name.to_owned(), got: "true".to_owned(), known: "false" })
            }
            _ => Ok(()),
        }
    }

    /// The mask of a decoder layer.
    pub(super) fn mask(&self, sees: LayerMask) -> Result<crate::Variant, ModelError> {
        use crate::stock::{Causal, Chunked, SlidingWindow};
        let needed = |field| self.length(field)?.ok_or(ModelError::Missing { field });
        Ok(match sees {
            LayerMask::All => crate::compose!(Causal),
            LayerMask::Window => crate::compose!(Causal, SlidingWindow { window: needed("sliding_window")? }),
            LayerMask::Chunk => crate::compose!(Causal, Chunked { chunk: needed("attention_chunk_size")? }),
        })
    }
}
