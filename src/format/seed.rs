use crc32c::{crc32c, crc32c_append};

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
        let crc = crc32c_append(crc, &log.to_le_bytes());
        let crc = crc32c_append(crc, &number.to_le_bytes());
        Self(crc32c_append(crc, &nonce.to_le_bytes()))
    }

    /// The checksum of pieces that lie one behind the other.
    pub(super) fn checksum(self, pieces: [&[u8]; 2]) -> u32 {
        let [first, second] = pieces;
        crc32c_append(crc32c_append(self.0, first), second)
    }
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
