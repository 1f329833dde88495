//! Emits the functions of a KV format as data, which binding follows over abstract values: what they touch of a row.
//!
//! What has no effect and is a float is left out. Names of `attn_core::lang::kv_format::extents` follow `__extents`,
//! and those of `attn_core::lang::interval` follow `__interval`.

mod terms;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;

use crate::abstract_interp::interval_fn::IntervalFn as F;
use crate::abstract_interp::{MOST_ELEMENTS, position};
use crate::helper_module::with_helper;
use crate::ir::{Arm, Block, Expr, Function, Kind, Op, Part, Stmt, Test};
use crate::methods::METHODS;
use crate::parse::Links;
use crate::types::{Plane, Ty, Types};
use crate::{descriptor, literals, names};
use terms::{binary, bits_of, cast, choice, interval, literal, operator, option, plain, unary, unknown};

/// `Extents { .. }`; `fix` adapts each path to the scope of the emitted tokens.
pub(super) fn of(
    functions: &[Function],
    types: &Types,
    links: &Links,
    fix: &dyn Fn(&syn::Path) -> syn::Path,
) -> TokenStream {
    let found = |name: &str| {
        let function = functions.iter().find(|f| f.name == name)?;
        Some(Writer { function, types, links, fix }.function())
    };
    let written = |name: &str| found(name).map_or_else(|| quote!(None), |function| quote!(Some(#function)));
    // rustc reports a function that is missing
    let needed = |name: &str| {
        let nothing = quote!(__extents::Function { locals: 0, kv_head: None, at: None, body: &[] });
        found(name).unwrap_or(nothing)
    };
    let (encode, decode, scale, zero) = (needed("encode"), needed("decode"), written("scale"), written("zero"));
    quote!(__extents::Extents { encode: #encode, decode: #decode, scale: #scale, zero: #zero })
}

struct Writer<'a> {
    function: &'a Function,
    types: &'a Types,
    links: &'a Links,
    fix: &'a dyn Fn(&syn::Path) -> syn::Path,
}

impl Writer<'_> {
    fn function(&self) -> TokenStream {
        let f = self.function;
        let numbers: Vec<_> = f.args.iter().filter(|arg| arg.ty == Ty::I32).map(|arg| option(arg.local)).collect();
        let kv_head = numbers.first().cloned().unwrap_or_else(|| option(None));
        let at = numbers.get(1).cloned().unwrap_or_else(|| option(None));
        let (locals, body) = (f.locals.len(), self.steps(&f.body));
        let result = f.body.tail.as_deref().filter(|tail| matters(tail)).map(|tail| self.eval(tail));
        quote!(__extents::Function { locals: #locals, kv_head: #kv_head, at: #at, body: &[#(#body,)* #result] })
    }

    fn steps(&self, block: &Block) -> Vec<TokenStream> {
        block.stmts.iter().flat_map(|stmt| self.step(stmt)).collect()
    }

    fn block(&self, block: &Block) -> TokenStream {
        let steps = self.steps(block);
        let value = block.tail.as_deref().map_or_else(|| unknown(&[]), |tail| self.term(tail));
        if steps.is_empty() { value } else { quote!(__extents::Term::Block { steps: &[#(#steps),*], value: &#value }) }
    }

    fn eval(&self, e: &Expr) -> TokenStream {
        let value = self.term(e);
        quote!(__extents::Statement::Eval { value: #value })
    }

    fn step(&self, stmt: &Stmt) -> Vec<TokenStream> {
        let set = |local: usize, value: TokenStream| quote!(__extents::Statement::Let { local: #local, value: #value });
        match stmt {
            Stmt::Let { init: value, .. } | Stmt::Assign { value, .. } | Stmt::Expr(value)
                if self.is_float(&value.ty) && !matters(value) =>
            {
                Vec::new()
            }
            Stmt::Let { local, init } => vec![set(*local, self.term(init))],
            Stmt::LetTuple { parts, whole, init } => {
                let mut all = vec![set(*whole, self.term(init))];
                for (i, local) in parts.iter().enumerate().filter_map(|(i, part)| part.map(|local| (i, local))) {
                    let name = position(i);
                    let of = quote!(&__extents::Term::Local { local: #whole });
                    all.push(set(local, quote!(__extents::Term::Part { name: #name, of: #of })));
                }
                all
            }
            Stmt::Expr(Expr { kind: Kind::SetElement { local, index, op, value }, .. }) => {
                self.set_element(*local, index, *op, value).into_iter().collect()
            }
            Stmt::Expr(e) => vec![self.eval(e)],
            Stmt::Assign { local, op, value, .. } => {
                let mut value = self.term(value);
                if let Some(op) = op {
                    value = binary(&operator(*op), &quote!(__extents::Term::Local { local: #local }), &value);
                }
                vec![set(*local, value)]
            }
            Stmt::For { var, from, to, inclusive, body, .. } => {
                let (from, to) = (self.term(from), self.term(to));
                let mut steps = self.steps(body);
                steps.extend(body.tail.as_deref().map(|tail| self.eval(tail)));
                vec![quote!(__extents::Statement::For {
                    local: #var, from: #from, to: #to, inclusive: #inclusive, body: &[#(#steps),*]
                })]
            }
            Stmt::Return(value) => {
                let value = value.as_ref().filter(|value| matters(value)).map(|value| self.eval(value));
                value.into_iter().chain([quote!(__extents::Statement::Return)]).collect()
            }
            Stmt::Break => vec![quote!(__extents::Statement::Break)],
            Stmt::Continue => vec![quote!(__extents::Statement::Continue)],
        }
    }

    /// `array[index] = value`; of an array of floats, what of it has effects.
    fn set_element(&self, local: usize, index: &Expr, op: Option<Op>, value: &Expr) -> Option<TokenStream> {
        if self.is_float(&self.function.locals[local].ty) {
            let effects = self.effects([index, value]);
            let value = unknown(&effects);
            return (!effects.is_empty()).then(|| quote!(__extents::Statement::Eval { value: #value }));
        }
        let (index, mut value) = (self.term(index), self.term(value));
        if let Some(op) = op {
            let array = quote!(&__extents::Term::Local { local: #local });
            let current = quote!(__extents::Term::Index { array: #array, index: &#index });
            value = binary(&operator(op), &current, &value);
        }
        Some(quote!(__extents::Statement::SetElement { local: #local, index: #index, value: #value }))
    }

    /// Whether values of a type are floats alone, which nothing that is followed depends on.
    fn is_float(&self, ty: &Ty) -> bool {
        match self.types.settled(ty) {
            Ty::F32 => true,
            Ty::Array(item, _) => self.is_float(&item),
            _ => false,
        }
    }

    /// Those of some expressions that have effects.
    fn effects<'e>(&self, of: impl IntoIterator<Item = &'e Expr>) -> Vec<TokenStream> {
        of.into_iter().filter(|e| matters(e)).map(|e| self.term(e)).collect()
    }

    fn term(&self, e: &Expr) -> TokenStream {
        if self.is_float(&e.ty) && !matters(e) {
            return unknown(&[]);
        }
        match &e.kind {
            Kind::Int(n) => self.int(*n, &e.ty),
            Kind::Bool(b) => literal(&quote!(Bool(#b))),
            Kind::Builtin("I32_MIN") => literal(&quote!(I32(i32::MIN))),
            Kind::Local(local) => quote!(__extents::Term::Local { local: #local }),
            Kind::Param(name) => {
                let name = plain(name);
                quote!(__extents::Term::Param { name: #name })
            }
            Kind::Element(name, indices) => {
                let (name, indices) = (plain(name), self.effects(indices));
                quote!(__extents::Term::Element { name: #name, indices: &[#(#indices),*] })
            }
            Kind::Const(name) => match self.links.consts.iter().find(|link| link.name == *name) {
                Some(link) => {
                    let path = (self.fix)(&link.path);
                    let value =
                        quote_spanned!(link.path.span()=> ::attn::__private::lang::desc::HookConst::value(#path));
                    quote!(__extents::Term::Constant { value: || #value })
                }
                None => self.typed(&e.ty, unknown(&[])),
            },
            Kind::Variant { ty, rust, .. } => match self.links.types.iter().find(|link| link.name == *ty) {
                Some(link) => {
                    let (path, variant) = ((self.fix)(&link.path), names::rust(rust, Span::call_site()));
                    let value = quote_spanned!(link.path.span()=> #path::#variant as i32);
                    quote! {
                        __extents::Term::Constant { value: || ::attn::__private::lang::desc::ConstValue::I32(#value) }
                    }
                }
                None => unknown(&[]),
            },
            Kind::Neg(inner) => match inner.kind {
                Kind::Int(n) if n == 1 << 31 && self.types.settled(&e.ty) == Ty::I32 => literal(&quote!(I32(i32::MIN))),
                _ => unary("neg", &self.term(inner)),
            },
            Kind::Not(inner) => unary("bit_not", &self.term(inner)),
            Kind::Binary(Op::AndAlso, a, b) => self.choice(a, &self.term(b), &literal(&quote!(Bool(false)))),
            Kind::Binary(Op::OrElse, a, b) => self.choice(a, &literal(&quote!(Bool(true))), &self.term(b)),
            Kind::Binary(op, a, b) => binary(&operator(*op), &self.term(a), &self.term(b)),
            // an index of an array is small and not negative
            Kind::Cast(inner, Ty::Usize) => self.term(inner),
            Kind::Cast(inner, to) => match cast(to) {
                Some(cast) => unary(cast, &self.term(inner)),
                None => unknown(&self.effects([&**inner])),
            },
            Kind::Call(name, args) => self.method(name, args, &e.ty),
            Kind::Helper(name, args) => self.helper(name, args.iter(), &e.ty),
            Kind::HelperOf(name, consts, args) => self.helper(name, consts.iter().chain(args), &e.ty),
            Kind::Packed(local, method, args) => self.touch(*local, method, args, e.span.start()),
            Kind::Tuple(items) | Kind::Array(items) if items.len() as u64 <= MOST_ELEMENTS => {
                let items = items.iter().map(|item| self.term(item));
                let names = (0..items.len()).map(position);
                quote!(__extents::Term::Many { names: &[#(#names),*], of: &[#(#items),*] })
            }
            Kind::Repeat(item, n) if *n <= MOST_ELEMENTS => {
                let (names, item) = ((0..*n as usize).map(position), self.term(item));
                quote!(__extents::Term::Repeat { names: &[#(#names),*], of: &#item })
            }
            Kind::Index(array, index) => {
                let (array, index) = (self.term(array), self.term(index));
                self.typed(&e.ty, quote!(__extents::Term::Index { array: &#array, index: &#index }))
            }
            Kind::TupleField(inner, i) => self.part(inner, &position(*i), &e.ty),
            Kind::Field(inner, name) => self.part(inner, name, &e.ty),
            Kind::Struct { base, fields, .. } => {
                let (mut names, mut of) = (Vec::new(), Vec::new());
                for (name, value) in fields {
                    // the width of the field is unknown here, so its arithmetic may wrap anywhere
                    let hidden = literals::is_made_of_literals(value) && self.types.is_external_int(&value.ty);
                    names.push(name.as_str());
                    of.push(if hidden { unknown(&[]) } else { self.term(value) });
                }
                if let Some(base) = base {
                    names.push("..");
                    of.push(self.term(base));
                }
                quote!(__extents::Term::Many { names: &[#(#names),*], of: &[#(#of),*] })
            }
            Kind::If { cond, then, other } => {
                let other = other.as_ref().map_or_else(|| unknown(&[]), |other| self.block(other));
                self.choice(cond, &self.block(then), &other)
            }
            Kind::Match { subject, bound, arms } => {
                let (subject, value) = (self.term(subject), self.arms(arms, *bound));
                let bind = quote!(__extents::Statement::Let { local: #bound, value: #subject });
                quote!(__extents::Term::Block { steps: &[#bind], value: &#value })
            }
            Kind::Block(block) => self.block(block),
            Kind::Diverge(stmt) => {
                let (steps, value) = (self.step(stmt), unknown(&[]));
                quote!(__extents::Term::Block { steps: &[#(#steps),*], value: &#value })
            }
            // no call within a closure touches a row
            Kind::Closure { .. } => unknown(&[]),
            Kind::SetElement { local, index, op, value } => {
                let steps = self.set_element(*local, index, *op, value).into_iter();
                let value = unknown(&[]);
                quote!(__extents::Term::Block { steps: &[#(#steps),*], value: &#value })
            }
            _ => {
                let (exprs, _) = e.children();
                self.typed(&e.ty, unknown(&self.effects(exprs)))
            }
        }
    }

    fn choice(&self, condition: &Expr, then: &TokenStream, other: &TokenStream) -> TokenStream {
        choice(&self.term(condition), then, other)
    }

    fn arms(&self, arms: &[Arm], bound: usize) -> TokenStream {
        match arms {
            [] => unknown(&[]),
            // one of the arms matches
            [last] => self.block(&last.body),
            [arm, rest @ ..] => {
                let mut condition = self.test(&arm.test, bound);
                if let Some(guard) = &arm.guard {
                    condition = choice(&condition, &self.term(guard), &literal(&quote!(Bool(false))));
                }
                choice(&condition, &self.block(&arm.body), &self.arms(rest, bound))
            }
        }
    }

    /// The condition under which a pattern matches.
    fn test(&self, test: &Test, bound: usize) -> TokenStream {
        let subject = quote!(__extents::Term::Local { local: #bound });
        let compared = |function: &str, with: &Expr| binary(&interval(function), &subject, &self.term(with));
        let both = |a: Option<TokenStream>, b: TokenStream| match a {
            Some(a) => binary(&interval("both"), &a, &b),
            None => b,
        };
        match test {
            Test::Always => literal(&quote!(Bool(true))),
            Test::Equal(e) => compared("eq", e),
            Test::Range { from, to, inclusive } => {
                let from = from.as_ref().map(|from| compared("ge", from));
                let to = to.as_ref().map(|to| compared(if *inclusive { "le" } else { "lt" }, to));
                match to {
                    Some(to) => both(from, to),
                    None => from.unwrap_or_else(|| literal(&quote!(Bool(true)))),
                }
            }
            Test::Any(tests) => {
                let tests = tests.iter().map(|test| self.test(test, bound));
                let joined = tests.reduce(|a, b| binary(&interval("either"), &a, &b));
                joined.unwrap_or_else(|| literal(&quote!(Bool(false))))
            }
        }
    }

    fn int(&self, n: u64, ty: &Ty) -> TokenStream {
        let small = (n <= i32::MAX as u64).then(|| {
            let n = n as i32;
            quote!(I32(#n))
        });
        match (self.types.settled(ty), small) {
            (Ty::U32, _) => {
                let n = n as u32;
                literal(&quote!(U32(#n)))
            }
            (Ty::U8, Some(n)) => unary("cast_u8", &literal(&n)),
            (Ty::U64, _) => literal(&quote!(U64(#n))),
            (Ty::I64, _) => {
                let n = n as i64;
                literal(&quote!(I64(#n)))
            }
            (_, Some(n)) => literal(&n),
            (Ty::Var(_), None) => {
                let n = n as u32;
                literal(&quote!(U32(#n)))
            }
            (ty, None) => self.typed(&ty, unknown(&[])),
        }
    }

    fn method(&self, name: &str, args: &[Expr], ty: &Ty) -> TokenStream {
        let function = METHODS.iter().find(|method| method.name == name).and_then(|method| method.over);
        let terms = || args.iter().map(|arg| self.term(arg)).collect::<Vec<_>>();
        match (function, args.len()) {
            _ if self.is_float(ty) => unknown(&self.effects(args)),
            (Some(F::Clamp), 3) => {
                let [x, low, high] = &terms()[..] else { return unknown(&[]) };
                binary(&interval("min"), &binary(&interval("max"), x, low), high)
            }
            (Some(function), 1) => self.typed(ty, unary(function.name(), &terms()[0])),
            (Some(function), 2) => {
                let terms = terms();
                self.typed(ty, binary(&interval(function.name()), &terms[0], &terms[1]))
            }
            _ => self.typed(ty, unknown(&self.effects(args))),
        }
    }

    fn helper<'e>(&self, name: &str, args: impl Iterator<Item = &'e Expr>, ty: &Ty) -> TokenStream {
        let args: Vec<_> = args.collect();
        let path = self.links.helpers.iter().find(|(known, _)| known == name).map(|(_, path)| (self.fix)(path));
        let Some(path) = path.filter(|_| !self.is_float(ty)) else {
            return self.typed(ty, unknown(&self.effects(args)));
        };
        let of = args.iter().map(|arg| self.term(arg));
        let numbers = 0..args.len();
        let call = with_helper(&path, &quote!(__helper::parts([#(of[#numbers].clone()),*])));
        self.typed(ty, quote!(__extents::Term::Helper { function: |of| #call, of: &[#(#of),*] }))
    }

    fn part(&self, of: &Expr, name: &str, ty: &Ty) -> TokenStream {
        let of = self.term(of);
        self.typed(ty, quote!(__extents::Term::Part { name: #name, of: &#of }))
    }

    /// A call of a method of the row or of its bytes.
    fn touch(&self, local: usize, method: &str, args: &[Expr], at: Span) -> TokenStream {
        let of_codes = match &self.function.locals[local].ty {
            Ty::Packed(plane) | Ty::PackedMut(plane) => *plane == Plane::Codes,
            _ => false,
        };
        let bytes = |count: u8, written: bool| {
            let fields = quote!(count: #count, of_codes: #of_codes, written: #written);
            quote!(__extents::Touched::Bytes { #fields })
        };
        let packed = |bits: u8| quote!(__extents::Touched::Codes { bits: #bits, of_codes: #of_codes });
        let (target, is_word) = match method {
            "dim" => return quote!(__extents::Term::Dim),
            "u8_at" | "u16_at" | "u32_at" | "words2" => {
                (bytes(if method == "words2" { 8 } else { bits_of(method) / 8 }, false), true)
            }
            "scaled_e4m3" => (bytes(8, false), false),
            "e4m3_at" | "e8m0_at" => (bytes(1, false), false),
            "f16_at" | "bf16_at" => (bytes(2, false), false),
            "f32_at" => (bytes(4, false), false),
            "set_e4m3" => (bytes(1, true), false),
            "set_f16" | "set_bf16" => (bytes(2, true), false),
            "set_u8" | "set_u16" | "set_u32" | "set_f32" => (bytes(bits_of(method) / 8, true), false),
            "pack4" | "pack8" | "pack16" => (packed(bits_of(method)), false),
            _ => (quote!(__extents::Touched::Elements), false),
        };
        // the row and closures are no numbers
        let of = args.iter().filter(|arg| arg.ty != Ty::EncodeRow && !matches!(arg.kind, Kind::Closure { .. }));
        let of = of.map(|arg| self.term(arg));
        let call = format!("{}.{}", self.function.locals[local].name, method.trim_end_matches("_at"));
        let line = u32::try_from(at.start().line).unwrap_or(0);
        let file = descriptor::file_of(at);
        let access = quote!(__extents::Access { call: #call, file: #file, line: #line, target: #target });
        let touch = quote!(__extents::Term::Touch { access: #access, of: &[#(#of),*] });
        if is_word { touch } else { unknown(&[touch]) }
    }

    /// A value of which at least the type is known.
    fn typed(&self, ty: &Ty, value: TokenStream) -> TokenStream {
        match self.types.settled(ty) {
            Ty::Bool => unary("truth", &value),
            ty => match cast(&ty) {
                Some(cast) => unary(cast, &value),
                None => value,
            },
        }
    }
}

/// Whether an expression touches a row, leaves a block, or changes a variable.
fn matters(e: &Expr) -> bool {
    Part::Expr(e).any(&mut |part| match part {
        Part::Expr(Expr { kind: Kind::Packed(_, method, _), .. }) => (*method != "dim").then_some(true),
        Part::Expr(Expr { kind: Kind::SetElement { .. } | Kind::Diverge(_), .. }) => Some(true),
        Part::Expr(Expr { kind: Kind::Closure { .. }, .. }) => Some(false),
        Part::Stmt(Stmt::Assign { .. } | Stmt::Return(_) | Stmt::Break | Stmt::Continue) => Some(true),
        _ => None,
    })
}
