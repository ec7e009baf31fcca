//! Processors: what they put out, what they do with what fails, and what is left of them after a crash.

#[path = "../child/mod.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../machine/mod.rs"]
mod machine;

mod kills;
mod kit;
#[path = "../common/memory.rs"]
mod memory;
mod policy;
mod quakes;
mod running;
mod whole;
