//! A subscription has one holder, whatever process he is in.

use tidelog::{Error, Position, Store};

use crate::child::{Other, part};
use crate::kit::{append, asked, opened, reader, small};

/// Row D18: one process holds a subscription and commits 60. Another one that wants the name is refused,
/// as an owner and as a reader, and so is what it would commit; the place is 60, for both, and for who
/// owns the store next.
#[test]
fn a_name_that_another_process_holds_is_refused() {
    if let Some(folder) = part() {
        let store = Store::open(folder.join("store")).unwrap();
        let topic = store.create_topic("quakes", small()).unwrap();
        append(&topic, 100, 100);
        let mut archive = topic.subscribe("archive").unwrap();
        (0..60).for_each(|_| assert!(archive.next().unwrap().is_some()));
        archive.commit().unwrap();
        println!("committed");
        return asked();
    }
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("store");
    let mut other = Other::start(
        "names::a_name_that_another_process_holds_is_refused",
        dir.path(),
    );
    other.says("committed");
    let owner = Store::open(&place);
    assert!(matches!(owner, Err(Error::Locked { .. })), "{owner:?}");
    let store = reader(&place);
    let topic = opened(&store, "quakes");
    let refused = topic.subscribe("archive");
    assert!(
        matches!(refused, Err(Error::ReadOnly { .. })),
        "{refused:?}"
    );
    assert_eq!(topic.subscriptions().unwrap()[0].committed, [60]);
    store.close().unwrap();
    other.kill();

    let store = Store::open(&place).unwrap();
    let topic = store.existing_topic("quakes").unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    let position: Position = archive.next().unwrap().unwrap().position();
    assert_eq!(position.offset(), 60);
    // A commit of less changes nothing.
    let fifty = topic.partition(0).unwrap().read(49..50).unwrap().next();
    let fifty = fifty.unwrap().unwrap().position().next();
    archive.commit_to(&fifty).unwrap();
    assert_eq!(archive.committed(0).unwrap(), 60);
    drop((archive, topic));
    store.close().unwrap();
}
