//! A mask over a whole tile: the normal form that the macro prints as Rust, with what its names stand for, evaluated.

use std::cell::Cell;

use attn_codegen::abstract_interp::interval_fn::IntervalFn;
use attn_codegen::abstract_interp::normal_form::{self, Id, IntTy, Node as N, NormalForm};
use attn_core::lang::desc::ConstDesc;
use attn_core::lang::device_type::TypeLink;
use attn_core::lang::interval::{self, Parts, Val, of, one, single, tristate};
use attn_core::lang::{ConstValue, FieldDesc, Tile, Tristate};

use crate::{budget, field::Value, kept::kept_str};

/// A function over abstract values.
#[derive(Debug)]
pub(crate) struct TileForm {
    /// Each comes after its operands.
    nodes: Vec<Node>,
    result: Id,
    /// Which arguments of a helper have parts.
    compound: Vec<bool>,
    /// The nodes to compute, in order: outside of loops, then in a step of each loop, by its number.
    steps: Vec<Vec<Id>>,
}

#[derive(Debug)]
enum Node {
    Known(Val),
    /// A coordinate of the tile, or of the index that is an argument.
    Coordinate(String),
    CoordinateOf(usize, String),
    Tile,
    Arg(usize),
    /// A scalar parameter.
    Scalar(usize),
    /// An element of a parameter tensor.
    Element(usize, Vec<Id>),
    Apply(Function, Vec<Id>),
    /// A helper, and whether its result is used as a scalar.
    Helper(&'static TileForm, Vec<Id>, bool),
    /// A tuple, a struct or an array.
    Many(Vec<(&'static str, Id)>),
    Part(Id, String),
    Loop(Loop),
    /// The variable of a loop, and a value that it changes.
    LoopVar(usize),
    LoopState(usize, usize),
    LoopOut(Id, usize),
}

#[derive(Debug)]
struct Loop {
    number: usize,
    inclusive: bool,
    bounds: [Id; 2],
    /// The functions that give the values their types.
    types: Vec<Function>,
    before: Vec<Id>,
    after: Vec<Id>,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Unary(fn(Val) -> Val),
    Binary(fn(Val, Val) -> Val),
    Ternary(fn(Val, Val, Val) -> Val),
    Quaternary(fn(Val, Val, Val, Val) -> Val),
}

impl TileForm {
    /// The form of a mask, or of a helper.
    pub(crate) fn of(form: &NormalForm, names: &Names<'_>) -> TileForm {
        let (inside, uses) = (form.inside(), form.uses());
        let loops = form.nodes.iter().map(|node| match node {
            N::Loop(normal_form::Loop { number, .. }) | N::LoopVar(number) | N::LoopState(number, _) => number + 1,
            _ => 0,
        });
        let mut steps = vec![Vec::new(); 1 + loops.max().unwrap_or(0)];
        for id in (0..form.nodes.len()).filter(|&id| uses[id] > 0) {
            steps[inside[id].map_or(0, |number| number + 1)].push(id);
        }
        TileForm {
            nodes: form.nodes.iter().map(|node| names.node(node)).collect(),
            result: form.result,
            compound: form.compound.clone(),
            steps,
        }
    }

    /// The mask of a tile.
    pub(crate) fn mask(&self, tile: &Tile, fields: &[Box<dyn Value>]) -> Tristate {
        let left = Cell::new(budget::OF_TILE);
        let tile = interval::tile(tile);
        let result = Evaluation::of(self, &Inputs { tile: &tile, args: &[], fields, left: &left });
        tristate(one(&result))
    }
}

/// What names in a form stand for.
pub(crate) struct Names<'a> {
    /// The parameters of the variant.
    pub(crate) fields: &'a [FieldDesc],
    pub(crate) consts: &'a [ConstDesc],
    pub(crate) types: &'a [TypeLink],
    /// Helpers by their names in the text.
    pub(crate) helpers: &'a [(&'static str, &'static TileForm)],
}

impl Names<'_> {
    fn node(&self, node: &N) -> Node {
        match node {
            N::Coordinate(word) => Node::Coordinate(word.clone()),
            N::CoordinateOf(i, word) => Node::CoordinateOf(*i, word.clone()),
            N::Tile => Node::Tile,
            N::Arg(i) => Node::Arg(*i),
            N::Param(name) => self.field(name).map_or(Node::Known(Val::Any), Node::Scalar),
            N::Element(name, ids) => {
                self.field(name).map_or(Node::Known(Val::Any), |field| Node::Element(field, ids.clone()))
            }
            N::Const(name) => Node::Known(match self.constant(name) {
                Some(ConstValue::I32(x) | ConstValue::Enum(_, x)) => of(x),
                Some(ConstValue::U32(x)) => of(x),
                Some(ConstValue::Bool(x)) => of(x),
                _ => Val::Any,
            }),
            N::WideConst(name) => Node::Known(match self.constant(name) {
                Some(ConstValue::U64(x)) => interval::wide(x),
                Some(ConstValue::I64(x)) => interval::wide(x),
                _ => Val::Any,
            }),
            N::Variant { ty, name, .. } => Node::Known(self.enum_variant(ty, name)),
            N::Int(n, ty) => Node::Known(match ty {
                None | Some(IntTy::I32) => of(*n as i32),
                Some(IntTy::U32) => of(*n as u32),
                Some(IntTy::U8) => of(*n as u8),
                Some(IntTy::U64) => interval::wide(*n),
                Some(IntTy::I64) => interval::wide(*n as i64),
            }),
            N::LeastI32 => Node::Known(of(i32::MIN)),
            N::Bool(b) => Node::Known(of(*b)),
            N::Any => Node::Known(Val::Any),
            N::Helper(name, ids) => self.helper(name, ids, true),
            N::Call(name, ids) => self.helper(name, ids, false),
            N::Many(names, ids) => {
                Node::Many(names.iter().zip(ids).map(|(name, &id)| (kept_str(name.clone()), id)).collect())
            }
            N::Part(id, name) => Node::Part(*id, name.clone()),
            N::LoopVar(number) => Node::LoopVar(*number),
            N::LoopState(number, k) => Node::LoopState(*number, *k),
            N::LoopOut(id, k) => Node::LoopOut(*id, *k),
            N::Loop(it) => Node::Loop(Loop {
                number: it.number,
                inclusive: it.inclusive,
                bounds: [it.ids[0], it.ids[1]],
                types: it.types.iter().map(|ty| function(*ty)).collect(),
                before: it.before().to_vec(),
                after: it.after().to_vec(),
            }),
            N::Op(name, ids) => Node::Apply(function(*name), ids.clone()),
        }
    }

    fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name.trim_start_matches("r#"))
    }

    fn constant(&self, name: &str) -> Option<ConstValue> {
        self.consts.iter().find(|link| link.name == name).map(|link| link.value.get())
    }

    fn enum_variant(&self, ty: &str, name: &str) -> Val {
        let link = self.types.iter().find(|link| link.name == ty);
        let value = link.and_then(|link| link.ty.variants.iter().find(|(there, _)| *there == name));
        value.map_or(Val::Any, |(_, value)| of(*value))
    }

    fn helper(&self, name: &str, ids: &[Id], is_scalar: bool) -> Node {
        let found = self.helpers.iter().find(|(there, _)| *there == name);
        found.map_or(Node::Known(Val::Any), |(_, form)| Node::Helper(form, ids.to_vec(), is_scalar))
    }
}

#[derive(Clone, Copy)]
struct Inputs<'a> {
    tile: &'a Parts,
    args: &'a [Parts],
    fields: &'a [Box<dyn Value>],
    /// The operations that are left: what is called twice, or in a loop, is evaluated as often.
    left: &'a Cell<u32>,
}

/// A form being evaluated.
struct Evaluation<'a> {
    form: &'a TileForm,
    inputs: &'a Inputs<'a>,
    /// The values of nodes so far.
    values: Vec<Parts>,
    /// The variable of each loop around, and the values that it changes.
    loops: Vec<(Val, Vec<Val>)>,
}

impl Evaluation<'_> {
    fn of(form: &TileForm, inputs: &Inputs<'_>) -> Parts {
        let values = vec![Parts::One(Val::Any); form.nodes.len()];
        let mut evaluation = Evaluation { form, inputs, values, loops: vec![(Val::Any, Vec::new()); form.steps.len()] };
        evaluation.step(0);
        evaluation.values.swap_remove(form.result)
    }

    /// Counts an operation. `false` where too many were made: every value is unknown then.
    fn goes_on(&self) -> bool {
        let left = self.inputs.left.get().checked_sub(1);
        self.inputs.left.set(left.unwrap_or(0));
        left.is_some()
    }

    fn step(&mut self, step: usize) {
        let form = self.form;
        for &id in &form.steps[step] {
            self.values[id] = if self.goes_on() { self.node(&form.nodes[id]) } else { Parts::One(Val::Any) };
        }
    }

    fn scalar(&self, id: Id) -> Val {
        one(&self.values[id])
    }

    fn scalars(&self, ids: &[Id]) -> Vec<Val> {
        ids.iter().map(|&id| self.scalar(id)).collect()
    }

    fn node(&mut self, node: &Node) -> Parts {
        let Inputs { tile, args, fields, .. } = *self.inputs;
        let arg = |i: usize| args.get(i).cloned().unwrap_or(Parts::One(Val::Any));
        single(match node {
            Node::Known(value) => *value,
            Node::Coordinate(word) => one(&interval::part(tile, word)),
            Node::CoordinateOf(i, word) => one(&interval::part(&arg(*i), word)),
            Node::Tile => return tile.clone(),
            Node::Arg(i) if self.form.compound[*i] => return arg(*i),
            Node::Arg(i) => one(&arg(*i)),
            Node::Scalar(i) => fields[*i].over_tile(),
            Node::Element(i, ids) => fields[*i].element_over_tile(&self.scalars(ids)),
            Node::Apply(function, ids) => self.apply(*function, ids),
            Node::Helper(form, ids, is_scalar) => {
                let args: Vec<Parts> = ids.iter().map(|&id| self.values[id].clone()).collect();
                let result = Evaluation::of(form, &Inputs { tile: &Parts::One(Val::Any), args: &args, ..*self.inputs });
                if !is_scalar {
                    return result;
                }
                one(&result)
            }
            Node::Many(parts) => {
                return Parts::Many(parts.iter().map(|(name, id)| (*name, self.values[*id].clone())).collect());
            }
            Node::Part(id, name) => return interval::part(&self.values[*id], name),
            Node::Loop(it) => return self.repeated(it),
            Node::LoopVar(number) => self.loops[number + 1].0,
            Node::LoopState(number, k) => self.loops[number + 1].1.get(*k).copied().unwrap_or(Val::Any),
            Node::LoopOut(id, k) => match &self.values[*id] {
                Parts::Many(states) => one(&states[*k].1),
                Parts::One(_) | Parts::At(_) => Val::Any,
            },
        })
    }

    fn apply(&self, function: Function, ids: &[Id]) -> Val {
        match (function, ids) {
            (Function::Unary(f), &[a]) => f(self.scalar(a)),
            (Function::Binary(f), &[a, b]) => f(self.scalar(a), self.scalar(b)),
            (Function::Ternary(f), &[a, b, c]) => f(self.scalar(a), self.scalar(b), self.scalar(c)),
            (Function::Quaternary(f), &[a, b, c, d]) => {
                f(self.scalar(a), self.scalar(b), self.scalar(c), self.scalar(d))
            }
            _ => Val::Any, // the macro infers the types of operands, so none is missing
        }
    }

    /// The values after a loop.
    fn repeated(&mut self, it: &Loop) -> Parts {
        let typed = |of: &Self, ids: &[Id]| -> Vec<Val> {
            it.types.iter().zip(ids).map(|(ty, &id)| of.apply(*ty, &[id])).collect()
        };
        let [from, to] = it.bounds.map(|id| self.scalar(id));
        let mut state = typed(self, &it.before);
        interval::run(from, to, it.inclusive, &mut state, &mut |i, state| {
            if self.inputs.left.get() == 0 {
                return vec![Val::Any; state.len()];
            }
            self.loops[it.number + 1] = (i, state.to_vec());
            self.step(it.number + 1);
            typed(self, &it.after)
        });
        Parts::Many(state.into_iter().map(|value| ("", single(value))).collect())
    }
}

/// The function of a name. What the macro prints by its name is found here: a new one does not compile without.
fn function(name: IntervalFn) -> Function {
    use Function::{Binary, Quaternary, Ternary, Unary};
    use IntervalFn as F;
    use interval as i;
    match name {
        F::Abs => Unary(i::abs),
        F::BitNot => Unary(i::bit_not),
        F::CastI32 => Unary(i::cast_i32),
        F::CastI64 => Unary(i::cast_i64),
        F::CastU8 => Unary(i::cast_u8),
        F::CastU32 => Unary(i::cast_u32),
        F::CastU64 => Unary(i::cast_u64),
        F::ClearLowest => Unary(i::clear_lowest),
        F::CountOnes => Unary(i::count_ones),
        F::IsPowerOfTwo => Unary(i::is_power_of_two),
        F::LeadingZeros => Unary(i::leading_zeros),
        F::Neg => Unary(i::neg),
        F::Signum => Unary(i::signum),
        F::TrailingZeros => Unary(i::trailing_zeros),
        F::Truth => Unary(i::truth),
        F::UnsignedAbs => Unary(i::unsigned_abs),
        F::AbsDiff => Binary(i::abs_diff),
        F::Add => Binary(i::add),
        F::BitAnd => Binary(i::bit_and),
        F::BitOr => Binary(i::bit_or),
        F::BitXor => Binary(i::bit_xor),
        F::Both => Binary(i::both),
        F::Div => Binary(i::div),
        F::DivEuclid => Binary(i::div_euclid),
        F::Either => Binary(i::either),
        F::Eq => Binary(i::eq),
        F::Ge => Binary(i::ge),
        F::Gt => Binary(i::gt),
        F::Le => Binary(i::le),
        F::Lt => Binary(i::lt),
        F::Max => Binary(i::max),
        F::Min => Binary(i::min),
        F::Mul => Binary(i::mul),
        F::Ne => Binary(i::ne),
        F::Pow => Binary(i::pow),
        F::Rem => Binary(i::rem),
        F::RemEuclid => Binary(i::rem_euclid),
        F::SaturatingAdd => Binary(i::saturating_add),
        F::SaturatingSub => Binary(i::saturating_sub),
        F::Shl => Binary(i::shl),
        F::Shr => Binary(i::shr),
        F::Sub => Binary(i::sub),
        F::Clamp => Ternary(i::clamp),
        F::Select => Ternary(i::select),
        F::EqCell => Quaternary(i::eq_cell),
        F::EqCells => Quaternary(i::eq_cells),
    }
}
