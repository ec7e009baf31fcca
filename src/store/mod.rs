//! The store: topics, partitions, subscriptions; what a program sees.

mod ack;
mod append;
mod backup;
mod batch;
mod budget;
mod catalog;
mod closing;
mod follow;
mod inner;
mod inspect;
mod leftovers;
mod log_cell;
mod name;
mod offload;
mod open;
mod open_reading;
mod position;
mod read;
mod reading;
mod record;
mod repair;
mod retention;
mod routing;
mod salvage;
#[expect(clippy::module_inception, reason = "the noun of this floor")]
mod store;
mod stored;
mod stream;
mod subscription;
mod topic;
mod transaction;
mod twins;

pub use ack::Ack;
pub use backup::BackupReport;
pub use follow::{Follow, Stopper};
pub use inspect::{LogReport, VerifyReport, verify};
pub use position::{Position, Positions};
pub use read::{Cursor, Records, Start};
pub use record::{Header, IntoBytes, Record, Timestamp};
pub use repair::{RepairAction, RepairReport, RepairStep, RepairedLog, repair, repair_plan};
pub use salvage::{SalvageReport, SalvagedLog, salvage};
pub use store::{Health, Store, TopicInfo};
pub use stored::{OwnedRecord, StoredRecord};
pub use stream::FollowStream;
pub use subscription::{Lag, Subscription, SubscriptionBuilder, SubscriptionInfo};
pub use topic::{Partition, Topic};

#[cfg(all(test, not(loom)))]
mod tests;
