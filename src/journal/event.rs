//! The facts a journal states. Names of events and fields are stored: never reuse one.

use serde::{Deserialize, Deserializer, Serialize};

use super::record;

/// A fact about the store, stated absolutely: applying it twice changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Event {
    /// An owner took over.
    Epoch(Owner),
    /// A topic as it is now: new, changed or finished.
    Topic(TopicState),
    /// A topic is gone, with all that belongs to it.
    TopicDeleted {
        /// Which topic.
        id: u64,
    },
    /// A subscription as it is now: new, paused or resumed.
    Subscription(SubscriptionState),
    /// A subscription is gone, with its checkpoints.
    SubscriptionDeleted {
        /// Which subscription.
        id: u64,
    },
    /// Where a subscription stands in a partition. A reset states a smaller `next` just so.
    Checkpoint {
        /// Which subscription.
        subscription: u64,
        /// In which partition of its topic.
        partition: u32,
        /// The offset to read next.
        next: u64,
    },
    /// Where logs end: all below is settled.
    Ends {
        /// One for each log that is named.
        ends: Vec<LogEnd>,
    },
    /// A log was settled for the first time: from here on its folder must exist.
    Settled {
        /// Which log.
        log: u64,
    },
    /// The redo that a failed log needs lies in files of its own.
    RedoFiles(RedoFiles),
    /// Retention moved the start of a log.
    Start(LogStart),
    /// The owner of this epoch left in good order: every log it used has its end recorded.
    Closed {
        /// Which owner.
        epoch: u32,
    },
}

/// Who owns, or owned, the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    /// Counts the owners; greater than that of any owner before.
    pub(crate) epoch: u32,
    /// The boot of the machine it runs in, where that can be known.
    #[serde(with = "hex")]
    pub(crate) boot: Option<[u8; 16]>,
    /// Its process.
    pub(crate) pid: u32,
}

/// A topic as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicState {
    /// Never used again, also not after the topic is gone.
    pub(crate) id: u64,
    /// Its name, which no other live topic has. Not checked here: whoever makes a path of it must.
    pub(crate) name: String,
    /// What its payloads are.
    pub(crate) content_type: String,
    /// The log of each partition; neither number nor ids ever change.
    pub(crate) logs: Vec<u64>,
    /// Its limits.
    pub(crate) settings: TopicSettings,
    /// Whether it takes no more records.
    pub(crate) finished: bool,
    /// When it was made, in nanoseconds since the Unix epoch.
    pub(crate) created: i64,
}

/// The limits of a topic, in bytes, and when it is synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicSettings {
    /// The largest record taken.
    pub(crate) max_record_bytes: u64,
    /// The largest batch taken.
    pub(crate) max_batch_bytes: u64,
    /// The most a partition may hold, if there is a limit.
    #[serde(deserialize_with = "stated")]
    pub(crate) max_total_bytes: Option<u64>,
    /// The size of a log's first segment.
    pub(crate) first_segment_bytes: u64,
    /// The size up to which segments double.
    pub(crate) max_segment_bytes: u64,
    /// How much of a log may be unsettled.
    pub(crate) unsettled_bytes: u64,
    /// The greatest that may ever have been written beyond what was settled: the most that is
    /// walked after a crash. It never shrinks.
    pub(crate) reach_bytes: u64,
    /// How long a record may be written before its sync is due: 0 for a sync at once, `None` for
    /// one when somebody asks.
    #[serde(deserialize_with = "stated")]
    pub(crate) sync_after_nanos: Option<u64>,
    /// How long records are kept, where anything is said about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retention: Option<RetentionSettings>,
    /// How long an append waits for room in a full partition, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) full_wait_nanos: Option<u64>,
}

/// How long a topic keeps its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionSettings {
    /// Records go when they were appended longer ago than this.
    #[serde(deserialize_with = "stated")]
    pub(crate) age_nanos: Option<u64>,
    /// Records go when so many bytes of newer ones are in their partition.
    #[serde(deserialize_with = "stated")]
    pub(crate) bytes: Option<u64>,
    /// What a required subscription has not committed is kept until so many bytes are behind it.
    #[serde(deserialize_with = "stated")]
    pub(crate) required_bytes: Option<u64>,
}

/// A subscription as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubscriptionState {
    /// Never used again.
    pub(crate) id: u64,
    /// The id of the topic it reads.
    pub(crate) topic: u64,
    /// Its name, which no other subscription of the topic has.
    pub(crate) name: String,
    /// Whether it is paused.
    pub(crate) paused: bool,
    /// Whether retention may keep records for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
    /// The filter, written down by those who read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
    /// The sampling, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sampling: Option<String>,
    /// What it does when records expire, if not nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on_expiry: Option<String>,
    /// The first offset to read in each partition, for as long as there is no checkpoint.
    pub(crate) start: Vec<u64>,
}

/// Where a log ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEnd {
    /// Which log.
    pub(crate) log: u64,
    /// The end of its last segment; `None` for a log that has no segment yet.
    #[serde(deserialize_with = "stated")]
    pub(crate) end: Option<SegmentEnd>,
    /// Nobody has used the log since: false in snapshots only.
    pub(crate) exact: bool,
}

/// What a slot of a segment's header carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentEnd {
    /// The number of the segment.
    pub(crate) segment: u32,
    /// The nonce of its taking-over.
    pub(crate) nonce: u64,
    /// Where its last frame ends.
    pub(crate) place: u64,
    /// The offset of the next record.
    pub(crate) next: u64,
    /// The greatest timestamp so far, if it has any record.
    #[serde(deserialize_with = "stated")]
    pub(crate) greatest: Option<i64>,
    /// How many index entries are below the place.
    pub(crate) index_entries: u32,
    /// The CRC of those entries.
    pub(crate) index_crc: u32,
    /// How many records are below the place.
    pub(crate) records: u64,
    /// The epoch of the last frame.
    pub(crate) epoch: u32,
    /// When it was last appended to, if ever.
    #[serde(deserialize_with = "stated")]
    pub(crate) last_append: Option<i64>,
}

/// The files with redo of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedoFiles {
    /// Which log.
    pub(crate) log: u64,
    /// Which files, by the numbers that were drawn for them, in the order in which they are laid.
    pub(crate) nonces: Vec<u64>,
    /// The offset behind the last record in them: all below it were durable.
    pub(crate) next: u64,
}

/// Where a log begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogStart {
    /// Which log.
    pub(crate) log: u64,
    /// Its lowest segment.
    pub(crate) segment: u32,
    /// The lowest offset that is still there.
    pub(crate) offset: u64,
}

impl Event {
    /// The payload of the journal record that states this.
    pub(crate) fn encode(&self) -> Vec<u8> {
        record::encode(record::EVENT, self)
    }
}

impl LogEnd {
    /// The offset of the next record of the log.
    pub(crate) fn next(&self) -> u64 {
        self.end.as_ref().map_or(0, |end| end.next)
    }
}

/// Reads an optional value that must be stated, if only as `null`: left to itself, serde takes a
/// missing field for `None`, and a document that lost one would pass.
fn stated<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// Sixteen bytes as 32 lowercase hexadecimal digits.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        id: &Option<[u8; 16]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(bytes) => to.collect_str(&format_args!("{:032x}", u128::from_be_bytes(*bytes))),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<[u8; 16]>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else {
            return Ok(None);
        };
        let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(de::Error::custom("a boot id is 32 hexadecimal digits"));
        }
        let id = u128::from_str_radix(&text, 16).map_err(de::Error::custom)?;
        Ok(Some(id.to_be_bytes()))
    }
}
