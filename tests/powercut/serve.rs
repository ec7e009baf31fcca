//! The file system that the kernel asks: what it does is done to the [`Disk`] behind it.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::bytes::Bytes;
use crate::disk::{Body, Disk, Names};

/// Nobody but the kernel changes anything, so it may keep what it knows.
const FOREVER: Duration = Duration::from_secs(3600);
/// So long a slow sync takes at most, in milliseconds.
const SLOW: u64 = 12;

pub struct Served {
    pub disk: Arc<Mutex<Disk>>,
    /// Writes stay in the page cache until a sync, as on a disk; else each is handed on at once.
    pub write_back: bool,
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

impl Served {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        lock(&self.disk)
    }

    fn attr(disk: &Disk, at: u64) -> Result<FileAttr, Errno> {
        let node = disk.node(at)?;
        let (kind, size) = match &node.body {
            Body::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Body::Folder(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: INodeNo(at),
            size,
            blocks: size.div_ceil(512),
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind,
            perm: node.mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn find(&self, folder: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let mut disk = self.disk();
        disk.alive()?;
        let at = disk.find(folder, text(name)?)?;
        Self::attr(&disk, at)
    }

    fn make(
        &self,
        folder: INodeNo,
        name: &OsStr,
        mode: u32,
        body: Body,
    ) -> Result<FileAttr, Errno> {
        let mut disk = self.disk();
        let at = disk.make(folder.0, text(name)?, (mode & 0o7777) as u16, body)?;
        Self::attr(&disk, at)
    }

    fn set(&self, at: u64, mode: Option<u32>, size: Option<u64>) -> Result<FileAttr, Errno> {
        let mut disk = self.disk();
        disk.alive()?;
        if let Some(size) = size {
            disk.truncate(at, usize::try_from(size).map_err(|_| Errno::EFBIG)?)?;
        }
        if let (Some(mode), Some(node)) = (mode, disk.nodes.get_mut(&at)) {
            node.mode = (mode & 0o7777) as u16;
        }
        Self::attr(&disk, at)
    }

    fn sync(&self, at: u64, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let sync = match disk.begin_sync() {
            Ok(sync) => sync,
            Err(error) => return reply.error(error),
        };
        let slow = disk.trouble.slow;
        if !disk.dice.percent(slow) {
            return answer(reply, disk.end_sync(at, sync));
        }
        let wait = Duration::from_millis(1 + disk.dice.below(SLOW));
        drop(disk);
        let disk = Arc::clone(&self.disk);
        thread::spawn(move || {
            thread::sleep(wait);
            let done = lock(&disk).end_sync(at, sync);
            answer(reply, done);
        });
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if self.write_back {
            let asked = config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE);
            asked.map_err(|_| io::ErrorKind::Unsupported)?;
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent.0, name) {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match Self::attr(&self.disk(), ino.0) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.set(ino.0, mode, size) {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.make(parent, name, mode, Body::Folder(Names::default())) {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, mode, Body::File(Bytes::default())) {
            Ok(attr) => reply.created(
                &FOREVER,
                &attr,
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = text(name).and_then(|name| self.disk().remove(parent.0, name));
        answer(reply, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = text(name).and_then(|name| self.disk().remove(parent.0, name));
        answer(reply, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let done = || {
            if !flags.is_empty() {
                return Err(Errno::EINVAL);
            }
            let (from, to) = ((parent.0, text(name)?), (newparent.0, text(newname)?));
            self.disk().rename(from, to)
        };
        answer(reply, done());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.disk().alive() {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut disk = self.disk();
        let alive = disk.alive();
        match alive.and_then(|()| disk.bytes(ino.0)) {
            Ok(bytes) => {
                let place = usize::try_from(offset).unwrap_or(usize::MAX);
                reply.data(bytes.read(place, size as usize));
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let place = usize::try_from(offset).map_err(|_| Errno::EFBIG);
        match place.and_then(|place| self.disk().write(ino.0, place, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        self.sync(ino.0, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        self.sync(ino.0, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut disk = self.disk();
        let alive = disk.alive();
        let names = match alive.and_then(|()| disk.names(ino.0)) {
            Ok(names) => names.now.clone(),
            Err(error) => return reply.error(error),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (n, (name, at)) in names.iter().enumerate().skip(from) {
            let kind = match disk.node(*at).map(|node| &node.body) {
                Ok(Body::Folder(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(*at), n as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let end = usize::try_from(offset + length).map_err(|_| Errno::EFBIG);
        let done = match mode {
            0 => end.and_then(|end| self.disk().allocate(ino.0, end)),
            _ => Err(Errno::EOPNOTSUPP),
        };
        answer(reply, done);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (all, free) = self.disk().room();
        reply.statfs(all, free, free, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}
