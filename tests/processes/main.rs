//! A store that one process owns and others read: each test has two real processes. The other one is
//! this binary once more.

#[path = "../child/mod.rs"]
mod child;

mod catalog;
mod expiring;
mod follow;
mod kit;
mod names;
mod still;
mod waking;
