//! The commands as a user types them, without the rights of a lab. One program: each one more would
//! be linked by itself.

mod bad_input;
mod capture;
mod demo;
mod folder;
mod keys;
mod outputs;
mod paper;
mod recorded_losses;
mod send;
mod sweep;
mod top;
