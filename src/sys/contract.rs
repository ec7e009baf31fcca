//! The sentences of [`Storage`] and [`File`], held against every implementation.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sim::Sim;
use super::{Access, Backend, Disk, Entry, File, Kind, LockError, Mode, Storage, View, region};

/// Runs a check on the real disk, in both modes, and on the simulated one.
fn on_each(check: impl Fn(&dyn Storage, &Path)) {
    for mode in [Mode::Private, Mode::GroupReads] {
        let dir = tempfile::tempdir().unwrap();
        check(&Disk::new(mode), dir.path());
    }
    let sim = Sim::new(1);
    sim.create_dir(Path::new("/data")).unwrap();
    check(&sim, Path::new("/data"));
}

fn kind<T>(result: io::Result<T>) -> ErrorKind {
    result.map(drop).unwrap_err().kind()
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![1; usize::try_from(file.len().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

#[test]
fn a_new_file_reads_as_zeroes_and_keeps_what_is_written() {
    on_each(|disk, root| {
        let path = root.join("a");
        let file = disk.create(&path, 100_000).unwrap();
        assert!(content(&*file).iter().all(|b| *b == 0));
        file.write_at(b"bytes", 70_000).unwrap();
        file.sync().unwrap();
        disk.sync_dir(root).unwrap();
        drop(file);

        let file = disk.open(&path, Access::Read).unwrap();
        assert_eq!(&content(&*file)[70_000..70_005], b"bytes");
        let mut buf = [0; 16];
        assert_eq!(file.read_at(&mut buf, 99_990).unwrap(), 10);
        assert_eq!(file.read_at(&mut buf, 100_000).unwrap(), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
        file.write_at(b"x", 0).unwrap_err();
        file.grow(200_000).unwrap_err();
        assert_eq!(kind(disk.create(&path, 1)), ErrorKind::AlreadyExists);
        assert_eq!(content(&*file).len(), 100_000);
    });
}

#[test]
fn a_file_of_no_bytes_is_a_file() {
    on_each(|disk, root| {
        let file = disk.create(&root.join("empty"), 0).unwrap();
        assert!(file.is_empty().unwrap());
        assert_eq!(kind(file.map(Access::Read, 0)), ErrorKind::InvalidInput);
        file.sync().unwrap();
    });
}

#[test]
fn growing_adds_zeroes_and_never_shortens() {
    on_each(|disk, root| {
        let file = disk.create(&root.join("a"), 4096).unwrap();
        file.write_at(&[7; 4096], 0).unwrap();
        let map = file.map(Access::Read, 4096).unwrap();
        file.grow(50_000).unwrap();
        file.grow(10).unwrap();
        let bytes = content(&*file);
        assert_eq!(bytes.len(), 50_000);
        assert!(bytes[..4096].iter().all(|b| *b == 7));
        assert!(bytes[4096..].iter().all(|b| *b == 0));
        assert_eq!(map.len(), 4096);
        assert_eq!(file.map(Access::Write, 50_000).unwrap().len(), 50_000);
    });
}

#[test]
fn names_are_listed_sorted_with_their_kinds() {
    on_each(|disk, root| {
        assert_eq!(disk.list(root).unwrap(), []);
        disk.create_dir(&root.join("topics")).unwrap();
        disk.create(&root.join("b"), 1).unwrap();
        disk.create(&root.join("a"), 1).unwrap();
        let entry = |name: &str, kind| Entry {
            name: name.to_owned(),
            kind,
        };
        assert_eq!(
            disk.list(root).unwrap(),
            [
                entry("a", Kind::File),
                entry("b", Kind::File),
                entry("topics", Kind::Folder),
            ]
        );
        assert_eq!(disk.kind(&root.join("a")).unwrap(), Some(Kind::File));
        assert_eq!(disk.kind(&root.join("none")).unwrap(), None);
        assert_eq!(
            kind(disk.create_dir(&root.join("a"))),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            kind(disk.create_dir(&root.join("no/x"))),
            ErrorKind::NotFound
        );
        assert_eq!(
            kind(disk.create(&root.join("no/x"), 1)),
            ErrorKind::NotFound
        );
        assert_eq!(kind(disk.list(&root.join("no"))), ErrorKind::NotFound);
        assert_eq!(kind(disk.list(&root.join("a"))), ErrorKind::NotADirectory);
        assert_eq!(kind(disk.sync_dir(&root.join("no"))), ErrorKind::NotFound);
    });
}

#[test]
fn only_regular_files_are_opened() {
    on_each(|disk, root| {
        disk.create_dir(&root.join("folder")).unwrap();
        for access in [Access::Read, Access::Write] {
            assert_eq!(
                kind(disk.open(&root.join("none"), access)),
                ErrorKind::NotFound
            );
            assert_eq!(
                kind(disk.open(&root.join("folder"), access)),
                ErrorKind::InvalidInput
            );
        }
        assert_eq!(
            kind(disk.remove_file(&root.join("none"))),
            ErrorKind::NotFound
        );
    });
}

#[test]
fn a_rename_replaces_and_moves() {
    on_each(|disk, root| {
        let (a, b, folder) = (root.join("a"), root.join("b"), root.join("folder"));
        disk.create(&a, 1).unwrap().write_at(b"a", 0).unwrap();
        disk.create(&b, 1).unwrap().write_at(b"b", 0).unwrap();
        disk.rename(&a, &b).unwrap();
        assert_eq!(content(&*disk.open(&b, Access::Read).unwrap()), b"a");
        assert_eq!(disk.kind(&a).unwrap(), None);

        disk.create_dir(&folder).unwrap();
        disk.rename(&b, &folder.join("c")).unwrap();
        disk.rename(&folder, &root.join("moved")).unwrap();
        let moved = disk.open(&root.join("moved/c"), Access::Read).unwrap();
        assert_eq!(content(&*moved), b"a");
        assert_eq!(kind(disk.rename(&a, &b)), ErrorKind::NotFound);
        assert_eq!(
            kind(disk.rename(&root.join("moved"), &root.join("moved/in"))),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_removed_file_lives_on_where_it_is_open() {
    on_each(|disk, root| {
        let (folder, path) = (root.join("folder"), root.join("folder/a"));
        disk.create_dir(&folder).unwrap();
        let file = disk.create(&path, 4096).unwrap();
        let map = Arc::new(file.map(Access::Read, 4096).unwrap());
        let view = View::fixed(map, Arc::clone(&file), 0..4096).unwrap();
        assert_eq!(kind(disk.remove_dir(&folder)), ErrorKind::DirectoryNotEmpty);
        disk.remove_file(&path).unwrap();
        disk.sync_dir(&folder).unwrap();
        disk.remove_dir(&folder).unwrap();
        file.write_at(b"still", 0).unwrap();
        file.sync().unwrap();
        view.guard(0..4096).unwrap();
        assert_eq!(&view.bytes()[..5], b"still");
    });
}

#[test]
fn mapped_and_written_bytes_are_the_same_bytes() {
    for backend in [Backend::Mapped, Backend::Pwrite] {
        on_each(|disk, root| {
            let file = disk.create(&root.join("a"), 8192).unwrap();
            let map = Arc::new(file.map(Access::Write, 8192).unwrap());
            map.populate_write(4096..8192).unwrap();
            let (mut tail, view) = region(map, Arc::clone(&file), backend, 4096..8192, 0).unwrap();
            tail.append(16, |bytes| bytes[4..].fill(9), [(0, 16)])
                .unwrap();
            tail.publish();
            view.guard(0..4096).unwrap();
            assert_eq!(&content(&*file)[4096..4112], view.bytes());
            assert_eq!(view.bytes()[..5], [16, 0, 0, 0, 9]);

            let other = disk.open(&root.join("a"), Access::Read).unwrap();
            let map = Arc::new(other.map(Access::Read, 8192).unwrap());
            let (mut follower, seen) = region(map, other, Backend::Pwrite, 4096..8192, 0).unwrap();
            follower.adopt(16).unwrap();
            assert_eq!(seen.bytes(), view.bytes());
            file.sync().unwrap();
            file.drop_cached(0, 8192).unwrap();
            assert_eq!(&content(&*file)[4096..4112], view.bytes());
        });
    }
}

#[test]
fn nothing_is_mapped_past_the_end_or_beyond_its_access() {
    on_each(|disk, root| {
        disk.create(&root.join("a"), 4096).unwrap();
        let file = disk.open(&root.join("a"), Access::Read).unwrap();
        assert_eq!(kind(file.map(Access::Read, 4097)), ErrorKind::UnexpectedEof);
        assert_eq!(
            kind(file.map(Access::Write, 4096)),
            ErrorKind::PermissionDenied
        );
        let map = file.map(Access::Read, 4096).unwrap();
        assert_eq!(kind(map.populate_write(0..1)), ErrorKind::PermissionDenied);
        assert_eq!(kind(map.populate_read(0..4097)), ErrorKind::InvalidInput);
    });
}

#[test]
fn the_lock_has_one_holder_whom_the_others_can_name() {
    on_each(|disk, root| {
        let path = root.join("LOCK");
        assert_eq!(disk.holder(&path).unwrap(), None);
        let lock = disk.lock(&path, "a note\nof two lines").unwrap();
        let holder = disk.holder(&path).unwrap().unwrap();
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.note, "a note\nof two lines");
        let Err(LockError::Held { pid }) = disk.lock(&path, "") else {
            panic!("two holders");
        };
        assert_eq!(pid, Some(std::process::id()));

        lock.release().unwrap();
        lock.release().unwrap();
        assert_eq!(disk.holder(&path).unwrap(), None);
        let second = disk.lock(&path, "second").unwrap();
        drop(lock); // Released already: it takes nothing from the second.
        assert_eq!(disk.holder(&path).unwrap().unwrap().note, "second");
        drop(second);
        disk.lock(&path, "").unwrap();
    });
}

#[test]
fn space_and_counts_are_told() {
    on_each(|disk, root| {
        assert!(disk.free(root).unwrap() > 0);
        disk.backend(root).unwrap();
        assert!(disk.boot().is_some());
        let file = disk.create(&root.join("a"), 4096).unwrap();
        file.write_at(&[1; 100], 0).unwrap();
        file.read_at(&mut [0; 50], 0).unwrap();
        file.sync().unwrap();
        disk.sync_dir(root).unwrap();
        let stats = disk.stats();
        assert_eq!(
            (stats.bytes_written.get(), stats.bytes_read.get()),
            (100, 50)
        );
        assert_eq!((stats.syncs.get(), stats.dir_syncs.get()), (1, 1));
        assert_eq!((stats.creates.get(), stats.writes.get()), (1, 1));
    });
}

#[test]
fn a_file_too_large_for_the_disk_leaves_no_name() {
    on_each(|disk, root| {
        let path: PathBuf = root.join("huge");
        let error = disk.create(&path, 1 << 50).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::FileTooLarge
            ),
            "{error:?}"
        );
        assert_eq!(disk.kind(&path).unwrap(), None);
    });
}

#[test]
fn a_sync_of_the_volume_covers_bytes_and_names_of_every_file() {
    on_each(|disk, root| {
        let volume = disk.volume(root).unwrap();
        disk.create_dir(&root.join("folder")).unwrap();
        for name in ["a", "folder/b"] {
            let file = disk.create(&root.join(name), 4096).unwrap();
            file.write_at(b"bytes", 512).unwrap();
        }
        assert!(volume.holds(root).unwrap());
        volume.sync().unwrap();
        volume.sync().unwrap();
        assert_eq!(disk.stats().volume_syncs.get(), 2);
        assert_eq!(disk.stats().syncs.get(), 0);
        assert_eq!(kind(disk.volume(&root.join("no"))), ErrorKind::NotFound);
        let file = disk.open(&root.join("folder/b"), Access::Read).unwrap();
        assert_eq!(&content(&*file)[512..517], b"bytes");
    });
}
