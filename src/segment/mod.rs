//! One segment file: written front to back by its [`Writer`], read through a mapping as a
//! [`Segment`], and walked with positioned reads, which trust nothing, by a [`Walk`].
//!
//! This floor knows bytes, places and frames. Which segments make a log, and where one ends, is
//! decided above.

mod follower;
mod header;
mod name;
mod reader;
mod sums;
mod walk;
mod writer;

pub(crate) use follower::Follower;
pub(crate) use header::{Header, Page, read_page};
pub(crate) use name::{file_name, number_of, used_name, used_number_of};
pub(crate) use reader::{End, Segment, Trouble};
pub(crate) use sums::Sums;
pub(crate) use walk::{Budget, Walk, could_be};
pub(crate) use writer::{Room, Unwritten, Writable, Writer};
