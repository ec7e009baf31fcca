use crc32c::{crc32c, crc32c_combine};

/// The initial value of every checksum in one life of one segment.
///
/// A file may be used again, copied to a wrong place, or hold the leavings of an earlier owner.
/// Since each taking-over of a segment draws its own nonce, and frames and slots are checked with
/// a seed made of it, bytes of any other life never pass for bytes of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    /// CRC-32C of the four, in this order. Stored in effect, never change.
    pub(crate) fn new(store: &[u8; 16], log: u64, number: u32, nonce: u64) -> Self {
        let crc = crc32c(store);
        let crc = append(crc, &log.to_le_bytes());
        let crc = append(crc, &number.to_le_bytes());
        Self(append(crc, &nonce.to_le_bytes()))
    }

    /// The checksum of pieces that lie one behind the other.
    pub(super) fn checksum(self, pieces: [&[u8]; 2]) -> u32 {
        let [first, second] = pieces;
        append(append(self.0, first), second)
    }
}

impl Seed {
    /// The same where the second piece is not at hand: it has `length` bytes, one or more, and the plain
    /// checksums are known of some bytes before it, and of these together with it.
    pub(super) fn checksum_between(
        self,
        first: &[u8],
        (before, behind): (u32, u32),
        length: usize,
    ) -> u32 {
        // What a prefix adds to the checksum of the whole depends only on how much follows.
        crc32c_combine(append(self.0, first) ^ before, behind, length)
    }
}

/// The plain checksum of bytes that has this one without the last of them.
pub(crate) fn append(checksum: u32, bytes: &[u8]) -> u32 {
    #[cfg(test)]
    SUMMED.set(SUMMED.get() + bytes.len() as u64);
    crc32c::crc32c_append(checksum, bytes)
}

#[cfg(test)]
thread_local! {
    /// How many bytes of frames this thread has computed checksums of.
    pub(crate) static SUMMED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_plain_checksum_of_what_it_names() {
        let mut bytes = Vec::new();
        bytes.extend([7; 16]);
        bytes.extend(17_u64.to_le_bytes());
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(0xfeed_u64.to_le_bytes());
        let seed = Seed::new(&[7; 16], 17, 3, 0xfeed);
        assert_eq!(seed, Seed(crc32c(&bytes)));

        bytes.extend(b"length and rest");
        assert_eq!(seed.checksum([b"length", b" and rest"]), crc32c(&bytes));
        let sums = (crc32c(b"before"), crc32c(b"before and rest"));
        assert_eq!(seed.checksum_between(b"length", sums, 9), crc32c(&bytes));
    }

    #[test]
    fn each_part_of_a_life_changes_it() {
        let seed = Seed::new(&[7; 16], 17, 3, 9);
        assert_ne!(seed, Seed::new(&[8; 16], 17, 3, 9));
        assert_ne!(seed, Seed::new(&[7; 16], 18, 3, 9));
        assert_ne!(seed, Seed::new(&[7; 16], 17, 4, 9));
        assert_ne!(seed, Seed::new(&[7; 16], 17, 3, 10));
    }
}
