//! What tests of the model share.

pub(crate) mod definition;
