//! What is known of a value: whether it is an index, and of which space.

use super::found::Condition;

/// The coordinates that are indices, and what each counts over.
const WORDS: [(&str, &str); 9] = [
    ("qo_pos", "within the whole sequence"),
    ("kv_pos", "within the whole sequence"),
    ("qo_row", "within the request's queries"),
    ("qo_token", "over the queries of all requests"),
    ("kv_token", "over the keys of all requests"),
    ("qo_head", "over the query heads"),
    ("kv_head", "over the KV heads"),
    ("batch", "over the requests"),
    ("kv_slot", "over the blocks of a key list"),
];

/// The coordinate of a word, also of `qo_pos_min` and `qo_pos_max` of a tile; `None` for lengths.
pub(super) fn word(text: &str) -> Option<&'static str> {
    let plain = text.strip_suffix("_min").or_else(|| text.strip_suffix("_max")).unwrap_or(text);
    WORDS.into_iter().map(|(word, _)| word).find(|word| *word == plain)
}

/// What a coordinate counts over.
pub(super) fn over(word: &str) -> &'static str {
    WORDS.into_iter().find(|(there, _)| *there == word).map_or("", |(_, over)| over)
}

/// Whether the coordinate counts tokens or positions, of which blocks are formed by a division.
fn is_of_tokens(word: &str) -> bool {
    matches!(word, "qo_pos" | "kv_pos" | "qo_row" | "qo_token" | "kv_token")
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number that may be of any space.
    Any,
    /// A number as written, or made of such: an index plus this is of the same space.
    Literal,
    /// A scalar parameter, or made of such.
    Scalar,
    Index(Index),
    /// A tuple or a struct.
    Parts(Vec<(String, Value)>),
    /// A part of a helper's result.
    Result {
        helper: String,
        part: usize,
        args: Vec<Value>,
        scaled: bool,
        shifted: bool,
    },
}

/// An index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Index {
    pub(super) of: Origin,
    /// Whether it is multiplied or divided by a number.
    pub(super) scaled: bool,
    /// Whether a parameter is added or subtracted.
    pub(super) shifted: bool,
    /// What must hold for it to be this index.
    pub(super) conditions: Vec<Condition>,
}

/// Where an index comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Origin {
    Word(&'static str),
    /// An argument of the helper.
    Arg(usize),
}

/// The most indices that a value is taken for.
const MOST: usize = 8;

/// The most parts of a value, and arguments of the helpers that it is a result of.
const MOST_PARTS: usize = 256;

impl Value {
    pub(super) fn word(word: &'static str) -> Value {
        Value::Index(Index { of: Origin::Word(word), scaled: false, shifted: false, conditions: Vec::new() })
    }

    pub(super) fn arg(arg: usize) -> Value {
        Value::Index(Index { of: Origin::Arg(arg), scaled: false, shifted: false, conditions: Vec::new() })
    }

    /// The value, or any if it has too many parts: a part may be used twice at each level.
    pub(super) fn bounded(self) -> Value {
        if self.parts_left(MOST_PARTS).is_some() { self } else { Value::Any }
    }

    fn parts_left(&self, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match self {
            Value::Parts(parts) => parts.iter().try_fold(left, |left, (_, part)| part.parts_left(left)),
            Value::Result { args, .. } => args.iter().try_fold(left, |left, arg| arg.parts_left(left)),
            _ => Some(left),
        }
    }

    /// Whether it is a number without a space of its own.
    fn is_number(&self) -> bool {
        matches!(self, Value::Literal | Value::Scalar)
    }

    fn is_index(&self) -> bool {
        matches!(self, Value::Index(_) | Value::Result { .. })
    }

    /// The indices that it may be.
    pub(super) fn indices(&self) -> Vec<Index> {
        match self {
            Value::Index(index) => vec![index.clone()],
            Value::Result { helper, part, args, scaled, shifted } => {
                let of_arg = |(arg, value): (usize, &Value)| {
                    value.indices().into_iter().map(move |mut index| {
                        index.scaled |= scaled;
                        index.shifted |= shifted;
                        let (helper, part) = (helper.clone(), *part);
                        let unscaled = matches!(index.of, Origin::Word(word) if !is_of_tokens(word));
                        index.conditions.push(Condition::Returns { helper, part, arg, unscaled });
                        index
                    })
                };
                args.iter().enumerate().flat_map(of_arg).take(MOST).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The value of either of two expressions.
    pub(super) fn or(self, other: Value) -> Value {
        match (self, other) {
            (a, b) if a == b => a,
            (Value::Literal, other) | (other, Value::Literal) => other,
            (Value::Index(a), Value::Index(b)) if same(&a, &b) && a.conditions == b.conditions => {
                Value::Index(Index { scaled: a.scaled || b.scaled, shifted: a.shifted || b.shifted, ..a })
            }
            (Value::Parts(a), Value::Parts(b)) if a.iter().map(|p| &p.0).eq(b.iter().map(|p| &p.0)) => {
                let parts = a.into_iter().zip(b).map(|((name, a), (_, b))| (name, a.or(b)));
                Value::Parts(parts.collect())
            }
            _ => Value::Any,
        }
    }

    /// A part of a tuple or struct.
    pub(super) fn part(self, name: &str) -> Value {
        match (self, name.parse()) {
            (Value::Parts(parts), _) => {
                parts.into_iter().find(|(there, _)| there == name).map_or(Value::Any, |(_, value)| value)
            }
            (Value::Result { helper, args, scaled, shifted, .. }, Ok(part)) => {
                Value::Result { helper, part, args, scaled, shifted }
            }
            _ => Value::Any,
        }
    }

    /// The sum.
    pub(super) fn plus(self, other: Value) -> Value {
        match (self, other) {
            (index, number) | (number, index) if index.is_index() && number.is_number() => index.moved(&number),
            (a, b) => numbers(&a, &b),
        }
    }

    /// The difference: two indices of a space have a distance, which is no index.
    pub(super) fn minus(self, other: &Value) -> Value {
        match other.is_number() && self.is_index() {
            true => self.moved(other),
            false => numbers(&self, other),
        }
    }

    fn moved(mut self, by: &Value) -> Value {
        if let Value::Index(Index { shifted, .. }) | Value::Result { shifted, .. } = &mut self {
            *shifted |= *by == Value::Scalar;
        }
        self
    }

    /// The product or quotient with a number.
    pub(super) fn times(self, number: &Value) -> Value {
        match self {
            Value::Index(index) if *number == Value::Literal => match index.of {
                Origin::Word(word) if !is_of_tokens(word) => Value::Any,
                _ => Value::Index(Index { scaled: true, ..index }),
            },
            Value::Result { helper, part, args, shifted, .. } if *number == Value::Literal => {
                Value::Result { helper, part, args, scaled: true, shifted }
            }
            value => numbers(&value, number),
        }
    }

    /// The value moved into bounds: it stays of its space.
    pub(super) fn within(self, bounds: &[Value]) -> Value {
        match (&self, bounds) {
            (a, _) if a.is_index() => self,
            (a, [b]) if a.is_number() && b.is_index() => b.clone(),
            (a, [b]) => numbers(a, b),
            _ => Value::Any,
        }
    }
}

fn numbers(a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Literal, Value::Literal) => Value::Literal,
        (a, b) if a.is_number() && b.is_number() => Value::Scalar,
        _ => Value::Any,
    }
}

/// Whether two indices are of one space, as far as is known. A row plus a parameter may be a position: the parameter is
/// where the queries of every request begin. A query's own row and position may be compared: they are the same where
/// all keys are of its queries.
pub(super) fn same(a: &Index, b: &Index) -> bool {
    let is_row = |word: &str| word == "qo_row";
    let is_pos = |word: &str| matches!(word, "qo_pos" | "kv_pos");
    match (a.of, b.of) {
        (Origin::Word(x), Origin::Word(y)) if is_row(x) && is_pos(y) || is_pos(x) && is_row(y) => {
            a.shifted || b.shifted || x == "qo_pos" || y == "qo_pos"
        }
        (Origin::Word(a), Origin::Word(b)) => over(a) == over(b),
        (a, b) => a == b,
    }
}

/// Whether one coordinate is of the query, the other of the key: their difference is no offset between the spaces of a
/// row.
pub(super) fn are_of_query_and_key(a: &str, b: &str) -> bool {
    let query = |word: &str| matches!(word, "qo_pos" | "qo_row" | "qo_token");
    let key = |word: &str| matches!(word, "kv_pos" | "kv_token");
    query(a) && key(b) || key(a) && query(b)
}

/// The refusal of two coordinates.
pub(super) fn mixed(a: &str, b: &str) -> String {
    let hint = match (a, b) {
        ("qo_row" | "qo_token", "kv_pos") | ("kv_pos", "qo_row" | "qo_token") => "did you mean `qo_pos`?",
        ("kv_token", "qo_pos") | ("qo_pos", "kv_token") => "did you mean `kv_pos`?",
        _ if are_of_query_and_key(a, b) => "did you mean `qo_pos` and `kv_pos`?",
        _ => "they are the same for some batches only.",
    };
    format!("`{a}` counts {}, `{b}` {}: {hint} {PLAIN}", over(a), over(b))
}

const PLAIN: &str = "Where a plain number is meant, write `space::plain(..)`";

/// The dimensions that an axis may be, in the order of `attn::lang::lints::spaces`, and the coordinate of each.
const AXES: [(&str, &str); 3] = [("qo_tokens", "qo_token"), ("kv_tokens", "kv_token"), ("batch", "batch")];

/// The refusal of a coordinate as the index of each kind of axis; empty where it fits.
pub(super) fn on_axes(tensor: &str, word: &str) -> [String; 3] {
    AXES.map(|(dim, of)| match word == of {
        true => String::new(),
        false => format!(
            "`{word}` counts {}, this axis of `{tensor}` {} (`{dim}`): did you mean `{of}`? {PLAIN}",
            over(word),
            over(of)
        ),
    })
}
