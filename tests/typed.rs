//! Values in place of payloads.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelog::{Codec, Error, Start, Store};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Quake {
    place: String,
    magnitude: f64,
}

fn quake(magnitude: f64) -> Quake {
    Quake {
        place: "Volcano, Hawaii".to_owned(),
        magnitude,
    }
}

/// Values are appended in each of the ways there are, and read in each: they come as they went, with
/// the key of the record that they stand in.
#[test]
fn values_come_as_they_went() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let quakes = store.topic("quakes").unwrap().typed::<Quake>();
    quakes.append(&quake(1.0)).unwrap();
    quakes.append_nowait(&quake(2.0)).unwrap().wait().unwrap();
    quakes.append_batch(&[quake(3.0), quake(4.0)]).unwrap();
    futures_lite::future::block_on(quakes.append_async(&quake(5.0))).unwrap();
    let record = quakes.record(&quake(6.0)).unwrap().key("hv");
    quakes.topic().append_and_finish([record]).unwrap();
    let expected: Vec<_> = (1..7).map(|it| quake(f64::from(it))).collect();

    let read = quakes.read(0, 0..u64::MAX).unwrap();
    let read: Vec<_> = read.map(|it| it.unwrap()).collect();
    assert_eq!(read[5].record.key(), Some(&b"hv"[..]));
    assert_eq!(
        read.iter().map(|it| it.value.clone()).collect::<Vec<_>>(),
        expected
    );
    let followed = quakes.follow(Start::Earliest).unwrap();
    assert_eq!(
        followed.map(|it| it.unwrap().value).collect::<Vec<_>>(),
        expected
    );
    let mut archive = quakes.subscribe("archive").unwrap();
    for expected in &expected {
        assert_eq!(archive.next().unwrap().unwrap().value, *expected);
    }
    assert!(archive.next().unwrap().is_none());
    archive.commit().unwrap();
    assert_eq!(archive.subscription().committed(0).unwrap(), 6);
    drop(archive);
    store.close().unwrap();
}

/// A value that JSON has no words for is refused before anything is written, and takes its batch
/// with it.
#[test]
fn a_value_that_cannot_be_encoded_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let odd = store.topic("odd").unwrap().typed::<BTreeMap<Vec<u8>, u8>>();
    let (none, some) = (BTreeMap::new(), BTreeMap::from([(vec![1], 1)]));
    let refused = [
        odd.append(&some).map(drop),
        odd.append_nowait(&some).map(drop),
        odd.append_batch([&none, &some]).map(drop),
    ];
    for refused in refused {
        match refused {
            Err(Error::NotEncoded { topic, .. }) => assert_eq!(topic, "odd"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(odd.topic().partition(0).unwrap().end().unwrap(), 0);
    store.close().unwrap();
}

/// Something else than a value stands in the topic. Each reader is told where, and goes on behind it.
#[test]
fn what_cannot_be_decoded_has_its_position_and_readers_go_on_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let quakes = store.topic("quakes").unwrap().typed::<Quake>();
    quakes.append(&quake(1.0)).unwrap();
    quakes.topic().append("static").unwrap();
    quakes.append(&quake(3.0)).unwrap();
    let check = |found: Vec<tidelog::Result<f64>>| {
        assert_eq!(found.len(), 3);
        assert_eq!(
            (*found[0].as_ref().unwrap(), *found[2].as_ref().unwrap()),
            (1.0, 3.0)
        );
        match &found[1] {
            Err(Error::NotDecoded {
                topic,
                partition: 0,
                offset: 1,
                ..
            }) => {
                assert_eq!(topic, "quakes");
            }
            other => panic!("{other:?}"),
        }
    };
    let read = quakes.read(0, 0..u64::MAX).unwrap();
    check(read.map(|it| Ok(it?.value.magnitude)).collect());
    let mut tail = quakes.follow(Start::Earliest).unwrap();
    let mut next = || {
        Ok(tail
            .next_timeout(Duration::from_secs(60))?
            .unwrap()
            .value
            .magnitude)
    };
    check(vec![next(), next(), next()]);
    let mut tail = quakes.follow(Start::Earliest).unwrap();
    check(
        tail.by_ref()
            .take(3)
            .map(|it| Ok(it?.value.magnitude))
            .collect(),
    );
    let mut archive = quakes.subscribe("archive").unwrap();
    let mut next = || Ok(archive.next()?.unwrap().value.magnitude);
    check(vec![next(), next(), next()]);
    drop(archive);
    store.close().unwrap();
}

/// Numbers as four bytes.
#[derive(Debug)]
struct Fixed;

impl Codec<u32> for Fixed {
    fn encode(&self, value: &u32) -> Result<Vec<u8>, tidelog::Failure> {
        Ok(value.to_le_bytes().to_vec())
    }

    fn decode(&self, payload: &[u8]) -> Result<u32, tidelog::Failure> {
        Ok(u32::from_le_bytes(payload.try_into()?))
    }
}

/// The program brings a codec of its own: the payloads are what that makes of the values.
#[test]
fn another_codec_makes_other_payloads() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("data")).unwrap();
    let ticks = store.topic("ticks").unwrap().typed_by(Fixed);
    ticks.append(&7).unwrap();
    let tick = ticks.read(0, 0..1).unwrap().next().unwrap().unwrap();
    assert_eq!((tick.value, tick.record.payload()), (7, &[7, 0, 0, 0][..]));
    store.close().unwrap();
}
