//! Index spaces across macros: the derive knows the shapes of tensors, `#[device_fn]` what a helper does with its
//! arguments, and `#[attention_variant]` which coordinates are the indices and the arguments.

use super::words::{same, word_at};
use crate::lang::FieldDesc;

/// What a helper does with its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spaces {
    /// Pairs of arguments that it compares, the lesser first.
    pub compared: &'static [(usize, usize)],
    /// Pairs of which it subtracts one from the other.
    pub subtracted: &'static [(usize, usize)],
    /// Parts of its result that have the space of an argument: the part, the argument, and whether it is multiplied or
    /// divided.
    pub returned: &'static [(usize, usize, bool)],
}

impl Spaces {
    /// Of a helper of which nothing is known.
    pub const UNKNOWN: Spaces = Spaces { compared: &[], subtracted: &[], returned: &[] };
}

/// Whether a part of the result of the helper of this name has the space of an argument.
pub const fn returns(_helper: &str, spaces: &Spaces, part: usize, arg: usize, unscaled: bool) -> bool {
    let mut n = 0;
    while n < spaces.returned.len() {
        let (there, of, scaled) = spaces.returned[n];
        if there == part && of == arg {
            return !(scaled && unscaled);
        }
        n += 1;
    }
    false
}

/// Whether the helper of this name compares two arguments, or, with `subtracts`, subtracts one from the other.
pub const fn relates(_helper: &str, spaces: &Spaces, a: usize, b: usize, subtracts: bool) -> bool {
    has(spaces.compared, a, b) || subtracts && has(spaces.subtracted, a, b)
}

const fn has(pairs: &[(usize, usize)], a: usize, b: usize) -> bool {
    let mut n = 0;
    while n < pairs.len() {
        if pairs[n].0 == a && pairs[n].1 == b {
            return true;
        }
        n += 1;
    }
    false
}

const fn all(conditions: &[bool]) -> bool {
    let mut n = 0;
    while n < conditions.len() {
        if !conditions[n] {
            return false;
        }
        n += 1;
    }
    true
}

/// The message, if all conditions hold.
pub const fn mixed<'a>(conditions: &[bool], message: &'a str) -> Option<&'a str> {
    if all(conditions) { Some(message) } else { None }
}

/// Stops the evaluation of a constant with a message, at the place that calls this.
#[track_caller]
pub const fn refuse(message: Option<&str>) {
    if let Some(message) = message {
        panic!("{}", message);
    }
}

/// The dimensions of axes, in the order of the messages of [`on_axis`].
const AXES: [&str; 3] = ["qo_tokens", "kv_tokens", "batch"];

/// The message for the dimension of an axis of a tensor, if all conditions hold; an empty one stands for an index that
/// fits.
pub const fn on_axis<'a>(
    conditions: &[bool],
    fields: &[FieldDesc],
    tensor: &str,
    axis: usize,
    messages: [&'a str; 3],
) -> Option<&'a str> {
    if !all(conditions) {
        return None;
    }
    let mut n = 0;
    while n < fields.len() {
        if same(fields[n].name.as_bytes(), tensor.as_bytes()) {
            let dim = word_at(fields[n].shape, axis);
            let mut kind = 0;
            while kind < AXES.len() {
                if same(dim, AXES[kind].as_bytes()) && !is_field(fields, dim) && !messages[kind].is_empty() {
                    return Some(messages[kind]);
                }
                kind += 1;
            }
        }
        n += 1;
    }
    None
}

/// A field hides the dimension of its name.
const fn is_field(fields: &[FieldDesc], name: &[u8]) -> bool {
    let mut n = 0;
    while n < fields.len() {
        if same(fields[n].name.as_bytes(), name) {
            return true;
        }
        n += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{FieldType, desc::Elem};

    #[test]
    fn an_axis_has_the_space_of_its_dimension() {
        let ty = FieldType::Tensor { elem: Elem::F32, rank: 3 };
        let table = FieldDesc {
            name: "t",
            doc: "",
            ty,
            shape: "qo_tokens, (2 * n, 3).0, batch",
            default: None,
            require: None,
            monotone: false,
            mutable: false,
            growing_axes: 0,
        };
        let messages = ["", "kv tokens", "batch"];
        let of = |fields: &[FieldDesc], axis| on_axis(&[true], fields, "t", axis, messages);
        assert_eq!([0, 1, 2, 3].map(|axis| of(&[table], axis)), [None, None, Some("batch"), None]);
        assert_eq!(on_axis(&[true, false], &[table], "t", 2, messages), None);
        let hides = FieldDesc { name: "batch", ..table };
        assert_eq!(of(&[table, hides], 2), None, "a field of this name");
    }

    #[test]
    fn conditions_are_of_pairs_and_parts() {
        let spaces = Spaces { compared: &[(0, 2)], subtracted: &[(0, 1)], returned: &[(1, 0, true)] };
        assert!(relates("f", &spaces, 0, 2, false) && !relates("f", &spaces, 0, 1, false));
        assert!(relates("f", &spaces, 0, 1, true) && !relates("f", &Spaces::UNKNOWN, 0, 2, true));
        assert!(returns("f", &spaces, 1, 0, false) && !returns("f", &spaces, 1, 0, true));
        assert!(!returns("f", &spaces, 0, 0, false));
        assert_eq!(mixed(&[true, true], "no"), Some("no"));
        assert_eq!(mixed(&[true, false], "no"), None);
    }
}
