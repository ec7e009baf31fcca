//! The store: topics, partitions, subscriptions; what a program sees.

mod ack;
mod append;
mod backup;
mod batch;
mod budget;
mod catalog;
mod closing;
mod follow;
mod health;
mod inner;
mod inspect;
mod leftovers;
mod log_cell;
mod metrics;
mod name;
mod offload;
mod open;
mod open_reading;
mod position;
mod quarantine;
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
mod transacting;
mod transaction;
mod twins;
mod typed;
mod typed_twins;
mod waiting;
mod within;

pub use ack::Ack;
pub use backup::BackupReport;
pub use follow::{Follow, Stopper};
pub use health::Health;
pub use inspect::{LogReport, VerifyReport, verify};
pub(crate) use metrics::Counters;
pub use metrics::{
    AppendWaits, Latency, Metrics, PartitionMetrics, ProcessorCounts, ProcessorMetrics,
    SubscriptionMetrics, TopicMetrics,
};
pub(crate) use offload::offload;
pub use position::{Position, Positions};
pub use read::{Cursor, Records, Start};
pub use record::{Header, IntoBytes, Record, Timestamp};
pub use repair::{RepairAction, RepairReport, RepairStep, RepairedLog, repair, repair_plan};
pub use retention::{Audit, PartitionAudit, Reason, Removal};
pub use salvage::{SalvageReport, SalvagedLog, salvage};
pub use store::{Store, TopicInfo};
pub use stored::{OwnedRecord, StoredRecord};
pub use stream::FollowStream;
pub use subscription::{Counts, Filter, FilterOn, OnExpiry, Sampling};
pub use subscription::{
    Lag, Subscription, SubscriptionBuilder, SubscriptionInfo, SubscriptionStatus,
};
pub use topic::{Partition, Topic};
pub use transacting::Transaction;
pub use typed::{Codec, Json, Typed, TypedFollow, TypedRecords, TypedSubscription, TypedTopic};

pub(crate) use name::check as check_name;

#[cfg(all(test, not(loom)))]
mod tests;
