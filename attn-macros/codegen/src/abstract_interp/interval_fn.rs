//! The functions over abstract values.

macro_rules! functions {
    ($($function:ident $name:ident,)*) => {
        /// A function of `attn_core::lang::interval`, which has the same name in `lang/interval.cuh`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum IntervalFn {
            $($function,)*
        }

        impl IntervalFn {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(IntervalFn::$function => stringify!($name),)*
                }
            }
        }
    };
}

functions! {
    Abs abs,
    AbsDiff abs_diff,
    Add add,
    BitAnd bit_and,
    BitNot bit_not,
    BitOr bit_or,
    BitXor bit_xor,
    Both both,
    CastI32 cast_i32,
    CastI64 cast_i64,
    CastU8 cast_u8,
    CastU32 cast_u32,
    CastU64 cast_u64,
    Clamp clamp,
    ClearLowest clear_lowest,
    CountOnes count_ones,
    Div div,
    DivEuclid div_euclid,
    Either either,
    Eq eq,
    EqCell eq_cell,
    EqCells eq_cells,
    Ge ge,
    Gt gt,
    IsPowerOfTwo is_power_of_two,
    Le le,
    LeadingZeros leading_zeros,
    Lt lt,
    Max max,
    Min min,
    Mul mul,
    Ne ne,
    Neg neg,
    Pow pow,
    Rem rem,
    RemEuclid rem_euclid,
    SaturatingAdd saturating_add,
    SaturatingSub saturating_sub,
    Select select,
    Shl shl,
    Shr shr,
    Signum signum,
    Sub sub,
    TrailingZeros trailing_zeros,
    Truth truth,
    UnsignedAbs unsigned_abs,
}
