//! Whole networks in the simulator. One program: each one more would be linked by itself.

mod adversary;
mod air_time;
mod applications;
mod classes;
mod harq;
mod keys;
mod mac;
mod olsr;
mod promises;
mod recorded_losses;
mod relayed;
mod slots;
mod space;
mod tree;
