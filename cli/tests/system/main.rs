//! System tests: the built program, real processes and kernel sockets. Each wants the machine for
//! itself, so all are ignored by default; `make test-system` runs them one at a time.

mod burst;
mod chain;
mod debris;
mod files;
mod host;
mod keys;
mod late;
mod links;
mod mtu;
mod networks;
mod noise;
mod paper;
mod place;
mod proxy;
mod real_programs;
mod row;
mod service;
mod sockets;
mod strangers;
mod user;
mod wireguard;
