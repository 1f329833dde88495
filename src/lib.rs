//! attn-rs.
