//! Stores, topics and subscriptions of [tidelog](tidelog) from a file, in TOML, YAML or JSON.
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
use tidelog::Store;

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
/// assert!(subscription.required);
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
    #[serde(default)]
    pub required: bool,
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
    /// store does not take; what came before it in the file has been made then.
    pub fn open(&self) -> Result<Store> {
        self.check()?;
        let store = Store::open(&self.path).map_err(|error| refused("path", error))?;
        if let Err(error) = self.apply(&store) {
            // What is told is why the store is not handed out.
            return Err(store
                .close()
                .map_or_else(|closing| refused("path", closing), |()| error));
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
            let made = store.create_topic(name, topic.options());
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
        if self.required {
            builder = builder.required();
        }
        match builder.open() {
            // Whoever holds it has made it.
            Ok(_) | Err(tidelog::Error::SubscriptionBusy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn refused(key: &str, cause: tidelog::Error) -> Error {
    Error::Refused {
        key: key.to_owned(),
        cause,
    }
}
