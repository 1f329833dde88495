//! What the macros emit by path. Not part of the public interface.
