//! The life of a store in a process: closing and dropping it under load, standing idle, handles that
//! come and go by the hundred thousand, the ends of segments, and topics that are broken beside
//! healthy ones. Only what any program can call is used, on real folders.

#[path = "../child/alone.rs"]
mod alone;
#[path = "../child/mod.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
mod kit;
#[path = "../common/memory.rs"]
mod memory;
mod process;

mod boundaries;
mod close;
mod growth;
mod idle;
mod isolation;
mod load;
