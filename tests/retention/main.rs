//! Retention: what goes, when, and that an audit tells exactly that.

#[path = "../common/mod.rs"]
mod common;
#[path = "../machine/mod.rs"]
mod machine;

mod audits;
mod background;
mod beside;
mod clocks;
mod cuts;
mod full;
mod kit;
mod policy;
mod random;
mod required;
mod trouble;
