//! The error messages of the macros: what is wrong, and what to write instead.

#![allow(missing_docs)] // each is a sentence

use crate::budget::{FIELDS, INSTANCES};

/// Expressions and statements outside of the subset.
pub const REFERENCE: &str = "a hook has no references: values are copied";
pub const STRING: &str = "a hook has no strings";
pub const MACRO: &str =
    "macros are not available in a hook: it runs once per logit, on the GPU too, and cannot print, allocate or panic";
pub const MATCHES: &str = "`matches!` is not available in a hook: write `match x { 1 | 2 => true, _ => \
     false }`, or compare";
pub const ITERATOR: &str = "a hook has no iterators: write `for i in a..b`, and change a `let mut` variable in it";
pub const HEAP: &str = "a hook has no strings and no heap: use numbers, bools, tuples, arrays of a fixed length";
pub const ROW_ELEMENT: &str = "the elements of a row have no indices: `q.map(|i, x| ..)` changes each, `q.dot(|i| ..)` \
     and `q.sum()` read them";
pub const CONST_ARRAY: &str = "a constant in a hook is a number, a bool or a variant of an enum: write the array in \
     the hook, `let table = [1, 2, 3];`, or make it a parameter tensor";
pub const RESERVED_NAME: &str = "this is a word of expressions, which cannot name a variant: not `true`, `false`, \
     `inf`, `nan`, `or`, `not`, `remap`, `per_head` or `union`";
pub const QUESTION: &str = "`?` is not available in a hook: a hook cannot fail";
pub const LOOP: &str = "an unbounded loop is not available in a hook: write `for i in a..b`";
pub const FOR_RANGE: &str = "a hook iterates over ranges of integers only: write `for i in a..b`";
pub const FOR_PATTERN: &str = "the variable of a `for` is a plain name";
pub const UNROLL: &str =
    "a loop is unrolled by a number from 1 to 255: `#[unroll(2)]`, and `#[unroll(1)]` keeps it rolled";
pub const LABEL: &str = "labels are not available in a hook: `break` and `continue` leave the innermost loop";
pub const BREAK_VALUE: &str = "`break` has no value in a hook";
pub const CLOSURE: &str = "closures are available only as arguments of a row's methods: `map`, `zip`, `dot`, \
     `rotate_half` and `rotate_pairs`";
pub const CLOSURE_WANTED: &str = "write a closure here";
pub const CLOSURE_PARAM: &str = "the parameters of this closure are plain names";
pub const METHOD_ON_SELF: &str =
    "a hook does not call methods of its variant: put the shared code into a free function with `#[device_fn]`";
pub const OTHER_HOOK: &str = "a hook does not call hooks of a variant: compose the variants in the expression, as in \
     `causal + mine`, or put the shared code into a free function with `#[device_fn]`";
pub const INDEX_PATTERN: &str = "an index is not taken apart: name its coordinates where they are used, `at.kv_pos`, \
     or one by one, `let kv_pos = at.kv_pos;`";
pub const BARE_SELF: &str = "`self` is used by its parameters only: `self.name`";
pub const NESTED_FIELD: &str = "parameters do not nest: `self.name` is a scalar or a parameter tensor, and a struct \
     is made in the hook, of its parameters";
pub const SELF_ASSIGN: &str = "a hook cannot change its variant: use a local variable";
pub const INDEX_ASSIGN: &str = "coordinates cannot be changed: use a local variable";
pub const TARGET: &str = "only local variables can be assigned to";
pub const ASSIGN_VALUE: &str = "an assignment is a statement in a hook";
pub const INDEX_BASE: &str =
    "only parameter tensors and arrays can be indexed: `self.table[i]`, `self.table[[i, j]]`, `a[i as usize]`";
pub const TENSOR_RANK: &str =
    "parameter tensors have rank 0 to 4: `self.scale.get()`, `self.table[i]`, `self.table[[i, j]]` to `[[i, j, k, l]]`";
pub const TENSOR_CHAIN: &str = "the indices of a parameter tensor stand together: `self.table[[i, j]]`";
pub const TENSOR_USIZE: &str = "parameter tensors are indexed by i32: leave the cast out";
pub const TENSOR_GET: &str =
    "`get()` reads the one element of a `Tensor0`; elements of others are `self.table[i]`, `self.table[[i, j]]`";
pub const STORE_ARGUMENTS: &str = "a store takes an index and an f32: `self.out.store([i, j], x)`";
pub const STORE_HOOK: &str = "stores are available in `logits_transform`, `weight`, `denominator`, `sink_logit` and \
     `output_transform`: other hooks run any number of times for a logit or row, or not at all";
pub const ARRAY_LENGTH: &str = "the length of an array in a hook is a number: `[f32; 4]`";
pub const ARRAY_TARGET: &str =
    "an element is assigned to by the name of its array, declared with `let mut`: `a[i] = x`";
pub const UNSEEN_ARRAY: &str =
    "that this is an array cannot be seen from here: write its variable's type, as in `let a: [f32; 4] = helper(x)`";
pub const INDEX_TOO_WIDE: &str =
    "this number cannot be shown to be small and not negative: write `(i & 3) as usize` or `i.clamp(0, 3) as usize`";
pub const INDEX_ARITHMETIC: &str = "an index of an array cannot be shown to stay small and not negative here: count \
     in i32, and cast where the array is indexed, as in `a[k.clamp(0, 3) as usize]`";
pub const INDEX_METHOD: &str =
    "of the methods, an index of an array has `min`, `max` and `clamp`: cast it to i32 for others";
pub const STRUCT: &str =
    "this struct is not available in a hook: use one of your own with `#[device_type]`, or a tuple";
pub const UNSEEN_STRUCT: &str =
    "that this is a struct cannot be seen from here: write its variable's type, as in `let mut line: Line = helper(x)`";
pub const METHOD_OF_TYPE: &str =
    "a hook does not call methods of one's own: put the code into a free function with `#[device_fn]`";
pub const BARE_VARIANT: &str = "a hook names a variant of an enum with its type, as in `Mode::Linear`";
pub const BASE_IS_A_NAME: &str = "the rest of this struct comes from a variable: `Interval { lo, ..a }`";
pub const TUPLE_SIZE: &str = "tuples in a hook have 2 to 4 elements";
pub const RANGE: &str = "a range is available only in `for` and in `match` patterns";
pub const LET_CONDITION: &str = "`if let` is not available in a hook: use `match`, or a comparison";
pub const LET_ELSE: &str = "`let .. else` is not available in a hook: use `match`, or a comparison";
pub const LET_INIT: &str = "give the variable a value where it is declared";
pub const PATTERN: &str =
    "this pattern is not available in a hook: use names, `_`, tuples, and structs with `#[device_type]`";
pub const MATCH_PATTERN: &str = "this pattern is not available in a hook: use integers, ranges, bools, variants of an \
     enum, names, `_`, and `|` between them";
pub const ITEM: &str = "items are not available inside a hook: move it out, and put `#[device_fn]` on functions";
pub const UNSAFE: &str = "`unsafe` is not available in a hook";
pub const ASYNC: &str = "hooks are plain functions";
pub const FLOAT64: &str = "`f64` is not available in a hook: computations are in f32";
pub const USIZE: &str =
    "`usize` is available in a hook only as the index of an array, `a[i as usize]`: other indices and counts are i32";
pub const CAST: &str = "casts go to i32, u32, u8, u64, i64 or f32";
pub const LITERAL: &str = "this literal is not available in a hook: use integers, f32 and bools";
pub const LITERAL_SUFFIX: &str = "this integer type is not available in a hook: use i32, u32, u8, u64 or i64";
pub const TYPE: &str = "this type is not available in a hook: use f32, i32, u32, u8, u64, i64, bool, tuples and arrays \
     of them, and types of your own with `#[device_type]`";
/// Unknown approximate functions.
pub const APPROX: &str =
    "the approximate functions are `approx::tanh`, `approx::exp`, `approx::recip`, `approx::sin_cos`";
pub const MATH: &str = "the functions of `math` are `math::erf(x)`; others are methods, as in `x.tanh()`";
pub const CALL: &str = "a hook calls functions by path: a helper with `#[device_fn]`, `approx::tanh`, `f32::from_bits`";
pub const CALL_STD: &str =
    "functions of the standard library are not available in a hook: use methods, as in `a.max(b)`";
pub const RANDOM: &str =
    "random numbers are `random::uniform(seed, stream, i, j)` and `random::bits(seed, stream, i, j)`, of four u32";
pub const BITS: &str = "the functions of `bits` take one number: `f16_bits`, `f16_value`, `f16_round`, the same of \
     `bf16` and `e4m3`, `e2m1_bits`, `e2m1_value`, `e8m0_value`, `exponent` and `pow2_ceil`";
pub const CALL_SELF: &str =
    "functions of an impl cannot be called from a hook: make it a free function with `#[device_fn]`";
pub const CALL_TYPE: &str = "this constructor is not available in a hook: use numbers, bools, tuples, and types of \
     your own with `#[device_type]`: structs, and enums without fields";
pub const UNKNOWN_NAME: &str = "is not known here: a hook sees its arguments, `self`'s parameters, constants (in \
     capitals), and helpers with `#[device_fn]`";
pub const EXPRESSION: &str = "this expression is not available in a hook";
pub const UNTYPED_LITERAL: &str = "the type of this number cannot be seen from here: write it, as in `1u32`";
pub const CHANGE_IN_VALUE: &str = "a value inside an expression cannot change variables around it: change them in a \
     statement in front, or write the type of the variable that takes the value, `let x: f32 = ..`";
pub const COMPARE: &str =
    "only numbers, bools and, by `==` and `!=`, variants of an enum are compared in a hook: compare them one by one";
pub const ROW_VALUE: &str = "a row has one name: use the hook's argument";
pub const STORED_ROW_VALUE: &str = "a stored row has one name: use the argument, and pass what was read from it";
pub const ENCODED_ROW: &str = "this is the row that `encode` is given, by its name";
pub const TUPLE_ASSIGN: &str = "a part of a tuple cannot be assigned to: assign the whole, or use two variables";
pub const UNTYPED_VARIABLE: &str =
    "the type of this variable cannot be seen from here: write it, as in `let mut n: u32 = 0`";
pub const RETURN_IN_VALUE: &str = "`return`, `break` and `continue` are not available inside an expression: put the \
     value into a `let` with a type first";

/// Items of the wrong shape.
pub const TOO_DEEP: &str = "this is nested too deeply: name a part of it with `let`, or move it to a `#[device_fn]`";
pub const NOT_AN_IMPL: &str = "`#[attention_variant]` goes on `impl AttentionVariant for X`";
pub const NOT_A_FN: &str = "`#[device_fn]` goes on a free function";
pub const NOT_THE_TRAIT: &str = "`#[attention_variant]` goes on an impl of `AttentionVariant`";
pub const NOT_A_PATH: &str = "a variant is a struct: `impl AttentionVariant for X`";
pub const GENERIC_VARIANT: &str =
    "a variant is generic over constants only: write one impl for each type, or make the value a parameter";
pub const NEEDS_INSTANCES: &str = "a variant that is generic over constants lists its instances: \
     `#[attention_variant(name = \"windowed\", instances(4, 8))]` makes `windowed_4` and `windowed_8`";
pub const INSTANCES_OF_ONE: &str = "only a variant that is generic over constants has instances";
pub const INSTANCE_VALUE: &str =
    "an instance is given by numbers and bools: `instances(4, 8)`, `instances((4, true), (8, false))`";
pub const GENERIC_FN: &str =
    "a helper is generic over constants only, `fn helper<const N: i32>(..)`: write it for one type";
pub const CONST_ARGUMENT: &str = "a helper's constants are numbers, bools, or names of constants: `helper::<4>(x)`";
pub const FN_KIND: &str = "a helper is a plain function: not const, async, unsafe or extern";
pub const FN_SELF: &str = "a helper is a free function: pass what it needs as arguments";
pub const ARGUMENT: &str = "arguments are plain names";
pub const DEVICE_TYPE_ATTR: &str = "`#[device_type]` has no arguments";
pub const NOT_A_TYPE: &str = "`#[device_type]` goes on a struct, or on an enum without fields";
pub const GENERIC_TYPE: &str = "a type of hooks is not generic: write it for one type";
pub const TYPE_WITHOUT_FIELDS: &str = "a struct in a hook has fields: a value without any says nothing";
pub const TUPLE_STRUCT_SIZE: &str = "a tuple struct in a hook has 1 to 4 fields: give them names";
pub const ENUM_FIELDS: &str =
    "an enum in a hook has variants without fields: put what they hold into a struct beside it";
pub const EMPTY_ENUM: &str = "an enum in a hook has a variant";
pub const FIELD_TYPE: &str = "a field of a type in a hook is an f32, i32, u32, u8, u64, i64 or bool, an array or tuple \
     of them, or another type with `#[device_type]`";
pub const CFG_TYPE: &str = "a type of hooks cannot depend on `#[cfg]` inside: its CUDA text is made before it is known";
pub const CFG_HOOK: &str = "a hook cannot depend on `#[cfg]`: its CUDA text is made before it is known. Choose with a \
     constant, `if FAST { .. }`";
pub const ATTR: &str = "the arguments are a name, `#[attention_variant(name = \"soft_cap\")]`, and the instances of a \
     variant that is generic over constants, `instances(4, 8)`";
pub const ATTR_TWICE: &str = "the name is given twice";
pub const ATTR_NAME: &str = "a name is snake_case: letters a to z, digits and `_`, a letter first";
pub const NEEDS_NAME: &str = "expressions cannot call a variant by this type's name: give it one, \
     `#[attention_variant(name = \"soft_cap\")]`, of letters a to z, digits and `_`";
pub const NOT_A_FORMAT_IMPL: &str = "`#[kv_format]` goes on `impl KvFormat for X`";
pub const NOT_A_FORMAT_PATH: &str = "a KV format is a struct: `impl KvFormat for X`";
pub const NOT_THE_FORMAT_TRAIT: &str = "`#[kv_format]` goes on an impl of `KvFormat`";
pub const FORMAT_RESULT: &str = "`decode` gives eight elements: `[f32; 8]`";
pub const INEXACT: &str = "has other last bits on a GPU than on a CPU, and a format stores and reads the same bits \
     everywhere: use `+ - * /`, `sqrt`, `mul_add`, roundings, integers and the functions of `bits`";
pub const INEXACT_HELPER: &str = "this helper calls a function that has other last bits on a GPU than on a CPU, such \
     as `exp`, `ln`, `sin`, `powf`, `recip` or those of `approx`, and a format stores and reads the same bits \
     everywhere";
pub const COLLECTIVE_IN_CODE: &str = "a closure is for one element: write numbers and reduce the row in front of it";
pub const DEVICE_FN_ATTR: &str = "`#[device_fn]` has no arguments";
pub const DEVICE_MOD_ATTR: &str = "the arguments are strings: `#[device_mod(namespace = \"lang::random\", include = \
     \"lang/math.cuh\")]`";
pub const DEVICE_MOD_INLINE: &str = "`#[device_mod]` goes on an inline module: `mod name { .. }`";
pub const CUDA_STRUCT_FIELD: &str = "a field of a `CudaStruct` has a name, and is an i32, u32, i64, u64, f32, an array \
     of them, another such struct, or an address with its type, `#[cuda(\"const int*\")]`";
pub const RECURSION: &str = "recursion is not available on the GPU: use a bounded `for`";

/// What is over the budget of an item.
pub fn too_many_instances(count: usize) -> String {
    format!(
        "a variant has at most {INSTANCES} instances; this one has {count}: make the constant a parameter, or write \
         the impl for another struct too"
    )
}
pub fn too_many_fields(count: usize) -> String {
    format!("a type in a hook has at most {FIELDS} fields or variants; this one has {count}: use an array for some")
}
pub const ARRAY_TOO_LONG: &str = "an array in a hook has at most 4096 elements, those of arrays inside of it counted \
     together: it is in the registers or the stack of each thread. Make it a parameter tensor";
pub const TYPE_TOO_LARGE: &str = "a tuple in a hook has at most 64 parts, those of tuples inside of it counted \
     together: use an array, or a struct with `#[device_type]`";

/// Legal Rust that is wrong as a variant.
pub const WEIGHT_UNDER_SOFTMAX: &str = "`weight` is never called under softmax: declare the normaliser, for example \
     `const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };`, or leave `weight` out";
pub const NORMALIZER_WITHOUT_WEIGHT: &str =
    "a normaliser other than softmax needs weights of its own: write the hook `weight`";
pub const DENOMINATOR_UNDER_OTHER: &str = "`denominator` is called under `Normalizer::MaxScaled` only";
pub const SINK_UNDER_PLAIN: &str = "a sink is a virtual key of a softmax: `Normalizer::Plain` has none";
pub const KV_RANGE_WITHOUT_MASK: &str = "`kv_range` promises that `logits_mask` is false for other keys: this variant \
     has no `logits_mask`, so it attends to all of them";
pub const MASK_IN_TRANSFORM: &str =
    "this masks a logit by its position: move the condition to `logits_mask`, where whole tiles can then be skipped";
pub const DIVERGENT_ROW: &str = "a reduction or rotation of a row needs all its lanes: move it out of the branch, in \
     front, and use its result inside";

/// A warning about a parameter `{name}`.
pub const MAY_BE_ZERO: &str = "`{name}` may be 0, where Rust panics and the GPU gives 0: write a condition on the \
     field, as in `#[require({name} > 0)]`, or compare it first";

/// `compose!`.
pub const COMPOSE_TWO: &str = "`or` and `union` take two operands or more: `or(a, b)`";
pub const COMPOSE_NOT: &str = "`not` takes one operand: `not(a)`, or `not(a + b)`";
pub const COMPOSE_REMAP: &str = "`remap` takes a map and what sees its positions: `remap(map, a)`";
pub const COMPOSE_PER_HEAD: &str =
    "`per_head` takes the branch of each query head and the branches: `per_head([0, 0, 1, 1], a, b)`";

/// Two types, as rustc says it.
pub fn mismatched(wanted: &str, found: &str) -> String {
    format!("mismatched types: expected `{wanted}`, found `{found}`")
}
