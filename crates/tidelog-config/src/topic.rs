//! A topic in a configuration.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidelog::{Durability, Retention, TopicOptions};

use crate::{Age, Error, Size};

/// When what is written to a topic is synced: `commit`, `manual`, or a length of time.
///
/// # Examples
///
/// ```
/// use tidelog_config::Sync;
/// let sync: Sync = serde_json::from_str("\"50ms\"").expect("a time");
/// assert_eq!(sync.to_string(), "50ms");
/// assert_eq!(tidelog::Durability::from(Sync::Commit), tidelog::Durability::Commit);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// [`Durability::Commit`]
    Commit,
    /// [`Durability::Interval`]
    Every(Age),
    /// [`Durability::Manual`]
    Manual,
}

impl From<Sync> for Durability {
    fn from(sync: Sync) -> Durability {
        match sync {
            Sync::Commit => Durability::Commit,
            Sync::Every(age) => Durability::Interval(age.0),
            Sync::Manual => Durability::Manual,
        }
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sync::Commit => f.write_str("commit"),
            Sync::Every(age) => age.fmt(f),
            Sync::Manual => f.write_str("manual"),
        }
    }
}

impl Serialize for Sync {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sync {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sync, D::Error> {
        struct Seen;
        impl Visitor<'_> for Seen {
            type Value = Sync;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"commit\", \"manual\" or an interval like \"50ms\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sync, E> {
                match text {
                    "commit" => Ok(Sync::Commit),
                    "manual" => Ok(Sync::Manual),
                    text => match text.parse::<Age>() {
                        Ok(age) => Ok(Sync::Every(age)),
                        Err(_) => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                    },
                }
            }
        }
        deserializer.deserialize_str(Seen)
    }
}

/// How long a topic keeps its records; see [`Retention`].
///
/// # Examples
///
/// ```
/// let text = r#"{"age": "7d", "bytes": "20GB"}"#;
/// let kept: tidelog_config::Kept = serde_json::from_str(text).expect("a policy");
/// assert_eq!(kept.retention(), tidelog::Retention::days(7).or_bytes(20_000_000_000));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// [`Retention::age`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<Age>,
    /// [`Retention::bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// [`Retention::keep_required`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_required: Option<Size>,
}

impl Kept {
    /// The same for the engine.
    pub fn retention(&self) -> Retention {
        let mut retention = Retention::forever();
        if let Some(age) = self.age {
            retention = retention.or_age(age.0);
        }
        if let Some(bytes) = self.bytes {
            retention = retention.or_bytes(bytes.0);
        }
        if let Some(limit) = self.keep_required {
            retention = retention.keep_required(limit.0);
        }
        retention
    }
}

/// What a topic is made with; see [`TopicOptions`]. What is not said is as there, or as it is in a topic
/// that exists.
///
/// # Examples
///
/// ```
/// let text = r#"{"partitions": 4, "max_record": "1MiB"}"#;
/// let topic: tidelog_config::Topic = serde_json::from_str(text).expect("a topic");
/// let wanted = tidelog::TopicOptions::new().partitions(4).max_record_bytes(1 << 20);
/// assert_eq!(topic.over(tidelog::TopicOptions::new()), wanted);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Topic {
    /// [`TopicOptions::partitions`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// [`TopicOptions::content_type`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// [`TopicOptions::durability`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Sync>,
    /// [`TopicOptions::retention`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Kept>,
    /// [`TopicOptions::max_record_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_record: Option<Size>,
    /// [`TopicOptions::max_batch_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch: Option<Size>,
    /// [`TopicOptions::max_total_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_total: Option<Size>,
    /// [`TopicOptions::wait_when_full`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_when_full: Option<Age>,
    /// [`TopicOptions::first_segment_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_segment: Option<Size>,
    /// [`TopicOptions::max_segment_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_segment: Option<Size>,
    /// [`TopicOptions::unsettled_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<Size>,
}

impl Topic {
    /// What would have no effect is a mistake.
    pub(crate) fn check(&self, key: &str) -> crate::Result<()> {
        let vain = |name: &str, lacks: &str| Error::Invalid {
            key: format!("{key}.{name}"),
            reason: format!("it has no effect without {lacks}"),
        };
        if self.wait_when_full.is_some() && self.max_total.is_none() {
            return Err(vain("wait_when_full", "max_total"));
        }
        match self.retention {
            Some(Kept {
                age: None,
                bytes: None,
                keep_required: Some(_),
            }) => Err(vain("retention.keep_required", "age or bytes")),
            _ => Ok(()),
        }
    }

    /// These options, with what is said here.
    pub fn over(&self, mut options: TopicOptions) -> TopicOptions {
        type Set<T> = fn(TopicOptions, T) -> TopicOptions;
        fn with<T>(options: TopicOptions, set: Set<T>, value: Option<T>) -> TopicOptions {
            match value {
                Some(value) => set(options, value),
                None => options,
            }
        }
        let sizes: [(Set<u64>, Option<Size>); 6] = [
            (TopicOptions::max_record_bytes, self.max_record),
            (TopicOptions::max_batch_bytes, self.max_batch),
            (TopicOptions::max_total_bytes, self.max_total),
            (TopicOptions::first_segment_bytes, self.first_segment),
            (TopicOptions::max_segment_bytes, self.max_segment),
            (TopicOptions::unsettled_bytes, self.unsettled),
        ];
        for (set, size) in sizes {
            options = with(options, set, size.map(|size| size.0));
        }
        options = with(options, TopicOptions::partitions, self.partitions);
        let content_type = self.content_type.clone();
        options = with(options, |it, text| it.content_type(text), content_type);
        let durability = self.durability.map(Durability::from);
        options = with(options, TopicOptions::durability, durability);
        let retention = self.retention.map(|kept| kept.retention());
        options = with(options, TopicOptions::retention, retention);
        let patience = self.wait_when_full.map(|age| age.0);
        with(options, TopicOptions::wait_when_full, patience)
    }
}
