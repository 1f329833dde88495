//! An engine on a thread of its own.
