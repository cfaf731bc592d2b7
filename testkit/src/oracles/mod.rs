//! Closed forms and fixed points of the literature, which the radio model is held against.

pub mod edca;
