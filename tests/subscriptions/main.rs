//! Subscriptions: what they are given, how they stand, what they do when records expire.

#[path = "../machine/mod.rs"]
mod machine;

mod commits;
mod expiry;
mod filters;
mod kit;
mod partitions;
mod quakes;
mod samples;
mod states;
mod waiting;
