//! The parts that processes of a test play: its binary once more, told by the environment.

use std::env;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use tidelog::sys::{Backend, Disk, Mode};

use super::memory;

const PART: &str = "TIDELOG_LOAD_PART";

/// The words that tell this process its part, if it has one.
pub fn part() -> Option<Vec<String>> {
    let words = env::var(PART).ok()?;
    Some(words.split(' ').map(str::to_owned).collect())
}

/// Runs the test of that name in another process, which is told its part.
pub fn start(test: &str, words: &[String]) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .arg("--include-ignored")
        .env(PART, words.join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// The disk with this back end.
pub fn disk(backend: &str) -> Disk {
    let backend = match backend {
        "mapped" => Backend::Mapped,
        _ => Backend::Pwrite,
    };
    Disk::with_backend(Mode::Private, backend)
}

/// Waits for a process, so long at the most; whether it has ended.
pub fn ended(child: &mut Child, most: Duration) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        if begin.elapsed() > most {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Reads what a process says, line by line, until it ends.
pub fn listen(child: &mut Child, said: Arc<Mutex<Vec<String>>>) -> Option<thread::JoinHandle<()>> {
    let mut out = io::BufReader::new(child.stdout.take()?);
    Some(thread::spawn(move || {
        let mut line = String::new();
        // A line that was cut off is none.
        while out.read_line(&mut line).is_ok() && line.ends_with('\n') {
            line.pop();
            said.lock().unwrap().push(std::mem::take(&mut line));
        }
    }))
}

/// The verdict of a process that looks at what is left.
pub fn judge(test: &str, words: &[String]) -> Result<String, String> {
    let mut child = start(test, words).map_err(|error| error.to_string())?;
    let said = Arc::default();
    let listener = listen(&mut child, Arc::clone(&said));
    let mut complaints = child.stderr.take();
    let complained = thread::spawn(move || {
        let mut text = String::new();
        let read = complaints
            .as_mut()
            .map(|it| io::Read::read_to_string(it, &mut text));
        drop(read);
        text
    });
    let over = ended(&mut child, Duration::from_secs(60)).map_err(|error| error.to_string())?;
    if !over {
        drop(child.kill());
        drop(child.wait());
    }
    drop(listener.map(thread::JoinHandle::join));
    let complained = complained.join().unwrap_or_default();
    let said: Vec<String> = std::mem::take(&mut said.lock().unwrap());
    let verdict = said.iter().find_map(|line| line.split_once('@'));
    match verdict {
        Some((_, fine)) if fine.starts_with("fine") => Ok(fine.to_owned()),
        Some((_, wrong)) => Err(wrong.to_owned()),
        None if !over => Err("it hangs".to_owned()),
        None => Err(format!("it ended without a verdict: {complained}")),
    }
}

/// A new folder in memory, of this process. Those of processes that died go.
pub fn in_memory(name: &str) -> io::Result<PathBuf> {
    let base = memory::folder();
    for entry in fs::read_dir(&base)? {
        let entry = entry?;
        let other = entry.file_name().into_string().unwrap_or_default();
        let process = other
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('-'));
        // One that nobody has waited for has no memory any more.
        let is_dead = |process| {
            let maps = fs::read(Path::new("/proc").join(process).join("maps"));
            maps.map_or(true, |maps| maps.is_empty())
        };
        if process.is_some_and(is_dead) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    let folder = base.join(format!("{name}-{}", std::process::id()));
    fs::create_dir(&folder)?;
    Ok(folder)
}

/// A part, in words and numbers.
pub fn words(names: &[&str], numbers: &[u64]) -> Vec<String> {
    let names = names.iter().map(|it| (*it).to_owned());
    names.chain(numbers.iter().map(u64::to_string)).collect()
}
