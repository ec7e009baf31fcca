use std::borrow::Cow;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::flaw::{Field, Flaw};
use super::oversize::Oversize;

/// Most headers a record can have.
pub(super) const MAX_HEADERS: usize = 255;

/// A name and a value that travel with a record, beside its payload.
///
/// Both may be borrowed, so that a producer lends what it has, or owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name: text, up to 65,535 bytes; the same name may come more than once.
    pub name: Cow<'a, str>,
    /// The value: any bytes.
    pub value: Cow<'a, [u8]>,
}

impl<'a> Header<'a> {
    /// A header of anything that can be borrowed or owned.
    pub fn new(name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// What precedes the bytes of a header. Stored, never reuse.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct HeaderHead {
    pub(super) name: U16,
    pub(super) value: U32,
}

impl HeaderHead {
    pub(super) const SIZE: usize = size_of::<Self>();

    pub(super) fn of(header: &Header<'_>) -> Result<Self, Oversize> {
        let (name, value) = (header.name.len(), header.value.len());
        Ok(Self {
            name: u16::try_from(name)
                .map_err(|_| Oversize::HeaderName {
                    size: name,
                    limit: usize::from(u16::MAX),
                })?
                .into(),
            value: u32::try_from(value)
                .map_err(|_| Oversize::HeaderValue {
                    size: value,
                    limit: u32::MAX as usize,
                })?
                .into(),
        })
    }
}

/// The headers of a frame, in the order they were given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Headers<'a> {
    left: u8,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Takes `count` headers off the front of `bytes`, having looked at each.
    pub(super) fn decode(count: u8, bytes: &mut &'a [u8]) -> Result<Self, Flaw> {
        let whole = *bytes;
        for _ in 0..count {
            next(bytes)?;
        }
        let len = whole.len() - bytes.len();
        Ok(Self {
            left: count,
            bytes: whole.get(..len).unwrap_or_default(),
        })
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        next(&mut self.bytes).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Headers<'_> {}

fn next<'a>(bytes: &mut &'a [u8]) -> Result<(&'a str, &'a [u8]), Flaw> {
    let (head, rest) = HeaderHead::ref_from_prefix(bytes).map_err(|_| Flaw::Field {
        field: Field::HeaderName,
        found: bytes.len() as u64,
    })?;
    *bytes = rest;
    let name = take(bytes, usize::from(head.name.get()), Field::HeaderName)?;
    let value = take(bytes, head.value.get() as usize, Field::HeaderValue)?;
    let name = std::str::from_utf8(name).map_err(|error| Flaw::Field {
        field: Field::HeaderName,
        found: error.valid_up_to() as u64,
    })?;
    Ok((name, value))
}

/// The first `len` of `bytes`, which lose them; `field` is to blame when there are fewer.
pub(super) fn take<'a>(bytes: &mut &'a [u8], len: usize, field: Field) -> Result<&'a [u8], Flaw> {
    bytes.split_off(..len).ok_or(Flaw::Field {
        field,
        found: len as u64,
    })
}
