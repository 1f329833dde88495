//! Typed access to the fields of a configuration. A field that is left out is not one that is `null`: the first has the
//! default of the model's class, the second is the class's `None`, which many fields do not take. What was read is
//! recorded, so that fields that nobody has read can be refused.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use serde_json::Value;

use super::{ModelError, error::shown};

/// What a field holds: in words, and how it is read.
pub(super) struct Kind<T> {
    pub(super) expected: &'static str,
    pub(super) read: fn(&Value) -> Option<T>,
}

/// `true` or `false`; numbers too, as older files have them.
pub(super) const TRUTH: Kind<bool> =
    Kind { expected: "true or false", read: |value| value.as_bool().or_else(|| value.as_i64().map(|x| x != 0)) };

/// A whole number.
pub(super) const WHOLE: Kind<i64> = Kind { expected: "a whole number", read: Value::as_i64 };

/// A count of at least 0.
pub(super) const COUNT: Kind<u64> = Kind { expected: "a whole number of at least 0", read: Value::as_u64 };

/// A whole number above 0, as the i32 of variant parameters.
pub(super) const LENGTH: Kind<i32> = Kind {
    expected: "a whole number above 0",
    read: |value| value.as_i64().and_then(|x| i32::try_from(x).ok()).filter(|&x| x > 0),
};

/// A number.
pub(super) const NUMBER: Kind<f32> =
    Kind { expected: "a number", read: |value| value.as_f64().map(|x| x as f32).filter(|x| x.is_finite()) };

/// A number above 0.
pub(super) const ABOVE_ZERO: Kind<f32> =
    Kind { expected: "a number above 0", read: |value| (NUMBER.read)(value).filter(|&x| x > 0.0) };

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

    /// Fields that are understood although their value does not matter here.
    pub(super) fn mark_read(&self, names: &[&str]) {
        self.read.borrow_mut().extend(names.iter().map(|&name| name.to_owned()));
    }

    /// Whether somebody has asked for this field.
    pub(super) fn was_read(&self, name: &str) -> bool {
        self.read.borrow().contains(name)
    }

    /// Whether there is no field, `null` included.
    pub(super) fn is_empty(&self) -> bool {
        self.value.as_object().is_none_or(serde_json::Map::is_empty)
    }

    /// The fields that are there, `null` aside.
    fn fields(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let fields = self.value.as_object().into_iter().flatten();
        fields.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value))
    }

    /// The fields that are there and that nobody has asked for.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.fields().filter(|(name, _)| !self.was_read(name))
    }

    /// A field: `None` if it is left out, `Some(None)` if it is `null`.
    fn typed<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<Option<T>>, ModelError> {
        self.mark_read(&[name]);
        match self.value.get(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(Some(read))),
                None => Err(wrong(name, expected, shown(value))),
            },
        }
    }

    /// A field of which the class takes no `null`; `None` if it is left out.
    pub(super) fn given<T>(&self, name: &str, kind: &Kind<T>) -> Result<Option<T>, ModelError> {
        let expected = kind.expected;
        let given = self.or_null(name, kind)?;
        given.map(|given| given.ok_or_else(|| wrong(name, expected, "null".to_owned()))).transpose()
    }

    /// A field of which the class takes `null`: `None` if it is left out, `Some(None)` if it is `null`.
    pub(super) fn or_null<T>(&self, name: &str, kind: &Kind<T>) -> Result<Option<Option<T>>, ModelError> {
        self.typed(name, kind.expected, kind.read)
    }

    /// A text, not `null`.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ModelError> {
        const EXPECTED: &str = "a text";
        let given = self.typed(name, EXPECTED, Value::as_str)?;
        given.map(|given| given.ok_or_else(|| wrong(name, EXPECTED, "null".to_owned()))).transpose()
    }

    /// A list, if it is there.
    pub(super) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ModelError> {
        Ok(self.typed(name, "a list", Value::as_array)?.flatten())
    }

    /// An object, if it is there.
    pub(super) fn object(&self, name: &str) -> Result<Option<Config<'a>>, ModelError> {
        let object = |value: &'a Value| value.is_object().then(|| Config::new(value));
        Ok(self.typed(name, "an object", object)?.flatten())
    }
}

pub(super) fn wrong(field: &str, expected: &'static str, got: String) -> ModelError {
    ModelError::Type { field: field.to_owned(), expected, got }
}
