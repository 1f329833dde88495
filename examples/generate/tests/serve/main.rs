//! The server on a port of its own, over a model that says what the prompt says.

mod answers;
mod browser;
mod clients;
mod echo;
mod hostile;
mod operation;
mod refusals;
mod server;
