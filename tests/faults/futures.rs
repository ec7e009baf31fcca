//! Calls as futures: in a runtime of many threads, in one of a single thread, and in none.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_lite::{StreamExt, future};
use tidelog::{Durability, Error, Record, Start, Store, StoreOptions, Topic, TopicOptions};

use crate::faulty::{Call, Faulty};
use crate::kit::{BACKENDS, Place, one, payload, payloads};

const LIMIT: Duration = Duration::from_secs(60);

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.enable_time().build().unwrap()
}

fn open(place: &Place, disk: &Faulty) -> Store {
    let storage = Arc::new(disk.clone());
    Store::open_with(&place.root, StoreOptions::new().storage(storage)).unwrap()
}

/// A store with a topic whose log is open, and whose next two syncs wait to be let through.
fn stuck(place: &Place) -> (Faulty, Store, Topic) {
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(place, &disk);
    let topic = store.topic("a").unwrap();
    topic.append("the log is open").unwrap();
    disk.hold(Call::Sync, "topics/", &[None, None]);
    (disk, store, topic)
}

/// The store once whoever had it has let go of it.
fn reopened(place: &Place) -> Store {
    let mut again = None;
    crate::life::until(|| {
        again = Store::open(&place.root).ok();
        again.is_some()
    });
    again.unwrap()
}

fn poll<F: Future + ?Sized>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// A web server appends from many tasks on few threads: each record is durable when its task goes on,
/// and they share syncs.
#[test]
fn tasks_of_a_runtime_append_durably_and_share_syncs() {
    let place = Place::new();
    runtime(4).block_on(async {
        let store = Store::open_async(&place.root, StoreOptions::new())
            .await
            .unwrap();
        let topic = store.topic_async("a").await.unwrap();
        topic.append_async("the first").await.unwrap();
        let before = store.io().syncs.get();
        let tasks: Vec<_> = (0..200)
            .map(|number| {
                let topic = topic.clone();
                tokio::spawn(async move {
                    let at = topic.append_async(payload(number, 100)).await.unwrap();
                    let end = topic.partition(0).unwrap().end().unwrap();
                    assert!(at.offset() < end, "acknowledged, so durable");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let syncs = store.io().syncs.get() - before;
        assert!(syncs < 200, "{syncs} syncs for 200 records");
        assert_eq!(payloads(&one(&store, "a")).len(), 201);
        drop(topic);
        store.close_async().await.unwrap();
    });
}

/// On the only thread of a runtime one task appends more than may be unsettled, while the disk does not
/// answer: it waits, and another task on the same thread goes on.
#[test]
fn a_task_that_waits_for_the_disk_holds_up_no_other_task() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        let options = TopicOptions::new()
            .durability(Durability::Manual)
            .unsettled_bytes(64 << 10);
        let topic = store.create_topic("a", options).unwrap();
        topic.append_nowait("the log is open").unwrap();
        topic.flush().unwrap();
        disk.hold(Call::Sync, "topics/", &[None]);
        let other = async {
            while disk.waiting() == 0 {
                tokio::task::yield_now().await;
            }
            disk.release();
        };
        let append = async {
            for number in 0..40 {
                topic
                    .append_nowait_async(payload(number, 8 << 10))
                    .await
                    .unwrap();
            }
        };
        let both = async { tokio::join!(append, other) };
        runtime(1).block_on(async { tokio::time::timeout(LIMIT, both).await.unwrap() });
        future::block_on(topic.flush_async()).unwrap();
        assert_eq!(payloads(&one(&store, "a")).len(), 41);
        store.close().unwrap();
    }
}

/// The sync fails that was to make a record durable: its task is told that it is in doubt, and later
/// ones that the topic has failed.
#[test]
fn a_failed_sync_answers_the_futures_that_wait_for_it() {
    for backend in BACKENDS {
        let place = Place::new();
        let disk = Faulty::new(backend);
        let store = open(&place, &disk);
        let topic = store.topic("a").unwrap();
        topic.append("the log is open").unwrap();
        disk.answer(Call::Sync, "topics/", &[Some(libc::EIO)]);
        let answer = future::block_on(topic.append_async("in doubt"));
        assert!(matches!(answer, Err(Error::InDoubt { .. })), "{answer:?}");
        let answer = future::block_on(topic.append_async("refused"));
        assert!(matches!(answer, Err(Error::Failed { .. })), "{answer:?}");
    }
}

/// An ack is awaited, by value and by reference, with a batch over several partitions between; in a
/// topic that is synced by hand, that is an error until somebody has flushed.
#[test]
fn an_ack_can_be_awaited() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    let ack = topic.append_nowait("one").unwrap();
    assert_eq!(
        future::block_on(async { (&ack).await }).unwrap().offset(),
        0
    );
    assert_eq!(future::block_on(async { ack.await }).unwrap().offset(), 0);

    let spread = store
        .create_topic("b", TopicOptions::new().partitions(4))
        .unwrap();
    let records = (0..8).map(|number| Record::new("x").partition(number % 4));
    let positions = future::block_on(spread.append_batch_async(records)).unwrap();
    assert_eq!(positions.parts().len(), 4);

    let by_hand = TopicOptions::new().durability(Durability::Manual);
    let by_hand = store.create_topic("c", by_hand).unwrap();
    let answer = future::block_on(by_hand.append_async("no"));
    assert!(
        matches!(answer, Err(Error::NeedsFlush { .. })),
        "{answer:?}"
    );
    let ack = future::block_on(by_hand.append_nowait_async("one")).unwrap();
    let answer = future::block_on(async { (&ack).await });
    assert!(
        matches!(answer, Err(Error::NeedsFlush { .. })),
        "{answer:?}"
    );
    future::block_on(by_hand.partition(0).unwrap().flush_async()).unwrap();
    assert_eq!(future::block_on(async { ack.await }).unwrap().offset(), 0);
}

/// A stream yields what is there, then what comes, and ends with the topic; another is stopped while it
/// waits.
#[test]
fn a_stream_yields_what_comes_and_ends_with_its_topic() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    topic.append("0").unwrap();
    let stream = topic.follow(Start::Earliest).unwrap().into_stream();
    let stopped = topic.follow(Start::Latest).unwrap().into_stream();
    let stopper = stopped.stopper();
    runtime(2).block_on(async {
        let reader = tokio::spawn(
            stream
                .map(|record| record.unwrap().offset())
                .collect::<Vec<_>>(),
        );
        let other = tokio::spawn(stopped.count());
        for number in 1..50 {
            topic.append_async(payload(number, 10)).await.unwrap();
        }
        stopper.stop();
        assert!(other.await.unwrap() < 50);
        topic.finish_async().await.unwrap();
        let offsets = tokio::time::timeout(LIMIT, reader).await.unwrap().unwrap();
        assert_eq!(offsets, (0..50).collect::<Vec<_>>());
    });
}

/// A stream whose topic is deleted says so, and ends.
#[test]
fn a_stream_of_a_deleted_topic_says_so_and_ends() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    let mut stream = topic.follow(Start::Earliest).unwrap().into_stream();
    future::block_on(async {
        assert!(future::poll_once(stream.next()).await.is_none());
        store.delete_topic_async("a").await.unwrap();
        let answer = stream.next().await;
        assert!(
            matches!(answer, Some(Err(Error::TopicDeleted { .. }))),
            "{answer:?}"
        );
        assert!(stream.next().await.is_none());
    });
}

/// A follower is awaited record by record, and a subscription committed, paused, resumed and reset,
/// from a program without a runtime.
#[test]
fn a_subscription_is_kept_without_blocking() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    topic
        .append_batch(["0", "1", "2"].map(Record::new))
        .unwrap();
    future::block_on(async {
        let mut tail = topic.follow(Start::Offset(2)).unwrap();
        assert_eq!(tail.next_async().await.unwrap().unwrap().offset(), 2);
        let mut archive = topic.subscription("archive").open_async().await.unwrap();
        while archive.next().unwrap().is_some() {}
        archive.commit_async().await.unwrap();
        archive.pause_async().await.unwrap();
        assert!(archive.is_paused());
    });
    store.close().unwrap();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    future::block_on(async {
        let mut archive = topic.subscription("archive").open_async().await.unwrap();
        assert_eq!(archive.committed(0).unwrap(), 3);
        archive.resume_async().await.unwrap();
        archive.reset_async(Start::Offset(1)).await.unwrap();
        let next = archive.next().unwrap().unwrap().next();
        archive.commit_to_async(&next).await.unwrap();
        assert_eq!(archive.committed(0).unwrap(), 2);
    });
}

/// A program that may not block opens a store that it only reads, and its logs, and asks what would
/// expire.
#[test]
fn a_store_is_read_without_blocking() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let records = ["0", "1", "2"].map(Record::new);
    store.topic("a").unwrap().append_batch(records).unwrap();
    store.close().unwrap();
    future::block_on(async {
        let options = StoreOptions::new();
        let store = Store::open_read_only_async(&place.root, options).await;
        let store = store.unwrap();
        let topic = store.existing_topic("a").unwrap();
        let partition = topic.partition(0).unwrap();
        let early = tidelog::Timestamp::from_nanos(0);
        assert_eq!(partition.find_async(early).await.unwrap(), 0);
        assert_eq!(partition.read_async(1..9).await.unwrap().count(), 2);
        let mut cursor = partition.cursor_async(Start::Offset(1)).await.unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().offset(), 1);
        let mut tail = topic.follow_async(Start::Earliest).await.unwrap();
        assert_eq!(tail.next_async().await.unwrap().unwrap().offset(), 0);
        let mut tail = partition.follow_async(Start::Offset(2)).await.unwrap();
        assert_eq!(tail.next_async().await.unwrap().unwrap().offset(), 2);
        drop((cursor, tail));
        store.close_async().await.unwrap();
        let store = Store::open_async(&place.root, StoreOptions::new()).await;
        let store = store.unwrap();
        let topic = store.existing_topic("a").unwrap();
        assert_eq!(topic.audit_async().await.unwrap(), topic.audit().unwrap());
        assert_eq!(store.audit_async().await.unwrap(), store.audit().unwrap());
        store.close_async().await.unwrap();
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A hundred callers give up while a sync does not answer, and one waits on: the sync wakes that one and
/// no other, and what all of them had appended is there.
#[test]
fn futures_that_are_dropped_leave_nothing_behind() {
    let place = Place::new();
    let (disk, store, topic) = stuck(&place);
    let (given_up, patient) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let waker = Waker::from(Arc::clone(&given_up));
    for number in 0..100 {
        let mut append = pin!(topic.append_async(payload(number, 10)));
        assert!(poll(&mut append, &waker).is_pending());
    }
    let waker = Waker::from(Arc::clone(&patient));
    let mut append = pin!(topic.append_async("the last"));
    assert!(poll(&mut append, &waker).is_pending());
    disk.release();
    let woken = || patient.0.load(Ordering::Acquire) > 0;
    crate::life::until(woken);
    let Poll::Ready(at) = poll(&mut append, &waker) else {
        panic!("it was woken for nothing")
    };
    assert_eq!(at.unwrap().offset(), 101);
    assert_eq!(given_up.0.load(Ordering::Acquire), 0);
    assert_eq!(payloads(&one(&store, "a")).len(), 102);
}

/// The store is closed while futures wait: each is answered.
#[test]
fn closing_answers_the_futures_that_wait() {
    let place = Place::new();
    let store = Store::open(&place.root).unwrap();
    let topic = store.topic("a").unwrap();
    topic.append("0").unwrap();
    let stream = topic.follow(Start::Latest).unwrap().into_stream();
    runtime(2).block_on(async {
        let appends: Vec<_> = (0..50)
            .map(|number| {
                let topic = topic.clone();
                tokio::spawn(async move { topic.append_async(payload(number, 10)).await })
            })
            .collect();
        let reader = tokio::spawn(stream.collect::<Vec<_>>());
        tokio::time::timeout(LIMIT, store.close_async())
            .await
            .unwrap()
            .unwrap();
        let mut durable = 1;
        for append in appends {
            match tokio::time::timeout(LIMIT, append).await.unwrap().unwrap() {
                Ok(_) => durable += 1,
                Err(error) => assert!(matches!(error, Error::Closed), "{error}"),
            }
        }
        let read = tokio::time::timeout(LIMIT, reader).await.unwrap().unwrap();
        assert!(matches!(read.last(), Some(Err(Error::Closed))), "{read:?}");
        drop(topic);
        let store = Store::open(&place.root).unwrap();
        assert_eq!(payloads(&one(&store, "a")).len(), durable);
    });
}

/// A commit is stated and then nobody waits for it: the subscription knows all the same, and a smaller
/// one behind it changes nothing.
#[test]
fn a_commit_that_nobody_waits_for_is_not_undone() {
    let place = Place::new();
    let disk = Faulty::new(BACKENDS[0]);
    let store = open(&place, &disk);
    let topic = store.topic("a").unwrap();
    let records = (0..10).map(|number| Record::new(payload(number, 10)));
    topic.append_batch(records).unwrap();
    let mut archive = topic.subscribe("archive").unwrap();
    let first = archive.next().unwrap().unwrap().next();
    while archive.next().unwrap().is_some() {}
    disk.hold(Call::Sync, "journal/", &[None]);
    {
        let mut commit = pin!(archive.commit_async());
        let waker = Waker::from(Arc::new(Count::default()));
        assert!(poll(&mut commit, &waker).is_pending());
    }
    disk.release();
    archive.commit_to(&first).unwrap();
    assert_eq!(archive.committed(0).unwrap(), 10);
    drop((archive, topic));
    store.close().unwrap();
    let store = Store::open(&place.root).unwrap();
    let archive = store.topic("a").unwrap().subscribe("archive").unwrap();
    assert_eq!(archive.committed(0).unwrap(), 10);
}

/// A waker closes the store, on the thread that makes its record durable: it returns, and the store is
/// closed behind it.
#[test]
fn a_waker_may_close_the_store() {
    struct Closes(Mutex<Option<Store>>);
    impl Wake for Closes {
        fn wake(self: Arc<Self>) {
            let store = self.0.lock().unwrap().take().unwrap();
            store.close().unwrap();
        }
    }
    let place = Place::new();
    let (disk, store, topic) = stuck(&place);
    let waker = Waker::from(Arc::new(Closes(Mutex::new(Some(store)))));
    let mut append = pin!(topic.append_async("pending"));
    assert!(poll(&mut append, &waker).is_pending());
    disk.release();
    assert_eq!(payloads(&one(&reopened(&place), "a")).len(), 2);
}

type Pending = Pin<Box<dyn Future<Output = tidelog::Result<tidelog::Position>> + Send>>;

/// A task of a runtime that shuts down: waking it drops it.
struct Doomed(Mutex<Option<Pending>>);

impl Wake for Doomed {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
    }
}

/// The last handle of a store is in a task, which is dropped by its waker, on the very thread of the
/// store that made its record durable: the store is closed all the same, and can be opened again.
#[test]
fn the_last_handle_may_be_dropped_by_a_waker() {
    let place = Place::new();
    let (disk, store, topic) = stuck(&place);
    let ack = topic.append_nowait("pending").unwrap();
    drop((topic, store));
    let task = Arc::new(Doomed(Mutex::new(Some(ack.into_future()))));
    let waker = Waker::from(Arc::clone(&task));
    let mut future = task.0.lock().unwrap();
    let polled = poll(&mut future.as_mut().unwrap().as_mut(), &waker);
    drop(future);
    assert!(polled.is_pending());
    drop((task, waker));
    disk.release();
    assert_eq!(payloads(&one(&reopened(&place), "a")).len(), 2);
}
