//! A segment file taken apart, by `docs/format.md` and not by the engine's code: so that a test
//! can damage exactly what it means to.

use std::fs;
use std::path::{Path, PathBuf};

/// The bytes of a segment file, to be changed and written back.
#[derive(Debug, Clone)]
pub struct Segment {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// Where a frame lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub place: usize,
    /// Without the zeroes behind it.
    pub length: usize,
    pub offset: u64,
}

impl Frame {
    pub fn end(&self) -> usize {
        self.place + self.length.next_multiple_of(8)
    }
}

impl Segment {
    pub fn read(path: impl AsRef<Path>) -> Segment {
        let path = path.as_ref().to_owned();
        let bytes = fs::read(&path).unwrap();
        Segment { path, bytes }
    }

    pub fn write(&self) {
        fs::write(&self.path, &self.bytes).unwrap();
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    pub fn put_u32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn put_u64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub fn base(&self) -> u64 {
        self.u64(48)
    }

    pub fn records_at(&self) -> usize {
        self.u64(88) as usize
    }

    /// What frames and slots of this life of the file are checked with.
    pub fn seed(&self) -> u32 {
        let mut named = self.bytes[16..40].to_vec();
        named.extend(&self.bytes[104..108]);
        named.extend(&self.bytes[40..48]);
        crc32c::crc32c(&named)
    }

    /// The frames from the first on, as far as their checksums agree.
    pub fn frames(&self) -> Vec<Frame> {
        let (mut frames, mut place) = (Vec::new(), self.records_at());
        while place + 32 <= self.bytes.len() {
            let length = self.u32(place) as usize;
            let fits = length >= 32 && place + length <= self.bytes.len();
            if !fits || self.u32(place + 4) != self.checksum(place, length) {
                break;
            }
            let frame = Frame {
                place,
                length,
                offset: self.base() + u64::from(self.u32(place + 8)),
            };
            place = frame.end();
            frames.push(frame);
        }
        frames
    }

    /// The frame of an offset.
    pub fn frame(&self, offset: u64) -> Frame {
        let found = self
            .frames()
            .into_iter()
            .find(|frame| frame.offset == offset);
        found.unwrap()
    }

    /// The end of the last frame.
    pub fn tail(&self) -> usize {
        self.frames().last().map_or(self.records_at(), Frame::end)
    }

    /// What a frame's checksum is, taken over as much of its length as the file has.
    pub fn checksum(&self, place: usize, length: usize) -> u32 {
        let end = place.saturating_add(length).min(self.bytes.len());
        let sum = crc32c::crc32c_append(self.seed(), &self.bytes[place..place + 4]);
        crc32c::crc32c_append(sum, &self.bytes[place + 8..end.max(place + 8)])
    }

    /// Makes the checksum of the frame at `place` agree with what is there now.
    pub fn fix(&mut self, place: usize) {
        let sum = self.checksum(place, self.u32(place) as usize);
        self.put_u32(place + 4, sum);
    }

    /// Makes slot A one that counts, and says this.
    pub fn put_slot(&mut self, (place, next): (u64, u64), entries: u32, generation: u64) {
        self.bytes[512..1024].fill(0);
        self.bytes[512..516].copy_from_slice(b"SLOT");
        self.put_u64(512 + 16, generation);
        self.put_u64(512 + 24, place);
        self.put_u64(512 + 32, next);
        self.put_u32(512 + 64, entries);
        let sum = crc32c::crc32c_append(self.seed(), &self.bytes[512..516]);
        let sum = crc32c::crc32c_append(sum, &self.bytes[520..1024]);
        self.put_u32(516, sum);
    }

    /// Makes the checksum of the identity agree with what is there now.
    pub fn fix_identity(&mut self) {
        let sum = crc32c::crc32c(&self.bytes[..12]);
        let sum = crc32c::crc32c_append(sum, &self.bytes[16..512]);
        self.put_u32(12, sum);
    }
}
