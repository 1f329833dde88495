//! Numbers and bools as parameter values.

use std::fmt;

use super::{ParamError, ParamValue};

/// A number or bool that can be read from and written as a [`ParamValue`]. Sealed.
pub trait Scalar: sealed::Sealed + Copy + PartialOrd + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// The Rust name.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Reads a value.
    #[doc(hidden)]
    fn read(value: &ParamValue) -> Result<Self, ReadError>;
    /// The value as a [`ParamValue`].
    #[doc(hidden)]
    fn write(self) -> ParamValue;
    /// The value as an integer, bools as 0 and 1; `None` for floats.
    #[doc(hidden)]
    fn integer(self) -> Option<i64>;
}

/// Why a value cannot be read as a type.
#[doc(hidden)]
#[derive(Debug)]
pub enum ReadError {
    Type,
    Range(String),
}

impl ReadError {
    pub(super) fn at(self, name: &str, ty: &str, got: &ParamValue) -> ParamError {
        let (name, ty, got) = (name.to_owned(), ty.to_owned(), got.to_string());
        match self {
            ReadError::Type => ParamError::Type { name, ty, got },
            ReadError::Range(range) => ParamError::Range { name, ty, got, range },
        }
    }
}

impl Scalar for bool {
    const NAME: &'static str = "bool";
    fn read(value: &ParamValue) -> Result<Self, ReadError> {
        if let ParamValue::Bool(x) = value { Ok(*x) } else { Err(ReadError::Type) }
    }
    fn write(self) -> ParamValue {
        ParamValue::Bool(self)
    }
    fn integer(self) -> Option<i64> {
        Some(i64::from(self))
    }
}

impl Scalar for f32 {
    const NAME: &'static str = "f32";
    fn read(value: &ParamValue) -> Result<Self, ReadError> {
        let wide = match *value {
            ParamValue::Int(x) => x as f64,
            ParamValue::Float(x) => x,
            _ => return Err(ReadError::Type),
        };
        let x = wide as f32;
        if wide.is_finite() && !x.is_finite() {
            return Err(ReadError::Range(format!("magnitudes up to {:e}", f32::MAX)));
        }
        Ok(x)
    }
    fn write(self) -> ParamValue {
        // the shortest decimal that reads back as this f32: 0.1 is written as 0.1
        let shortest = self.to_string().parse::<f64>().ok();
        ParamValue::Float(shortest.filter(|&x| x as f32 == self).unwrap_or(f64::from(self)))
    }
    fn integer(self) -> Option<i64> {
        None
    }
}

macro_rules! integer {
    ($($t:ident),*) => {$(
        impl Scalar for $t {
            const NAME: &'static str = stringify!($t);
            fn read(value: &ParamValue) -> Result<Self, ReadError> {
                let range = || ReadError::Range(format!("{} to {}", $t::MIN, $t::MAX));
                match *value {
                    ParamValue::Int(x) => $t::try_from(x).map_err(|_| range()),
                    // the cast saturates, and i64 holds every integer that could fit
                    ParamValue::Float(x) if x.fract() == 0.0 => $t::try_from(x as i64).map_err(|_| range()),
                    _ => Err(ReadError::Type),
                }
            }
            fn write(self) -> ParamValue {
                ParamValue::Int(i64::from(self))
            }
            fn integer(self) -> Option<i64> {
                Some(i64::from(self))
            }
        }
    )*};
}
integer!(i32, u32, u8);

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i32 {}
    impl Sealed for u32 {}
    impl Sealed for u8 {}
    impl Sealed for bool {}
}
