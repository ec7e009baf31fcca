use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::format::layout::{INTERVALS, MAX_CAPACITY};

fn sample() -> Identity {
    Identity {
        store: [7; 16],
        log: 17,
        topic: TopicName::new("agent.output").unwrap(),
        partition: 3,
        number: 5,
        nonce: 0x0123_4567_89ab_cdef,
        epoch: 12,
        base: 9_000,
        predecessor: Some(Predecessor {
            place: 8_192,
            next: 9_000,
        }),
        gaps_allowed: true,
        covers_to: Some(7),
        layout: Layout::new(1 << 20, 4096).unwrap(),
    }
}

/// The sample's sector, changed, with a checksum that agrees.
fn resealed(change: impl FnOnce(&mut Raw)) -> [u8; SECTOR] {
    let mut raw: Raw = zerocopy::transmute!(sample().encode().unwrap());
    change(&mut raw);
    raw.checksum = raw.checksum().into();
    zerocopy::transmute!(raw)
}

fn blamed(change: impl FnOnce(&mut Raw)) -> Field {
    match Identity::decode(&resealed(change)) {
        Err(Flaw::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

prop_compose! {
    fn identities()(
        store: [u8; 16],
        log in 1..=u64::MAX,
        topic in "[a-z0-9][a-z0-9._-]{0,199}",
        (partition, number, nonce, epoch) in (0..MAX_PARTITIONS, any::<u32>(), any::<u64>(), any::<u32>()),
        base in 0..MAX_OFFSET,
        predecessor in option::of((512..=u64::from(u32::MAX), 0..=u64::MAX)),
        gaps_allowed: bool,
        covers_to: Option<u64>,
        (pages, interval) in (4096..=MAX_CAPACITY / PAGE, INTERVALS),
    ) -> Identity {
        Identity {
            store, log, partition, number, nonce, epoch, base, gaps_allowed, covers_to,
            topic: TopicName::new(&topic).unwrap(),
            predecessor: predecessor.map(|(place8, next)| Predecessor {
                place: place8 * 8,
                next: next % (base + 1),
            }),
            layout: Layout::new(pages * PAGE, interval).unwrap(),
        }
    }
}

proptest! {
    #[test]
    fn what_went_in_comes_out(identity in identities()) {
        let sector = identity.encode().unwrap();
        prop_assert_eq!(Identity::decode(&sector), Ok(Some(identity)));
    }
}

#[test]
fn a_prepared_segment_is_nobodys_yet() {
    assert_eq!(Identity::decode(&[0; SECTOR]), Ok(None));
}

#[test]
fn every_flipped_bit_is_noticed_and_none_looks_like_a_later_version() {
    let sector = sample().encode().unwrap();
    for bit in 0..SECTOR * 8 {
        let mut sector = sector;
        sector[bit / 8] ^= 1 << (bit % 8);
        let flaw = Identity::decode(&sector).expect_err("a flipped bit");
        assert!(!flaw.is_unsupported(), "bit {bit} reads as {flaw:?}");
    }
    for bit in 0..SECTOR * 8 {
        let mut sector = [0; SECTOR];
        sector[bit / 8] ^= 1 << (bit % 8);
        assert!(
            Identity::decode(&sector).is_err(),
            "bit {bit} of an unassigned one"
        );
    }
}

/// D04: a sector of which only the beginning reached the disk.
#[test]
fn a_torn_sector_is_neither_unassigned_nor_whole() {
    let sector = sample().encode().unwrap();
    let end = 512 - sector.iter().rev().take_while(|byte| **byte == 0).count();
    for len in 1..end {
        let mut torn = [0; SECTOR];
        torn[..len].copy_from_slice(&sector[..len]);
        assert!(Identity::decode(&torn).is_err(), "{len} bytes");
    }
}

#[test]
fn a_later_version_is_not_damage() {
    let flaw = Identity::decode(&resealed(|raw| raw.version = 2.into())).unwrap_err();
    assert_eq!(flaw, Flaw::Version { found: 2, known: 1 });
    assert!(flaw.is_unsupported());
    // There was no version 0.
    assert_eq!(blamed(|raw| raw.version = 0.into()), Field::Version);

    for bit in 3..16 {
        let flags = GAPS_ALLOWED | HAS_PREDECESSOR | HAS_COVERS_TO | 1 << bit;
        let flaw = Identity::decode(&resealed(|raw| raw.flags = flags.into())).unwrap_err();
        assert!(flaw.is_unsupported());
        assert_eq!(
            flaw,
            Flaw::UnknownFlags {
                found: flags.into(),
                known: 7
            }
        );
    }
}

#[test]
fn another_kind_of_file_says_so() {
    let sector = resealed(|raw| raw.magic = *b"TIDERUN\0");
    assert!(matches!(Identity::decode(&sector), Err(Flaw::Magic { .. })));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    assert_eq!(blamed(|raw| raw.index_at = 0.into()), Field::IndexAt);
    assert_eq!(blamed(|raw| raw.index_at = 8192.into()), Field::IndexAt);
    for records_at in [0, 4095, 4097, 4104, 1 << 20, u64::MAX] {
        assert_eq!(
            blamed(|raw| raw.records_at = records_at.into()),
            Field::RecordsAt
        );
    }
    for capacity in [1, 4095, (1 << 20) + 8, MAX_CAPACITY + PAGE, u64::MAX] {
        assert_eq!(
            blamed(|raw| raw.capacity = capacity.into()),
            Field::Capacity
        );
    }
    for capacity in [0, 4096, 8192] {
        assert_eq!(
            blamed(|raw| raw.capacity = capacity.into()),
            Field::RecordsAt
        );
    }
    for interval in [0, 255, (1 << 20) + 1, u32::MAX] {
        assert_eq!(
            blamed(|raw| raw.interval = interval.into()),
            Field::Interval
        );
    }
    for partition in [MAX_PARTITIONS, u32::MAX] {
        assert_eq!(
            blamed(|raw| raw.partition = partition.into()),
            Field::Partition
        );
    }
    assert_eq!(blamed(|raw| raw.base = MAX_OFFSET.into()), Field::Base);
    assert_eq!(blamed(|raw| raw.base = 8_999.into()), Field::Predecessor);
    for place in [0, 4088, 8193, u64::MAX] {
        assert_eq!(
            blamed(|raw| raw.predecessor_place = place.into()),
            Field::Predecessor
        );
    }
    assert_eq!(blamed(|raw| raw.reserved[194] = 1), Field::Reserved);

    // Values whose flag says that there are none.
    assert_eq!(
        blamed(|raw| raw.flags = HAS_COVERS_TO.into()),
        Field::Predecessor
    );
    assert_eq!(
        blamed(|raw| raw.flags = HAS_PREDECESSOR.into()),
        Field::CoversTo
    );
}

#[test]
fn only_the_journal_has_no_name() {
    let nameless = |raw: &mut Raw| {
        raw.topic_len = 0;
        raw.topic = [0; MAX_NAME];
    };
    assert_eq!(blamed(nameless), Field::Topic);
    let journal = resealed(|raw| {
        nameless(raw);
        raw.log = 0.into();
    });
    let journal = Identity::decode(&journal).unwrap().unwrap();
    assert!(journal.topic.is_journal());

    for len in [1, 11, 13, 201, 255] {
        assert!(matches!(
            blamed(|raw| raw.topic_len = len),
            Field::Topic | Field::Reserved
        ));
    }
    for first in [b'.', b'/', b'A', 0, 0xff] {
        assert_eq!(blamed(|raw| raw.topic[0] = first), Field::Topic);
    }
}

#[test]
fn nothing_is_written_that_would_not_be_read() {
    let far = Identity {
        partition: MAX_PARTITIONS,
        ..sample()
    };
    assert!(far.encode().is_err());
    let last = Identity {
        partition: MAX_PARTITIONS - 1,
        ..sample()
    };
    assert_eq!(Identity::decode(&last.encode().unwrap()), Ok(Some(last)));
    let ahead = Identity {
        base: 8_999,
        ..sample()
    };
    assert!(ahead.encode().is_err());
    let nameless = Identity {
        topic: TopicName::JOURNAL,
        ..sample()
    };
    assert!(nameless.encode().is_err());
}
