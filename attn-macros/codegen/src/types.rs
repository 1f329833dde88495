//! Type inference within one item: a small unification over what the macro can see.
//!
//! A parameter, constant or helper starts as a type variable and takes its type from its uses (`at.qo_pos -
//! self.window`: an i32). Types that stay unknown are left to C++ overloads.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use crate::budget;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Ty {
    F32,
    I32,
    U32,
    U8,
    U64,
    I64,
    Bool,
    Unit,
    /// The index of an array.
    Usize,
    Tuple(Vec<Ty>),
    Array(Box<Ty>, u64),
    RowIndex,
    LogitIndex,
    KvIndex,
    RowState,
    QueryTile,
    Row,
    /// The bytes of a stored row to read, an argument of a KV format's `decode`.
    Packed(Plane),
    /// The bytes of a stored row to write, an argument of a KV format's `encode`.
    PackedMut(Plane),
    /// The row that a KV format's `encode` stores.
    EncodeRow,
    /// A struct or enum with `#[device_type]`, by its name in the text.
    Device(String),
    /// A struct of the `#[device_mod]` around, and its type arguments.
    Struct(String, Vec<Ty>),
    /// A type that a function of a `#[device_mod]` is generic over.
    Param(String),
    /// A type variable.
    Var(usize),
}

/// The two parts of a stored row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Plane {
    Codes,
    Side,
}

impl Ty {
    /// The type `(f32, f32)`.
    pub fn pair() -> Ty {
        Ty::Tuple(vec![Ty::F32, Ty::F32])
    }

    /// The number type with this name in Rust.
    pub fn number(name: &str) -> Option<Ty> {
        Some(match name {
            "f32" => Ty::F32,
            "i32" => Ty::I32,
            "u32" => Ty::U32,
            "u8" => Ty::U8,
            "u64" => Ty::U64,
            "i64" => Ty::I64,
            _ => return None,
        })
    }

    /// The type with each type parameter replaced by what `of` gives for it.
    pub fn substituted(&self, of: &impl Fn(&str) -> Option<Ty>) -> Ty {
        match self {
            Ty::Param(name) => of(name).unwrap_or_else(|| self.clone()),
            ty => ty.with_parts(|part| part.substituted(of)),
        }
    }

    /// The types directly inside.
    fn parts(&self) -> &[Ty] {
        match self {
            Ty::Tuple(items) | Ty::Struct(_, items) => items,
            Ty::Array(elem, _) => std::slice::from_ref(elem),
            _ => &[],
        }
    }

    /// The type with each type directly inside replaced by what `of` gives for it.
    fn with_parts(&self, of: impl FnMut(&Ty) -> Ty) -> Ty {
        let mut parts = self.parts().iter().map(of);
        match self {
            Ty::Tuple(_) => Ty::Tuple(parts.collect()),
            Ty::Struct(name, _) => Ty::Struct(name.clone(), parts.collect()),
            Ty::Array(elem, len) => Ty::Array(Box::new(parts.next().unwrap_or_else(|| (**elem).clone())), *len),
            ty => ty.clone(),
        }
    }

    /// Whether it is a stored row, or the row that is stored.
    pub fn is_stored_row(&self) -> bool {
        matches!(self, Ty::Packed(_) | Ty::PackedMut(_) | Ty::EncodeRow)
    }

    /// How Rust writes it: a number, a bool or an index.
    pub fn name(&self) -> String {
        let name = format!("{self:?}");
        if self.is_scalar() { name.to_lowercase() } else { name }
    }

    /// Whether it is a number or a bool.
    pub fn is_scalar(&self) -> bool {
        self.is_int() || matches!(self, Ty::F32 | Ty::Bool)
    }

    /// Whether it is i32, u32, u8, u64, i64, or an array index.
    pub fn is_int(&self) -> bool {
        matches!(self, Ty::I32 | Ty::U32 | Ty::U8 | Ty::U64 | Ty::I64 | Ty::Usize)
    }
}

#[derive(Clone, Debug, Default)]
struct Var {
    parent: Cell<Option<usize>>,
    bound: Option<Ty>,
    /// Whether an integer literal has this type.
    int: bool,
    /// Whether a value that the macro cannot see has this type.
    external: bool,
    /// Whether that value may have a width other than 32 bits. Scalar parameters have 32.
    any_width: bool,
}

/// What names of other items are: a constant, a helper's argument `far(0)` and its result `far()`, a parameter
/// `self.window`, the elements `self.slopes[]` of a tensor.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Names of all items.
    pub of_text: Rc<HashMap<String, Ty>>,
    /// Names of this item, before those.
    pub of_item: HashMap<String, Ty>,
}

impl Known {
    pub(crate) fn get(&self, name: &str) -> Option<&Ty> {
        self.of_item.get(name).or_else(|| self.of_text.get(name))
    }
}

/// The type variables of one item.
#[derive(Debug, Default)]
pub struct Types {
    vars: Vec<Var>,
    named: HashMap<String, Ty>,
    /// What names are known to be, where contradictions are looked for ([`Types::checking`]).
    known: Option<Known>,
    contradiction: Option<(Ty, Ty)>,
}

impl Types {
    /// Types that find contradictions between numbers and bools.
    pub fn checking(known: Known) -> Types {
        Types { known: Some(known), ..Types::default() }
    }

    /// Whether contradictions are looked for.
    pub fn is_checking(&self) -> bool {
        self.known.is_some()
    }

    /// The first contradiction since the last call: the type that was wanted, and the one that was found.
    pub fn take_contradiction(&mut self) -> Option<(Ty, Ty)> {
        self.contradiction.take()
    }

    fn contradict(&mut self, wanted: Ty, found: Ty) {
        if self.is_checking() && wanted != found && wanted.is_scalar() && found.is_scalar() {
            self.contradiction.get_or_insert((wanted, found));
        }
    }

    fn var(&mut self, var: Var) -> Ty {
        self.vars.push(var);
        Ty::Var(self.vars.len() - 1)
    }

    /// The type of something that the macro cannot see.
    pub fn external(&mut self) -> Ty {
        self.var(Var { external: true, any_width: true, ..Var::default() })
    }

    /// A type to be inferred from uses.
    pub fn fresh(&mut self) -> Ty {
        self.var(Var::default())
    }

    /// The type of an integer literal without suffix.
    pub fn int(&mut self) -> Ty {
        self.var(Var { int: true, ..Var::default() })
    }

    /// The type of everything with this name: a parameter, an element, a constant, a helper's result.
    pub fn named(&mut self, key: String) -> Ty {
        if let Some(ty) = self.named.get(&key) {
            return ty.clone();
        }
        // a path may go through modules
        let last = key.rsplit("::").next().unwrap_or(&key);
        if let Some(ty) = self.known.as_ref().and_then(|known| known.get(last)) {
            return ty.clone();
        }
        // elements of a parameter tensor may be u8
        let any_width = !key.starts_with("self.") || key.ends_with("[]");
        let ty = self.var(Var { external: true, any_width, ..Var::default() });
        self.named.insert(key, ty.clone());
        ty
    }

    /// Marks the integer literals of a type: they take their type from something that the macro cannot see.
    pub fn make_external(&mut self, ty: &Ty) {
        match self.resolve(ty) {
            Ty::Var(v) => (self.vars[v].external, self.vars[v].any_width) = (true, true),
            ty => ty.parts().iter().for_each(|part| self.make_external(part)),
        }
    }

    fn root(&self, mut v: usize) -> usize {
        while let Some(parent) = self.vars[v].parent.get() {
            // the path gets shorter each time that it is walked
            if let Some(above) = self.vars[parent].parent.get() {
                self.vars[v].parent.set(Some(above));
            }
            v = parent;
        }
        v
    }

    /// The type as far as it is known.
    pub fn resolve(&self, ty: &Ty) -> Ty {
        // what is used twice in a type is two parts of it
        if !ty.parts().is_empty() && !budget::spend(1) {
            return Ty::Unit;
        }
        match ty {
            Ty::Var(v) => {
                let root = self.root(*v);
                let var = &self.vars[root];
                match &var.bound {
                    Some(bound) => self.resolve(bound),
                    None => Ty::Var(root),
                }
            }
            ty => ty.with_parts(|part| self.resolve(part)),
        }
    }

    /// Whether a type has more than [`budget::TYPE_PARTS`] tuples and numbers. Its length is found in as many steps.
    pub fn is_too_large(&self, ty: &Ty) -> bool {
        self.parts_left(ty, budget::TYPE_PARTS).is_none()
    }

    /// Whether an array has more than [`budget::ELEMENTS`] elements, those of arrays inside of it counted together.
    pub fn has_too_many_elements(&self, array: &Ty) -> bool {
        self.elements(array, budget::TYPE_PARTS).is_none_or(|count| count > budget::ELEMENTS)
    }

    /// The numbers in a value of a type; `None` where there are too many, or too many levels.
    fn elements(&self, ty: &Ty, levels: usize) -> Option<u64> {
        let levels = levels.checked_sub(1)?;
        match ty {
            Ty::Var(v) => {
                self.vars[self.root(*v)].bound.as_ref().map_or(Some(1), |bound| self.elements(bound, levels + 1))
            }
            Ty::Array(elem, len) => self.elements(elem, levels)?.checked_mul(*len),
            Ty::Tuple(items) => items.iter().try_fold(0u64, |sum, item| self.elements(item, levels)?.checked_add(sum)),
            _ => Some(1),
        }
    }

    fn parts_left(&self, ty: &Ty, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match ty {
            Ty::Var(v) => match &self.vars[self.root(*v)].bound {
                Some(bound) => self.parts_left(bound, left + 1),
                None => Some(left),
            },
            ty => ty.parts().iter().try_fold(left, |left, part| self.parts_left(part, left)),
        }
    }

    /// The type once everything is lowered: integer literals alone are i32.
    pub fn settled(&self, ty: &Ty) -> Ty {
        match self.resolve(ty) {
            Ty::Var(v) if self.vars[v].int && !self.vars[v].external => Ty::I32,
            ty => ty.with_parts(|part| self.settled(part)),
        }
    }

    /// Whether it is an integer whose width comes from something that the macro cannot see.
    pub fn is_external_int(&self, ty: &Ty) -> bool {
        matches!(self.resolve(ty), Ty::Var(v) if self.vars[v].int && self.vars[v].external)
    }

    /// Whether such an integer may have other than 32 bits.
    pub fn may_be_wide(&self, ty: &Ty) -> bool {
        matches!(self.resolve(ty), Ty::Var(v) if self.vars[v].any_width)
    }

    /// Makes two types equal, `a` being the one that is wanted. A contradiction is left to rustc, whose message is
    /// better, unless [`Types::checking`].
    pub fn unify(&mut self, a: &Ty, b: &Ty) {
        match (self.resolve(a), self.resolve(b)) {
            (Ty::Var(a), Ty::Var(b)) if a == b => {}
            (Ty::Var(a), Ty::Var(b)) => {
                let [of_a, of_b] = [a, b].map(|v| &self.vars[v]);
                // what equals a parameter has its 32 bits
                let narrow = [of_a, of_b].iter().any(|of| of.external && !of.any_width);
                let int = of_a.int | of_b.int;
                let external = of_a.external | of_b.external;
                let any_width = !narrow && (of_a.any_width | of_b.any_width);
                self.vars[b].parent.set(Some(a));
                self.vars[a] = Var { int, external, any_width, ..Var::default() };
            }
            // an infinite type: left to rustc
            (Ty::Var(v), ty) | (ty, Ty::Var(v)) if holds(&ty, v) => {}
            (Ty::Var(v), ty) | (ty, Ty::Var(v)) => {
                if self.vars[v].int && !ty.is_int() {
                    self.contradict(ty.clone(), Ty::I32);
                }
                self.vars[v].bound = Some(ty);
            }
            (a, b) if std::mem::discriminant(&a) == std::mem::discriminant(&b) => {
                a.parts().iter().zip(b.parts()).for_each(|(a, b)| self.unify(a, b));
            }
            (a, b) => self.contradict(a, b),
        }
    }
}

/// Whether a resolved type contains the variable.
fn holds(ty: &Ty, var: usize) -> bool {
    *ty == Ty::Var(var) || ty.parts().iter().any(|part| holds(part, var))
}
