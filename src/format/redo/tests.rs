use proptest::prelude::*;

use super::*;

fn stretch() -> impl Strategy<Value = Redo> {
    let numbers = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>());
    let place = (0..1_u64 << 40).prop_map(|place| place * 8);
    let frames = (0..20_usize).prop_map(|eights| vec![0x5a; eights * 8]);
    let identity = proptest::option::of(any::<u8>().prop_map(|byte| Box::new([byte; SECTOR])));
    (numbers, 0..1000_u64, place, frames, identity).prop_map(
        |((log, number, nonce, first), more, place, frames, identity)| Redo {
            of: Stretch {
                log,
                number,
                nonce,
                first,
                next: first.saturating_add(more),
                place,
            },
            identity,
            frames,
        },
    )
}

fn page(stretches: &[Redo]) -> Vec<u8> {
    let mut page = Vec::new();
    for stretch in stretches {
        stretch.encode(&mut page).unwrap();
    }
    page
}

proptest! {
    /// What is written is read, stretch by stretch.
    #[test]
    fn a_page_reads_as_it_was_written(stretches in prop::collection::vec(stretch(), 0..6)) {
        prop_assert_eq!(Redo::decode(&page(&stretches)), Ok(stretches));
    }

    /// No bytes make reading panic; what can be read is written as it was.
    #[test]
    fn any_bytes_are_read_whole_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(stretches) = Redo::decode(&bytes) {
            prop_assert_eq!(page(&stretches), bytes);
        }
    }

    /// A page that was cut short anywhere but between two stretches is refused.
    #[test]
    fn a_page_that_was_cut_is_refused(one in stretch(), at in any::<prop::sample::Index>()) {
        let whole = page(&[one]);
        let cut = 1 + at.index(whole.len() - 1);
        prop_assert!(Redo::decode(&whole[..cut]).is_err());
    }
}

/// Bytes that this version keeps zero are set: a later version wrote it, and it is not damage.
#[test]
fn reserved_bytes_that_are_set_are_unsupported() {
    let one = Redo {
        of: Stretch {
            log: 1,
            number: 0,
            nonce: 2,
            first: 0,
            next: 1,
            place: 4096,
        },
        identity: None,
        frames: vec![1; 8],
    };
    let mut bytes = page(&[one]);
    bytes[size_of::<RedoHead>() - 1] = 1;
    assert!(Redo::decode(&bytes).unwrap_err().is_unsupported());
}
