/// Variants without hooks, with the parameters that cases read.
macro_rules! structs {
    ($($name:ident)*) => {$(
        #[derive(Clone, Debug, VariantParams)]
        pub struct $name {
            pub a: f32,
            pub n: i32,
            pub u: u32,
            pub flag: bool,
        }
    )*};
}
