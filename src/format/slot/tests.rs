use proptest::prelude::*;

use super::*;

fn seed() -> Seed {
    Seed::new(&[1; 16], 17, 2, 0xfeed)
}

fn sample() -> Slot {
    Slot {
        is_final: true,
        generation: 6,
        place: 8_200,
        next: 9_001,
        records: 1,
        greatest: Some(-5),
        epoch: 12,
        last_append: Some(1_700_000_000_000_000_000),
        index_entries: 1,
        index_checksum: 0xdead_beef,
    }
}

/// The sample's sector, changed, with a checksum that agrees.
fn resealed(change: impl FnOnce(&mut Raw)) -> [u8; SECTOR] {
    let mut raw: Raw = zerocopy::transmute!(sample().encode(seed()).unwrap());
    change(&mut raw);
    raw.checksum = raw.checksum(seed()).into();
    zerocopy::transmute!(raw)
}

fn blamed(change: impl FnOnce(&mut Raw)) -> Field {
    match Slot::decode(&resealed(change), seed()) {
        Err(Flaw::Field { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

prop_compose! {
    fn slots()(
        is_final: bool,
        (generation, records) in any::<(u64, u64)>(),
        place8 in (PAGE / 8)..=(MAX_CAPACITY / 8),
        next in 0..=MAX_OFFSET,
        (greatest, last_append) in any::<(Option<i64>, Option<i64>)>(),
        (epoch, index_entries, index_checksum) in any::<(u32, u32, u32)>(),
    ) -> Slot {
        Slot {
            is_final, generation, next, records, greatest, epoch, last_append,
            index_entries, index_checksum, place: place8 * 8,
        }
    }
}

proptest! {
    #[test]
    fn what_went_in_comes_out(slot in slots()) {
        let sector = slot.encode(seed()).unwrap();
        prop_assert_eq!(Slot::decode(&sector, seed()), Ok(Some(slot)));
    }
}

#[test]
fn every_flipped_bit_makes_it_none() {
    let sector = sample().encode(seed()).unwrap();
    for bit in 0..SECTOR * 8 {
        let mut sector = sector;
        sector[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Slot::decode(&sector, seed()), Ok(None), "bit {bit}");
    }
}

#[test]
fn a_sector_never_written_or_of_another_life_holds_none() {
    assert_eq!(Slot::decode(&[0; SECTOR], seed()), Ok(None));
    let sector = sample().encode(seed()).unwrap();
    for other in [
        Seed::new(&[2; 16], 17, 2, 0xfeed),
        Seed::new(&[1; 16], 18, 2, 0xfeed),
        Seed::new(&[1; 16], 17, 3, 0xfeed),
        Seed::new(&[1; 16], 17, 2, 0xfeee),
    ] {
        assert_eq!(Slot::decode(&sector, other), Ok(None));
    }
}

#[test]
fn a_flag_of_a_later_version_is_not_damage() {
    for bit in 3..32 {
        let flags = FINAL | HAS_GREATEST | HAS_LAST_APPEND | 1 << bit;
        let flaw = Slot::decode(&resealed(|raw| raw.flags = flags.into()), seed()).unwrap_err();
        assert!(flaw.is_unsupported());
        assert_eq!(
            flaw,
            Flaw::UnknownFlags {
                found: flags,
                known: 7
            }
        );
    }
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    for place in [0, 4088, 8_201, MAX_CAPACITY + 8, u64::MAX] {
        assert_eq!(blamed(|raw| raw.place = place.into()), Field::Place);
        assert!(Slot { place, ..sample() }.encode(seed()).is_err());
    }
    for next in [MAX_OFFSET + 1, u64::MAX] {
        assert_eq!(blamed(|raw| raw.next = next.into()), Field::NextOffset);
        assert!(Slot { next, ..sample() }.encode(seed()).is_err());
    }
    assert_eq!(
        blamed(|raw| raw.flags = HAS_LAST_APPEND.into()),
        Field::Greatest
    );
    assert_eq!(
        blamed(|raw| raw.flags = HAS_GREATEST.into()),
        Field::LastAppend
    );
    assert_eq!(blamed(|raw| raw.reserved[0] = 1), Field::Reserved);
}

#[test]
fn the_later_of_two_counts_and_the_other_is_written_next() {
    let of = |generation| {
        Some(Slot {
            generation,
            ..sample()
        })
    };
    for (a, b, slot, write_next) in [
        (None, None, None, Sector::A),
        (of(0), None, of(0), Sector::B),
        (None, of(0), of(0), Sector::A),
        (of(1), of(2), of(2), Sector::A),
        (of(3), of(2), of(3), Sector::B),
        (of(u64::MAX), of(0), of(u64::MAX), Sector::B),
    ] {
        assert_eq!(choose(a, b), Choice { slot, write_next });
    }
}

#[test]
fn each_has_its_sector_of_the_header_page() {
    let page: Vec<u8> = (0..8_u8).flat_map(|sector| [sector; SECTOR]).collect();
    for (sector, number) in [(Sector::A, 1), (Sector::B, 2), (Sector::Seal, 3)] {
        assert_eq!(sector.of(&page), Some(&[number; SECTOR]));
        assert_eq!(sector.place(), u64::from(number) * 512);
    }
    assert_eq!(Sector::Seal.of(&page[..2047]), None);
    assert_eq!(Sector::A.of(&[]), None);
}
