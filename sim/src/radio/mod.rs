//! The radio model.
