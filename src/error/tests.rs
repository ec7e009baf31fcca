//! What errors say, and where they can go.

use super::*;

#[test]
fn errors_read_as_sentences_with_coordinates() {
    let error = Error::OffsetExpired {
        topic: "quakes".into(),
        partition: 2,
        asked: 7,
        first: 40,
    };
    assert_eq!(
        error.to_string(),
        "quakes/2@7 has expired: the first offset there is 40"
    );
    let full = Error::io("write", "x", io::Error::from(io::ErrorKind::StorageFull));
    assert!(matches!(full, Error::StorageFull { .. }), "{full}");
    let told = |error: &Error| error.to_string();
    assert!(told(&full).starts_with("x: no space ("), "{full}");
    let full = full.needing(64);
    assert!(
        told(&full).starts_with("x: no space for 64 bytes ("),
        "{full}"
    );
    let other = Error::io("write", "x", io::Error::from_raw_os_error(5));
    assert!(matches!(other, Error::Io { op: "write", .. }), "{other}");
}

#[test]
fn an_error_can_cross_threads() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<Error>();
}
