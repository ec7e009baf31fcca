//! One tail, many views, on memory that Miri can watch.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::thread;

use super::tail::LARGE;
use super::{AppendError, Heap, Map, Tail, View, region};
use crate::sys::{Access, Backend, File};

/// A file that is a piece of memory, and can be told to fail.
#[derive(Debug)]
struct Memory {
    heap: Heap,
    len: Mutex<u64>,
    fail: Mutex<Option<ErrorKind>>,
}

impl Memory {
    fn new(len: usize) -> Arc<Self> {
        Arc::new(Self {
            heap: Heap::new(len).unwrap(),
            len: Mutex::new(len as u64),
            fail: Mutex::new(None),
        })
    }
}

impl File for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(*self.len.lock().unwrap())
    }

    fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        self.heap.copy_out(place as usize, buf)?;
        Ok(buf.len())
    }

    fn write_at(&self, buf: &[u8], place: u64) -> io::Result<()> {
        if let Some(kind) = *self.fail.lock().unwrap() {
            self.heap.copy_in(place as usize, &buf[..buf.len() / 2])?;
            return Err(kind.into());
        }
        self.heap.copy_in(place as usize, buf)
    }

    fn grow(&self, _len: u64) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self, access: Access, len: u64) -> io::Result<Map> {
        Map::shared(self.heap.clone(), len as usize, access == Access::Write)
    }
}

/// A region over all of `len` bytes, in each of the three ways bytes can get there.
fn ways(len: usize) -> Vec<(Tail, View)> {
    let file = Memory::new(len);
    let plain = Arc::new(Map::heap(len).unwrap());
    let shared = Arc::new(file.map(Access::Write, len as u64).unwrap());
    let read_only = Arc::new(file.map(Access::Read, len as u64).unwrap());
    let make = |map, backend| region(map, Memory::new(0), backend, 0..len as u64, 0).unwrap();
    let own = Memory::new(len);
    let own_map = Arc::new(own.map(Access::Read, len as u64).unwrap());
    drop(read_only);
    vec![
        make(plain, Backend::Mapped),
        make(shared, Backend::Mapped),
        region(own_map, own, Backend::Pwrite, 0..len as u64, 0).unwrap(),
    ]
}

fn frame(tail: &mut Tail, byte: u8, len: usize) -> Result<(), AppendError> {
    tail.append(
        len,
        |bytes| bytes[4..].fill(byte),
        [(0, u32::try_from(len).unwrap())],
    )
}

#[test]
fn views_see_what_is_published_and_no_more() {
    for (mut tail, view) in ways(4096) {
        frame(&mut tail, 7, 16).unwrap();
        assert_eq!(view.bytes(), b"");
        assert_eq!((tail.written_end(), tail.published()), (16, 0));
        tail.publish();
        let mut wanted = vec![7; 16];
        wanted[..4].copy_from_slice(&16u32.to_le_bytes());
        assert_eq!(view.bytes(), wanted);

        let earlier = view.bytes();
        frame(&mut tail, 8, 16).unwrap();
        tail.publish();
        assert_eq!(earlier, wanted);
        assert_eq!(&view.bytes()[20..], [8; 12]);
        assert_eq!(tail.room(), 4096 - 32);
    }
}

/// A batch that is large enough to go through the file of a mapped region: views see all of it, the
/// small ones round it too, and where the write fails its last word is not there.
#[test]
fn a_large_batch_goes_through_the_file_and_its_last_word_through_the_mapping() {
    let file = Memory::new(4 * LARGE);
    let map = Arc::new(file.map(Access::Write, 4 * LARGE as u64).unwrap());
    let range = 8..4 * LARGE as u64;
    let (mut tail, view) = region(map, file.clone(), Backend::Mapped, range, 0).unwrap();
    frame(&mut tail, 1, 24).unwrap();
    frame(&mut tail, 2, LARGE).unwrap();
    frame(&mut tail, 3, 24).unwrap();
    tail.publish();
    let bytes = view.bytes();
    assert_eq!(bytes.len(), LARGE + 48);
    assert_eq!(bytes[24..28], u32::try_from(LARGE).unwrap().to_le_bytes());
    assert!(bytes[28..24 + LARGE].iter().all(|byte| *byte == 2));
    assert_eq!(bytes[LARGE + 28..], [3; 20]);

    *file.fail.lock().unwrap() = Some(ErrorKind::StorageFull);
    frame(&mut tail, 4, 24).unwrap();
    tail.publish();
    let failed = frame(&mut tail, 5, LARGE);
    assert!(matches!(failed, Err(AppendError::Io(_))), "{failed:?}");
    assert!(tail.is_broken());
    let mut word = [1; 8];
    file.read_at(&mut word, LARGE as u64 + 80).unwrap();
    assert_eq!(word, [0, 0, 0, 0, 5, 5, 5, 5]);
}

#[test]
fn the_last_bytes_fit_exactly_and_one_more_does_not() {
    for (mut tail, view) in ways(64) {
        frame(&mut tail, 1, 56).unwrap();
        assert!(matches!(
            frame(&mut tail, 2, 16),
            Err(AppendError::NoRoom {
                needed: 16,
                room: 8
            })
        ));
        frame(&mut tail, 3, 8).unwrap();
        tail.publish();
        assert_eq!((view.published(), tail.room()), (64, 0));
        frame(&mut tail, 4, 4).unwrap_err();
    }
}

#[test]
fn a_failed_write_breaks_the_tail_and_is_never_written_over() {
    let file = Memory::new(4096);
    let map = Arc::new(file.map(Access::Read, 4096).unwrap());
    let (mut tail, view) = region(map, file.clone(), Backend::Pwrite, 0..4096, 0).unwrap();
    frame(&mut tail, 1, 16).unwrap();
    tail.publish();

    *file.fail.lock().unwrap() = Some(ErrorKind::StorageFull);
    assert!(matches!(
        frame(&mut tail, 2, 16),
        Err(AppendError::Io(e)) if e.kind() == ErrorKind::StorageFull
    ));
    *file.fail.lock().unwrap() = None;
    assert!(matches!(frame(&mut tail, 3, 16), Err(AppendError::Broken)));
    tail.publish();
    assert_eq!((view.published(), tail.written_end()), (16, 16));
    assert!(tail.is_broken());
}

#[test]
fn a_misplaced_word_breaks_the_tail() {
    for bad in [2, 16, usize::MAX] {
        for (mut tail, view) in ways(64) {
            let done = tail.append(16, |_| (), [(bad, 1)]);
            assert!(matches!(done, Err(AppendError::BadWord(b)) if b == bad));
            assert!(tail.is_broken());
            tail.publish();
            assert_eq!(view.published(), 0);
        }
    }
}

#[test]
fn a_panic_in_the_middle_of_a_record_breaks_the_tail() {
    for (mut tail, _view) in ways(64) {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tail.append(16, |_| panic!("the caller's key function"), [])
        }));
        assert!(panicked.is_err());
        assert!(matches!(frame(&mut tail, 1, 16), Err(AppendError::Broken)));
    }
}

#[test]
fn regions_that_overlap_or_lie_outside_are_refused() {
    let file = Memory::new(8192);
    let map = Arc::new(file.map(Access::Write, 8192).unwrap());
    let make = |range, published| {
        region(map.clone(), file.clone(), Backend::Mapped, range, published).map(drop)
    };
    make(0..4096, 100).unwrap();
    make(4096..8192, 0).unwrap();
    for (range, published) in [(4088..4104, 0), (0..4096, 0)] {
        assert_eq!(
            make(range, published).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    View::fixed(map.clone(), file.clone(), 0..8).unwrap_err();

    let sealed = Arc::new(file.map(Access::Read, 8192).unwrap());
    View::fixed(sealed.clone(), file.clone(), 0..4096).unwrap();
    View::fixed(sealed.clone(), file.clone(), 8..8192).unwrap();
    let make = |backend, range, published| {
        region(sealed.clone(), file.clone(), backend, range, published).unwrap_err()
    };
    for error in [
        make(Backend::Pwrite, 0..4096, 0),
        make(Backend::Mapped, 8192..8192, 0),
        make(Backend::Pwrite, 0..8193, 0),
        make(Backend::Pwrite, 4..16, 0),
        make(Backend::Pwrite, 0..16, 17),
        make(Backend::Pwrite, 0..u64::MAX, 0),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_file_cut_short_and_a_bad_sector_are_errors() {
    let len: u64 = if cfg!(miri) { 8192 } else { 3 << 20 };
    let file = Memory::new(len as usize);
    let map = Arc::new(file.map(Access::Read, len).unwrap());
    let view = View::fixed(map, file.clone(), 8..len).unwrap();
    view.guard(0..16).unwrap();

    *file.len.lock().unwrap() = len - 1;
    let cut = view.guard(len - 9..len - 8);
    if cfg!(miri) {
        cut.unwrap(); // All of it is one MiB, touched above.
        return;
    }
    assert_eq!(cut.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    view.guard(0..1 << 20).unwrap();
    *file.len.lock().unwrap() = len;
    file.heap.spoil(2 << 20..(2 << 20) + 512);
    view.guard(0..len - 8).unwrap_err();
    assert_eq!(
        view.guard(len..len + 1).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn readers_follow_a_writer_while_a_sync_looks_on() {
    let frames = if cfg!(miri) { 12 } else { 2000 };
    for (mut tail, view) in ways(16 * frames) {
        thread::scope(|scope| {
            for _ in 0..2 {
                let view = view.clone();
                scope.spawn(move || {
                    let mut seen = 0;
                    while seen < frames {
                        let bytes = view.bytes();
                        for (i, frame) in bytes.chunks(16).enumerate().skip(seen) {
                            assert_eq!(frame[..4], 16u32.to_le_bytes());
                            assert!(frame[4..].iter().all(|b| *b == i as u8));
                        }
                        seen = bytes.len() / 16;
                        thread::yield_now();
                    }
                });
            }
            if let super::map::Memory::Heap { heap, shared: true } = &view.region.map.memory {
                let heap = heap.clone();
                scope.spawn(move || {
                    let mut bytes = vec![0; 16 * frames];
                    for _ in 0..3 {
                        heap.copy_out(0, &mut bytes).unwrap();
                        thread::yield_now();
                    }
                });
            }
            for i in 0..frames {
                frame(&mut tail, i as u8, 16).unwrap();
                tail.publish();
            }
        });
    }
}

#[test]
fn a_follower_sees_what_it_adopts() {
    let file = Memory::new(4096);
    let map = |access| Arc::new(file.map(access, 4096).unwrap());
    let (mut tail, _) = region(
        map(Access::Write),
        file.clone(),
        Backend::Mapped,
        0..4096,
        0,
    )
    .unwrap();
    let (mut follower, view) =
        region(map(Access::Read), file.clone(), Backend::Pwrite, 0..4096, 0).unwrap();
    frame(&mut tail, 5, 16).unwrap();
    follower.adopt(16).unwrap();
    follower.adopt(8).unwrap();
    follower.adopt(5000).unwrap_err();
    assert_eq!(&view.bytes()[4..], [5; 12]);
}

/// Bytes that are kept outlive tail and view, while the tail goes on writing behind them.
#[test]
fn kept_bytes_outlive_their_view() {
    for (backend, access) in [
        (Backend::Mapped, Access::Write),
        (Backend::Pwrite, Access::Read),
    ] {
        let file = Memory::new(4096);
        let map = Arc::new(file.map(access, 4096).unwrap());
        let (mut tail, view) = region(map, file, backend, 0..4096, 0).unwrap();
        frame(&mut tail, 7, 64).unwrap();
        assert!(view.keep(0..64).is_err(), "not published yet");
        tail.publish();
        let kept = view.keep(8..64).unwrap();
        drop(view);
        let reader = thread::spawn(move || kept.as_ref().iter().all(|byte| *byte == 7));
        frame(&mut tail, 9, 64).unwrap();
        tail.publish();
        drop(tail);
        assert!(reader.join().unwrap());
    }
}
