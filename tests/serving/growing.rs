//! Parameter tensors that grow with the tokens of a batch, in decode loops under one plan and one graph: each step
//! against a flat plan with tensors of exactly its shape. On the CPU, and on a GPU if there is one.

mod forgetting;
mod m_rope;
mod support;
mod updates;
