//! What stands in a record, so that it tells of itself where it belongs.

use crate::dice::Dice;

const HEAD: usize = 36;

/// Who wrote a record, and as which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Unlike any other's: see [`serial`].
    pub serial: u64,
    /// The serial of its batch's first record, and how many there are, one after another.
    pub first: u64,
    pub count: u32,
    pub slot: u32,
    pub incarnation: u32,
}

/// The number of a record: of this life, this thread, and one more than the one before.
pub fn serial(life: u64, thread: u64, number: u64) -> u64 {
    life << 48 | thread << 40 | number
}

/// Whoever wrote it: records of one writer keep their order.
pub fn writer(serial: u64) -> u64 {
    serial >> 40
}

impl Stamp {
    /// A payload of so many bytes, or as few as it needs.
    pub fn payload(&self, len: usize) -> Vec<u8> {
        let len = len.max(HEAD);
        let mut bytes = Vec::with_capacity(len + 8);
        bytes.extend_from_slice(&self.serial.to_le_bytes());
        bytes.extend_from_slice(&self.first.to_le_bytes());
        for word in [self.count, self.slot, self.incarnation] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&(len as u64).to_le_bytes());
        let mut fill = Dice::new(self.serial);
        while bytes.len() < len {
            bytes.extend_from_slice(&fill.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// What a payload says, which must be as it was made, to the last byte.
    pub fn read(payload: &[u8]) -> Result<Stamp, String> {
        let long = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            bytes.try_into().ok().map(u64::from_le_bytes)
        };
        let short = |at: usize| {
            let bytes = payload.get(at..at + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        let read = || {
            Some(Stamp {
                serial: long(0)?,
                first: long(8)?,
                count: short(16)?,
                slot: short(20)?,
                incarnation: short(24)?,
            })
        };
        let stamp = read().ok_or("a payload that is too short")?;
        match long(28) {
            Some(len) if len == payload.len() as u64 && stamp.payload(payload.len()) == payload => {
                Ok(stamp)
            }
            _ => Err(format!("record {:x} came back altered", stamp.serial)),
        }
    }
}
