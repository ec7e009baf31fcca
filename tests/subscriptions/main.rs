//! Subscriptions: what they are given, how they stand, what they do when records expire.

#[path = "../machine/mod.rs"]
mod machine;

mod expiry;
mod filters;
mod kit;
mod quakes;
mod samples;
mod states;
