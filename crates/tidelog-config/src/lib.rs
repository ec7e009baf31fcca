//! Stores, topics and subscriptions of [tidelog] from a file, in TOML, YAML or JSON.
//!
//! ```toml
//! path = "data"
//!
//! [topics."agent.output"]
//! partitions = 4
//! durability = "50ms"
//! retention = { age = "7d", bytes = "20GB" }
//!
//! [[subscriptions]]
//! name = "archive"
//! topic = "agent.output"
//! required = true
//! ```
//!
//! What is not said is as the engine has it. A key that is not known, a unit that is none, a name that
//! stands there twice, a subscription of a topic that is not in the file: each is an [`Error`] that names
//! the line or the key, and nothing has been made then.
//!
//! # Examples
//!
//! ```
//! use tidelog_config::{Config, Format};
//! let text = r#"
//! [topics.quakes]
//! retention = { age = "7d", bytes = "20GB" }
//!
//! [[subscriptions]]
//! name = "archive"
//! topic = "quakes"
//! "#;
//! let mut config = Config::parse(text, Format::Toml)?;
//! # let dir = tempfile::tempdir()?;
//! config.path = dir.path().join("data");
//! let store = config.open()?;
//! assert_eq!(store.topic("quakes")?.subscriptions()?[0].name, "archive");
//! store.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod age;
mod error;
mod format;
mod size;
mod topic;
mod unique;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidelog::{Filter, OnExpiry, Sampling, Store, StoreOptions, TopicOptions};

pub use age::Age;
pub use error::{Error, Result};
pub use format::Format;
pub use size::Size;
pub use topic::{Kept, Sync, Topic};

/// What a file says.
///
/// # Examples
///
/// ```
/// use tidelog_config::{Config, Format};
/// let config = Config::parse("topics: {quakes: {partitions: 4}}", Format::Yaml)?;
/// assert_eq!(config.topics["quakes"].partitions, Some(4));
/// assert_eq!(config.path, std::path::Path::new("data"));
/// # Ok::<(), tidelog_config::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The store's directory: `data` if it is not said. A relative one counts from the file's folder, if
    /// there is a file.
    #[serde(default = "data")]
    pub path: PathBuf,
    /// Topics by name.
    #[serde(default, deserialize_with = "unique::map")]
    pub topics: BTreeMap<String, Topic>,
    /// Subscriptions of these topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscriptions: Vec<Subscription>,
}

fn data() -> PathBuf {
    PathBuf::from("data")
}

/// A subscription in a configuration.
///
/// # Examples
///
/// ```
/// let text = r#"{"name": "archive", "topic": "quakes", "start": "latest", "required": true}"#;
/// let subscription: tidelog_config::Subscription = serde_json::from_str(text).expect("one");
/// assert_eq!(subscription.required, Some(true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Its name.
    pub name: String,
    /// The topic it reads.
    pub topic: String,
    /// Where it starts the first time; a stored checkpoint always wins.
    #[serde(default)]
    pub start: Start,
    /// Whether retention is to keep what it has not committed, where the topic says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Which records it is given, if not all: `{ header = { name = "status", is = { one_of = ["failed"] } } }`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "serde_yaml_ng::with::singleton_map_recursive"
    )]
    pub filter: Option<Filter>,
    /// How many of them, if not all: `{ per_minute = 10, source = "station" }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// What it does when records expire that it has not committed: `fail`, `earliest` or `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expiry: Option<Expiry>,
}

/// What a subscription does when retention has removed what it has not committed; see [`OnExpiry`].
///
/// # Examples
///
/// ```
/// use tidelog_config::Expiry;
/// assert_eq!(tidelog::OnExpiry::from(Expiry::Latest), tidelog::OnExpiry::Latest);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expiry {
    /// Fails until somebody resets it.
    Fail,
    /// Goes on at the first record that is still there.
    Earliest,
    /// Goes on behind the last record.
    Latest,
}

impl From<Expiry> for OnExpiry {
    fn from(expiry: Expiry) -> OnExpiry {
        match expiry {
            Expiry::Fail => OnExpiry::Fail,
            Expiry::Earliest => OnExpiry::Earliest,
            Expiry::Latest => OnExpiry::Latest,
        }
    }
}

/// Where a subscription starts the first time.
///
/// # Examples
///
/// ```
/// use tidelog_config::Start;
/// assert_eq!(tidelog::Start::from(Start::Latest), tidelog::Start::Latest);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// With the first record that is there.
    #[default]
    Earliest,
    /// Behind the last record that is there.
    Latest,
}

impl From<Start> for tidelog::Start {
    fn from(start: Start) -> tidelog::Start {
        match start {
            Start::Earliest => tidelog::Start::Earliest,
            Start::Latest => tidelog::Start::Latest,
        }
    }
}

impl Config {
    /// Reads a file: TOML, YAML or JSON by its name's end.
    ///
    /// # Errors
    ///
    /// [`Error::Read`], [`Error::UnknownFormat`], and those of [`Config::parse`].
    pub fn read(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        let format = Format::of(path)?;
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Config::parse(&text, format)?;
        if let Some(folder) = path.parent() {
            config.path = folder.join(&config.path);
        }
        Ok(config)
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], with the key and, where the format knows it, the line.
    pub fn parse(text: &str, format: Format) -> Result<Config> {
        let config: Config = format.parse(text)?;
        config.check()?;
        Ok(config)
    }

    /// Opens the store, makes topics and subscriptions that are not there, and sets the limits of topics
    /// that are. Nothing is ever removed: what the file does not name stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for what contradicts itself, and [`Error::Refused`] with the key of what the
    /// store does not take, a subscription that somebody holds among that; what came before it in the file
    /// has been made then.
    pub fn open(&self) -> Result<Store> {
        self.open_with(StoreOptions::new())
    }

    /// As [`Config::open`], with options.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelog::StoreOptions;
    /// use tidelog_config::{Config, Format};
    /// # let dir = tempfile::tempdir()?;
    /// let mut config = Config::parse("[topics.quakes]", Format::Toml)?;
    /// config.path = dir.path().join("data");
    /// let store = config.open_with(StoreOptions::new().background_retention(false))?;
    /// assert_eq!(store.topics().len(), 1);
    /// # store.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_with(&self, options: StoreOptions) -> Result<Store> {
        self.check()?;
        let store =
            Store::open_with(&self.path, options).map_err(|error| refused("path", error))?;
        if let Err(error) = self.apply(&store) {
            // What is told is why the store is not handed out, not what came of closing it.
            drop(store.close());
            return Err(error);
        }
        Ok(store)
    }

    /// The same in a store that is open.
    ///
    /// # Errors
    ///
    /// As for [`Config::open`].
    pub fn apply(&self, store: &Store) -> Result<()> {
        for (name, topic) in &self.topics {
            let options = match store.existing_topic(name) {
                Ok(there) => there.options(),
                Err(tidelog::Error::TopicUnknown { .. }) => TopicOptions::new(),
                Err(error) => return Err(refused(&format!("topics.{name}"), error)),
            };
            let made = store.create_topic(name, topic.over(options));
            made.map_err(|error| refused(&format!("topics.{name}"), error))?;
        }
        for (index, subscription) in self.subscriptions.iter().enumerate() {
            let made = subscription.make(store);
            made.map_err(|error| refused(&format!("subscriptions[{index}]"), error))?;
        }
        Ok(())
    }

    /// What it says, as TOML: sizes and lengths of time in the largest unit that says them exactly.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a path that is no text.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string_pretty(self).map_err(|error| Error::Invalid {
            key: ".".to_owned(),
            reason: error.to_string(),
        })
    }

    /// What one value alone does not show.
    fn check(&self) -> Result<()> {
        for (name, topic) in &self.topics {
            topic.check(&format!("topics.{name}"))?;
        }
        let mut seen = BTreeSet::new();
        for (index, it) in self.subscriptions.iter().enumerate() {
            if !self.topics.contains_key(&it.topic) {
                return Err(Error::Invalid {
                    key: format!("subscriptions[{index}].topic"),
                    reason: format!("there is no topic {:?} among `topics`", it.topic),
                });
            }
            if !seen.insert((&it.topic, &it.name)) {
                return Err(Error::Invalid {
                    key: format!("subscriptions[{index}].name"),
                    reason: format!("{:?} of {:?} stands there twice", it.name, it.topic),
                });
            }
        }
        Ok(())
    }
}

impl Subscription {
    fn make(&self, store: &Store) -> tidelog::Result<()> {
        let topic = store.existing_topic(&self.topic)?;
        let mut builder = topic.subscription(&self.name).start(self.start.into());
        builder = match self.required {
            Some(true) => builder.required(),
            Some(false) => builder.optional(),
            None => builder,
        };
        if let Some(filter) = &self.filter {
            builder = builder.filter(filter.clone());
        }
        if let Some(sampling) = &self.sampling {
            builder = builder.sampling(sampling.clone());
        }
        if let Some(expiry) = self.on_expiry {
            builder = builder.on_expiry(expiry.into());
        }
        builder.open().map(drop)
    }
}

fn refused(key: &str, cause: tidelog::Error) -> Error {
    Error::Refused {
        key: key.to_owned(),
        cause: Box::new(cause),
    }
}
