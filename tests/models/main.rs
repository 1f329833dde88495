//! The attention of known models: configurations, the classes of Hugging Face's transformers, and outputs of their
//! code.

mod classes;
mod configs;
mod outputs;
