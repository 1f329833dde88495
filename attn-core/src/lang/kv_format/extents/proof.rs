//! Proves that the functions of a format stay within a row of a dimension.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Function;
use super::access::Row;
use super::machine::{self, Mistake, Params};
use crate::lang::FieldType;
use crate::lang::desc::Elem;
use crate::lang::interval::{self, Val};
use crate::lang::kv_format::{ErasedKvFormat, KvFormatDesc};
use crate::lang::param_tensor::OutBuffer;
use crate::lang::params::{ArgVisitor, TensorArg};

/// Most KV heads that are followed one by one, where a function is not proven for all of them together.
const MOST_HEADS: i32 = 1 << 16;

/// Most expressions that a proof follows: about a second. Those of stock formats follow fewer than a thousand.
const MOST_TERMS: u32 = 1 << 24;

/// What a proof depends on: the format, its scalars, the bytes of a row, its dimension, and KV heads.
type Proven = (usize, Vec<u32>, [i32; 4]);

/// Why the functions of a format do not stay within rows of `dim` elements; `None` if they do.
pub(in super::super) fn mistake(format: &dyn ErasedKvFormat, dim: i32, kv_heads: Option<i64>) -> Option<String> {
    static PROVEN: LazyLock<Mutex<HashSet<Proven>>> = LazyLock::new(Mutex::default);
    let heads = kv_heads.map_or(1, |heads| heads.clamp(1, i32::MAX.into()) as i32);
    let (codes, side) = (format.code_bytes(dim), format.side_bytes(dim));
    let mut scalars = Scalars(Vec::new());
    format.visit_args(&mut scalars);
    let key = (std::ptr::from_ref(format.desc()).addr(), scalars.0, [dim, codes, side, heads]);
    // every plan binds
    if PROVEN.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
        return None;
    }
    let proof = Proof {
        desc: format.desc(),
        params: params(format.desc(), &key.1),
        row: Row { dim: dim.into(), codes: codes.into(), side: side.into() },
        heads,
        terms: Cell::new(MOST_TERMS),
    };
    let mistake = proof.mistake(format);
    if mistake.is_none() {
        let mut proven = PROVEN.lock().unwrap_or_else(PoisonError::into_inner);
        // those of a program are few
        if proven.len() >= 1024 {
            proven.clear();
        }
        proven.insert(key);
    }
    mistake
}

struct Proof {
    desc: &'static KvFormatDesc,
    params: Params,
    row: Row,
    heads: i32,
    /// How many expressions may still be followed.
    terms: Cell<u32>,
}

impl Proof {
    fn mistake(&self, format: &dyn ErasedKvFormat) -> Option<String> {
        let (extents, dim) = (&self.desc.extents, self.row.dim as i32);
        self.function("encode", &extents.encode, 0, "")
            .or_else(|| {
                let eights = (0..dim).step_by(8);
                let of = |d: i32| format!(" for elements {d} .. {}", d + 8);
                eights.into_iter().find_map(|d| self.function("decode", &extents.decode, d, &of(d)))
            })
            .or_else(|| {
                let linear = format.linear().filter(|linear| linear.group >= 0)?;
                let zero = extents.zero.as_ref().filter(|_| linear.has_zero());
                let functions = [("scale", extents.scale.as_ref()), ("zero", zero)];
                let groups = (dim - 1) / linear.group_of(dim) + 1;
                (0..groups).find_map(|group| {
                    let of = format!(" for group {group}");
                    let mut functions = functions.into_iter();
                    functions.find_map(|(name, function)| self.function(name, function?, group, &of))
                })
            })
    }

    /// Why a function of an element or a group is refused, for any KV head.
    fn function(&self, name: &str, function: &Function, at: i32, of: &str) -> Option<String> {
        let follow = |kv_head: Val| {
            let (row, params, terms) = (self.row, &self.params, &self.terms);
            machine::follow(function, row, params, [kv_head, interval::of(at)], terms).err()
        };
        let mistake = follow(interval::coordinate(0, self.heads - 1))?;
        if self.heads == 1 || self.heads > MOST_HEADS || function.kv_head.is_none() {
            return Some(self.message(name, of, &mistake));
        }
        // what depends on the KV head may hold for each of them
        let of_all = self.message(name, of, &mistake);
        (0..self.heads).find_map(|head| {
            let mistake = follow(interval::of(head))?;
            let is_same = self.message(name, of, &mistake) == of_all;
            let of = if is_same { of.to_owned() } else { format!("{of} of KV head {head}") };
            Some(self.message(name, &of, &mistake))
        })
    }

    fn message(&self, name: &str, of: &str, mistake: &Mistake) -> String {
        match mistake {
            Mistake::Touches(access, what) => {
                format!("`{name}`{of} {what} (`{}`, {}:{})", access.call, access.file, access.line)
            }
            Mistake::TooLong => format!(
                "`{name}`{of} takes too many steps to follow ({}:{}); its loops may be nested too deep",
                self.desc.file, self.desc.line
            ),
        }
    }
}

fn params(desc: &KvFormatDesc, scalars: &[u32]) -> Params {
    let mut params = Params::default();
    let mut scalars = scalars.iter().copied();
    for field in desc.fields {
        match field.ty {
            FieldType::Scalar(elem) => {
                let Some(bits) = scalars.next() else { continue };
                let value = match elem {
                    Elem::I32 => interval::of(bits.cast_signed()),
                    Elem::U32 => interval::of(bits),
                    Elem::Bool => interval::of(bits != 0),
                    _ => Val::Any,
                };
                params.scalars.push((field.name, value));
            }
            FieldType::Tensor { elem, .. } => params.tensors.push((field.name, elem)),
            FieldType::Out { .. } => {}
        }
    }
    params
}

/// The scalar parameters.
struct Scalars(Vec<u32>);

impl ArgVisitor for Scalars {
    fn scalar(&mut self, bits: u32) {
        self.0.push(bits);
    }
    fn tensor(&mut self, _: TensorArg<'_>) {}
    fn out(&mut self, _: Option<&OutBuffer>, _: &[i64]) {}
}
