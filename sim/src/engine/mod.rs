//! Discrete events.
