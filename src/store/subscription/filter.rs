//! Which records a subscription is given, by key and headers.

use std::ops::Not;

use serde::{Deserialize, Serialize};

use crate::store::stored::StoredRecord;

/// Which records a [subscription](crate::SubscriptionBuilder::filter) is given, by their keys and
/// headers. A header that is there more than once is met if one of them is.
///
/// It is written and read by serde: text as text, other bytes as their hexadecimal digits under `hex`.
///
/// # Examples
///
/// ```
/// use tidelog::Filter;
///
/// let silver = Filter::header("status").is_in(["no_parser", "parse_failed"]);
/// let abroad = silver.and(!Filter::key().starts_with("hv"));
/// # let text = r#"{"all":[{"header":{"name":"status","is":{"one_of":["no_parser","parse_failed"]}}},
/// #     {"not":{"key":{"prefix":"hv"}}}]}"#;
/// # assert_eq!(serde_json::from_str::<Filter>(text)?, abroad);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filter(Node);

/// Names are stored: never reuse one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Node {
    Header { name: String, is: Test },
    Key(Test),
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
}

/// Names are stored: never reuse one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Test {
    There,
    OneOf(Vec<Value>),
    Prefix(Value),
}

/// Some bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
struct Value(Vec<u8>);

/// As they are written down.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Hex { hex: String },
}

impl From<Value> for Written {
    fn from(value: Value) -> Written {
        String::from_utf8(value.0).map_or_else(
            |other| Written::Hex {
                hex: other
                    .as_bytes()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            },
            Written::Text,
        )
    }
}

impl TryFrom<Written> for Value {
    type Error = String;

    fn try_from(written: Written) -> Result<Value, String> {
        let hex = match written {
            Written::Text(text) => return Ok(Value(text.into_bytes())),
            Written::Hex { hex } => hex,
        };
        let digit = |digit: u8| {
            (digit as char)
                .to_digit(16)
                .and_then(|it| u8::try_from(it).ok())
        };
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
        bytes
            .map(Value)
            .ok_or_else(|| format!("{hex:?} is not pairs of hexadecimal digits"))
    }
}

/// The key or a header, of which [`Filter`] is yet to be told what it shall be.
///
/// # Examples
///
/// ```
/// use tidelog::Filter;
/// let hawaii = Filter::key().equals("hv");
/// let dated = Filter::header("date").exists();
/// # assert_ne!(hawaii, dated);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterOn(Option<String>);

impl Filter {
    /// Says something of a header.
    pub fn header(name: impl Into<String>) -> FilterOn {
        FilterOn(Some(name.into()))
    }

    /// Says something of the key.
    pub fn key() -> FilterOn {
        FilterOn(None)
    }

    /// Those of which both are true.
    pub fn and(self, other: Filter) -> Filter {
        Filter(match self.0 {
            Node::All(mut all) => {
                all.push(other);
                Node::All(all)
            }
            first => Node::All(vec![Filter(first), other]),
        })
    }

    /// Those of which either is true.
    pub fn or(self, other: Filter) -> Filter {
        Filter(match self.0 {
            Node::Any(mut any) => {
                any.push(other);
                Node::Any(any)
            }
            first => Node::Any(vec![Filter(first), other]),
        })
    }

    /// Whether a record is one of them.
    pub fn passes(&self, record: &StoredRecord<'_>) -> bool {
        match &self.0 {
            Node::Header { name, is } => {
                let mut values = record.headers().filter(|(found, _)| found == name);
                values.any(|(_, value)| is.holds(value))
            }
            Node::Key(is) => record.key().is_some_and(|key| is.holds(key)),
            Node::All(all) => all.iter().all(|filter| filter.passes(record)),
            Node::Any(any) => any.iter().any(|filter| filter.passes(record)),
            Node::Not(filter) => !filter.passes(record),
        }
    }
}

/// Those of which it is not true.
impl Not for Filter {
    type Output = Filter;

    fn not(self) -> Filter {
        Filter(Node::Not(Box::new(self)))
    }
}

impl Test {
    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Test::There => true,
            Test::OneOf(values) => values.iter().any(|it| it.0 == value),
            Test::Prefix(prefix) => value.starts_with(&prefix.0),
        }
    }
}

impl FilterOn {
    fn is(self, test: Test) -> Filter {
        Filter(match self.0 {
            Some(name) => Node::Header { name, is: test },
            None => Node::Key(test),
        })
    }

    /// It is there.
    pub fn exists(self) -> Filter {
        self.is(Test::There)
    }

    /// It is this.
    pub fn equals(self, value: impl AsRef<[u8]>) -> Filter {
        self.is_in([value])
    }

    /// It is one of these.
    pub fn is_in<V: AsRef<[u8]>>(self, values: impl IntoIterator<Item = V>) -> Filter {
        let values = values.into_iter().map(|it| Value(it.as_ref().to_vec()));
        self.is(Test::OneOf(values.collect()))
    }

    /// It begins like this.
    pub fn starts_with(self, prefix: impl AsRef<[u8]>) -> Filter {
        self.is(Test::Prefix(Value(prefix.as_ref().to_vec())))
    }
}
