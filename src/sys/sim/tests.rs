//! What the simulated disk forgets, and that it does so by its seed alone.

use std::path::Path;
use std::sync::Arc;

use super::{Call, Crash, Fault, Keep, Sim, When, is_crash};
use crate::sys::{Access, Backend, File, Kind, Storage, View, region};

fn path(path: &str) -> &Path {
    Path::new(path)
}

/// A file of four sectors whose name and bytes are durable.
fn durable_file(sim: &Sim) -> Arc<dyn File> {
    let file = sim.create(path("/a"), 2048).unwrap();
    file.write_at(&[1; 2048], 0).unwrap();
    file.sync().unwrap();
    sim.sync_dir(path("/")).unwrap();
    file
}

fn cut(sim: &Sim, keep: Keep) -> Vec<u8> {
    sim.crash(Crash::Cut(keep)).unwrap();
    sim.bytes(path("/a")).unwrap()
}

#[test]
fn a_cut_keeps_what_was_synced_and_chooses_from_the_rest() {
    for (keep, wanted) in [(Keep::Nothing, 1), (Keep::Everything, 2)] {
        let sim = Sim::new(1);
        let file = durable_file(&sim);
        file.write_at(&[2; 1024], 0).unwrap();
        let bytes = cut(&sim, keep);
        assert!(bytes[..1024].iter().all(|b| *b == wanted));
        assert!(bytes[1024..].iter().all(|b| *b == 1));
    }
    let sim = Sim::new(5);
    let file = sim.create(path("/a"), 512 * 1000).unwrap();
    file.sync().unwrap();
    sim.sync_dir(path("/")).unwrap();
    file.write_at(&vec![2; 512 * 1000], 0).unwrap();
    let bytes = cut(&sim, Keep::Half);
    let kept = bytes.chunks(512).filter(|sector| sector[0] == 2).count();
    assert!((400..600).contains(&kept), "{kept}");
    assert!(
        bytes
            .chunks(512)
            .all(|sector| sector.iter().all(|b| *b == sector[0]))
    );
}

#[test]
fn stores_through_a_mapping_are_as_easily_lost_as_writes() {
    for (keep, wanted) in [(Keep::Nothing, 0), (Keep::Everything, 7)] {
        let sim = Sim::new(1);
        let file = sim.create(path("/a"), 4096).unwrap();
        file.sync().unwrap();
        sim.sync_dir(path("/")).unwrap();
        let map = Arc::new(file.map(Access::Write, 4096).unwrap());
        let (mut tail, view) = region(map, file, Backend::Mapped, 0..4096, 0).unwrap();
        tail.append(512, |bytes| bytes.fill(7), []).unwrap();
        tail.publish();
        let bytes = cut(&sim, keep);
        assert_eq!(bytes[100], wanted);

        // The dead process's mapping stays readable, and reaches nobody.
        assert_eq!(view.bytes()[100], 7);
        tail.append(512, |bytes| bytes.fill(8), []).unwrap();
        assert_eq!(sim.bytes(path("/a")).unwrap()[512], 0);
    }
}

#[test]
fn a_kill_keeps_the_cache_and_the_boot() {
    let sim = Sim::new(1);
    let file = sim.create(path("/a"), 512).unwrap();
    let _lock = sim.lock(path("/LOCK"), "").unwrap();
    file.write_at(&[3; 512], 0).unwrap();
    let boot = sim.boot();
    sim.crash(Crash::Kill).unwrap();
    assert_eq!(sim.boot(), boot);
    assert!(is_crash(&file.sync().unwrap_err()));
    sim.lock(path("/LOCK"), "").unwrap();
    assert_eq!(sim.bytes(path("/a")).unwrap(), [3; 512]);

    // But it was never synced: the next cut may take it.
    let report = sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
    assert!(report.unsynced_sectors >= 1 && report.unsynced_names == 2);
    assert_ne!(sim.boot(), boot);
    assert_eq!(sim.list(path("/")).unwrap(), []);
}

/// The kernel marks pages clean when a sync fails: later syncs succeed, and the bytes are gone.
#[test]
fn a_sync_after_a_failed_one_proves_nothing() {
    let mut lost = 0;
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let file = durable_file(&sim);
        file.write_at(&[2; 2048], 0).unwrap();
        sim.fail(Fault::new(Call::Sync, When::Nth(0), libc::EIO));
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(sim.bytes(path("/a")).unwrap(), [2; 2048]);
        lost += cut(&sim, Keep::Everything)
            .iter()
            .filter(|b| **b == 1)
            .count();
    }
    assert!((512 * 40..512 * 72).contains(&lost), "{lost}");
}

#[test]
fn what_is_written_again_after_a_failed_sync_is_synced() {
    let sim = Sim::new(3);
    let file = durable_file(&sim);
    file.write_at(&[2; 2048], 0).unwrap();
    sim.fail(Fault::new(Call::Sync, When::Nth(0), libc::EIO));
    file.sync().unwrap_err();
    file.write_at(&[2; 2048], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(cut(&sim, Keep::Nothing), [2; 2048]);
}

#[test]
fn after_a_failed_sync_the_cache_may_let_go_of_the_bytes() {
    let sim = Sim::new(3);
    let file = durable_file(&sim);
    file.write_at(&[2; 2048], 0).unwrap();
    sim.fail(Fault::new(Call::Sync, When::Nth(0), libc::EIO));
    file.sync().unwrap_err();
    file.write_at(&[2; 512], 0).unwrap();
    file.drop_cached(0, 2048).unwrap();
    let bytes = sim.bytes(path("/a")).unwrap();
    assert_eq!(bytes[..512], [2; 512]);
    assert!(bytes[512..].contains(&1));
}

#[test]
fn names_are_lost_one_by_one() {
    let mut seen = [0; 4];
    for seed in 0..100 {
        let sim = Sim::new(seed);
        sim.create(path("/a"), 1).unwrap();
        sim.sync_dir(path("/")).unwrap();
        sim.rename(path("/a"), path("/b")).unwrap();
        sim.crash(Crash::Cut(Keep::Half)).unwrap();
        let there = |name| sim.kind(path(name)).unwrap() == Some(Kind::File);
        seen[usize::from(there("/a")) + 2 * usize::from(there("/b"))] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0 && seen[2] > 0);
    assert_eq!(seen[3], 0, "never under both names");
}

#[test]
fn a_folder_without_a_synced_name_takes_all_below_it() {
    let sim = Sim::new(1);
    sim.create_dir(path("/topics")).unwrap();
    sim.create(path("/topics/a"), 1).unwrap().sync().unwrap();
    sim.sync_dir(path("/topics")).unwrap();
    sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
    assert_eq!(sim.kind(path("/topics")).unwrap(), None);
}

#[test]
fn a_length_is_durable_only_once_it_is_synced() {
    let sim = Sim::new(1);
    sim.create(path("/new"), 4096).unwrap();
    let file = durable_file(&sim);
    file.grow(4096).unwrap();
    assert_eq!(cut(&sim, Keep::Nothing).len(), 2048);
    assert!(sim.bytes(path("/new")).unwrap().is_empty());
}

#[test]
fn faults_strike_by_call_path_and_number() {
    let sim = Sim::new(1);
    sim.fail(Fault::new(Call::Create, When::Nth(1), libc::ENOSPC).on("seg"));
    sim.create(path("/0.seg"), 1).unwrap();
    sim.create(path("/x"), 1).unwrap();
    let full = sim.create(path("/1.seg"), 1).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(sim.kind(path("/1.seg")).unwrap(), None);
    sim.create(path("/1.seg"), 1).unwrap();

    sim.fail(Fault::new(Call::SyncDir, When::From(0), libc::EIO));
    for _ in 0..3 {
        sim.sync_dir(path("/")).unwrap_err();
    }
    sim.heal();
    sim.sync_dir(path("/")).unwrap();

    sim.fail(Fault::new(Call::Open, When::PerMille(500), libc::EMFILE));
    let failed = (0..100).filter(|_| sim.open(path("/x"), Access::Read).is_err());
    assert!((20..80).contains(&failed.count()));
}

#[test]
fn a_full_disk_has_room_again_when_a_file_goes() {
    let sim = Sim::new(1);
    sim.set_capacity(Some(4096));
    let file = sim.create(path("/a"), 3000).unwrap();
    let full = |result: std::io::Result<()>| {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    };
    full(sim.create(path("/b"), 3000).map(drop));
    full(file.grow(5000));
    assert_eq!(sim.free(path("/")).unwrap(), 1096);
    sim.remove_file(path("/a")).unwrap();
    full(sim.create(path("/b"), 3000).map(drop)); // It is still open.
    drop(file);
    sim.create(path("/b"), 3000).unwrap();
}

#[test]
fn after_the_stop_nothing_changes_any_more() {
    let sim = Sim::new(1);
    let file = durable_file(&sim);
    let map = Arc::new(file.map(Access::Write, 2048).unwrap());
    let (mut tail, _view) = region(map, file.clone(), Backend::Mapped, 0..2048, 0).unwrap();
    sim.crash_after(1);
    file.write_at(&[2; 512], 0).unwrap();
    assert!(is_crash(&file.write_at(&[3; 512], 0).unwrap_err()));
    assert!(sim.has_stopped());
    assert!(is_crash(&file.sync().unwrap_err()));
    assert!(is_crash(&sim.remove_file(path("/a")).unwrap_err()));
    tail.append(512, |bytes| bytes.fill(4), []).unwrap();
    assert_eq!(cut(&sim, Keep::Everything)[..512], [2; 512]);
    sim.open(path("/a"), Access::Write).unwrap();
}

#[test]
fn a_bad_sector_is_an_error_read_or_mapped() {
    let sim = Sim::new(1);
    let file = durable_file(&sim);
    sim.spoil(path("/a"), 700).unwrap();
    let error = file.read_at(&mut [0; 600], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert_eq!(file.read_at(&mut [0; 512], 0).unwrap(), 512);
    let map = Arc::new(file.map(Access::Read, 2048).unwrap());
    View::fixed(map, file, 0..2048)
        .unwrap()
        .guard(0..8)
        .unwrap_err();
    cut(&sim, Keep::Nothing);
    let file = sim.open(path("/a"), Access::Read).unwrap();
    file.read_at(&mut [0; 600], 0).unwrap_err();
}

#[test]
fn files_restored_from_an_older_copy() {
    let sim = Sim::new(1);
    let file = durable_file(&sim);
    let copy = sim.snapshot();
    file.write_at(&[2; 2048], 0).unwrap();
    file.sync().unwrap();
    sim.create(path("/later"), 1).unwrap();
    sim.restore(&copy).unwrap();
    assert_eq!(sim.bytes(path("/a")).unwrap(), [1; 2048]);
    assert_eq!(sim.kind(path("/later")).unwrap(), None);
    assert!(is_crash(&file.len().unwrap_err()));
}

/// A copy comes to a disk that has given no numbers yet: what is made there is new.
#[test]
fn files_restored_to_another_disk() {
    let (from, to) = (Sim::new(1), Sim::new(2));
    from.create_dir(path("/folder")).unwrap();
    from.sync_dir(path("/")).unwrap();
    to.restore(&from.snapshot()).unwrap();
    to.create(path("/file"), 1).unwrap();
    to.create(path("/folder/file"), 1).unwrap();
    assert_eq!(to.list(path("/folder")).unwrap().len(), 1);
}

#[test]
fn damage_is_done_to_cache_and_medium() {
    let sim = Sim::new(1);
    durable_file(&sim);
    sim.flip(path("/a"), 5, 0x81).unwrap();
    sim.overwrite(path("/a"), 6, b"xy").unwrap();
    sim.truncate(path("/a"), 1000).unwrap();
    for bytes in [sim.bytes(path("/a")).unwrap(), cut(&sim, Keep::Nothing)] {
        assert_eq!((bytes.len(), &bytes[5..8]), (1000, &b"\x80xy"[..]));
    }
    sim.disown(path("/a")).unwrap();
    sim.open(path("/a"), Access::Read).unwrap_err();
    sim.plant_link(path("/link")).unwrap();
    sim.open(path("/link"), Access::Read).unwrap_err();
    assert_eq!(sim.kind(path("/link")).unwrap(), Some(Kind::Other));
}

/// A random life of a disk with faults and crashes, and its fingerprint after each step.
fn life(seed: u64) -> Vec<u32> {
    let sim = Sim::new(seed);
    let mut choice = super::Chance::new(seed ^ 0xA5);
    let mut prints = Vec::new();
    for step in 0..200u8 {
        let name = format!("/{}", choice.below(6));
        let name = path(&name);
        let bytes = [step; 700];
        let done = match choice.below(9) {
            0 => sim.create(name, 1500).map(drop),
            1 | 2 => sim
                .open(name, Access::Write)
                .and_then(|f| f.write_at(&bytes, 300)),
            3 => sim.open(name, Access::Write).and_then(|f| f.sync()),
            4 => sim.rename(name, path("/x")),
            5 => sim.sync_dir(path("/")),
            6 => sim.remove_file(name),
            7 => {
                sim.fail(Fault::new(Call::Sync, When::PerMille(300), libc::EIO));
                Ok(())
            }
            _ => sim.crash(Crash::Cut(Keep::Chance)).map(drop),
        };
        prints.push(sim.fingerprint().unwrap() ^ u32::from(done.is_ok()));
    }
    prints
}

#[test]
fn one_seed_twice_gives_one_disk_and_another_seed_another() {
    for seed in 0..10 {
        assert_eq!(life(seed), life(seed), "seed {seed}");
    }
    assert_ne!(life(1), life(2));
}

/// What one sync of the whole disk covers: a cut takes nothing of it. One that fails leaves bytes
/// that look right until the cut, and the next one proves nothing.
#[test]
fn a_sync_of_the_volume_keeps_everything_and_a_failed_one_is_not_made_good() {
    for fails in [false, true] {
        let sim = Sim::new(3);
        let volume = sim.volume(path("/")).unwrap();
        sim.create_dir(path("/folder")).unwrap();
        let file = sim.create(path("/folder/a"), 64 << 10).unwrap();
        file.write_at(&[7; 64 << 10], 0).unwrap();
        if fails {
            sim.fail(Fault::new(Call::Sync, When::Nth(0), libc::EIO));
            assert_eq!(volume.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
        }
        volume.sync().unwrap();
        sim.crash(Crash::Cut(Keep::Nothing)).unwrap();
        let left = sim.bytes(path("/folder/a")).unwrap();
        assert_eq!(left.iter().all(|byte| *byte == 7), !fails);
        assert!(is_crash(&volume.sync().unwrap_err()));
    }
}
