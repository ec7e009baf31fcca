//! Disks that are full: the engine as a program runs it, on real and small file systems.
//!
//! Each test is one situation and runs on tmpfs, ext4, xfs and btrfs, through mappings and through
//! `pwrite`. A ballast file takes all but so much of the space. What must hold in each: the process
//! lives, what was acknowledged is there, in order and once, what was refused never is, and once the
//! ballast is gone the same handle goes on.
//!
//! [`matrix`] has the other tests of the suite run on the same kinds of file systems, with room.

mod book;
#[path = "../child/mod.rs"]
mod child;
mod facts;
mod matrix;
mod producers;
mod sparse;
mod stays;
mod steps;
mod volume;
