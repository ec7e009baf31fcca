//! From a key to a partition, as Kafka's default partitioner does it.

/// The partition of a key: the same number as in Kafka.
pub(crate) fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// Murmur2, 32 bits, with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // Kafka mixes in the length as a 32-bit number; keys are far shorter.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        mixed ^= mixed >> 24;
        hash = hash.wrapping_mul(M) ^ mixed.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own `UtilsTest.testMurmur2`.
    #[test]
    fn keys_hash_as_in_kafka() {
        let cases: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key).cast_signed(), hash, "{key:?}");
        }
    }

    #[test]
    fn every_partition_is_a_valid_number() {
        for partitions in [1, 2, 4, 7, 65_535] {
            for key in 0..1000_u32 {
                assert!(partition_of(&key.to_le_bytes(), partitions) < partitions);
            }
        }
    }
}
