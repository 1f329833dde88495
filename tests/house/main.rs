//! The style of the repository: words, widths, sentences, imports and sizes. CONTRIBUTING says why each rule is there.

mod book;
mod columns;
mod cycles;
mod files;
mod impls;
mod layout;
mod oldest_rust;
mod one_api;
mod prose;
mod retired;
