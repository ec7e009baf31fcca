#!/usr/bin/env python3
"""Known-bad changes, applied one at a time to a scratch copy: each must be caught by the test named with it.

    tests/mutations.py                 all of them
    tests/mutations.py --list          their names
    tests/mutations.py --check         whether each still fits the sources
    tests/mutations.py NAME...         only these

A change is a list of (file, old, new); what catches it is a command that must fail, and not for want of
compiling. The copy and its build lie in $TIDELOG_MUTATIONS, or in a folder below /tmp.
"""

import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.environ.get("TIDELOG_MUTATIONS", "/tmp/tidelog-mutations")
# A tenth of the long campaign.
CRASH = ["cargo", "test", "--release", "--test", "crash", "what_was"]
SEEDS = {"TIDELOG_SEEDS": "5000"}
LOOM = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": PLACE + "/target-loom"}


def faults(name):
    return ["cargo", "test", "--test", "faults", name]


# name, changes, command, environment
MUTATIONS = [
    (
        "acknowledged before the sync",
        [("src/partition/rounds.rs", "            self.sync(&entry, progress.settled)?;\n            self.renew_window", "            self.renew_window")],
        CRASH, SEEDS,
    ),
    (
        "a failed sync is tried again",
        [("src/partition/rounds.rs", "let synced = segment.file.sync();", "let synced = segment.file.sync().or_else(|_| segment.file.sync());")],
        CRASH, SEEDS,
    ),
    (
        "a spare's folder is not synced",
        [("src/partition/making.rs", "        .and_then(|()| site.storage.sync_dir(&site.dir))\n", "")],
        CRASH, SEEDS,
    ),
    (
        "a slot is written before its sync",
        [("src/partition/rounds.rs", "            self.sync(&entry, progress.settled)?;\n            self.renew_window", "            self.slot(&entry, fresh, &mut Duration::default())?;\n            self.sync(&entry, progress.settled)?;\n            self.renew_window")],
        CRASH, SEEDS,
    ),
    (
        "no check of epochs, and what is cut stays",
        [
            ("src/partition/walked.rs", "if !follows || !of_age {", "if !follows || (false && !of_age) {"),
            ("src/partition/apply.rs", "                self.zero(walked, &cut)?;\n", "                let _ = &cut;\n"),
        ],
        CRASH, SEEDS,
    ),
    (
        "checksums know nothing of the segment's life",
        [("src/format/record.rs", "    seed.checksum([&length.to_le_bytes(), covered])", "    let _ = seed;\n    crate::format::Seed::new(&[0; 16], 0, 0, 0).checksum([&length.to_le_bytes(), covered])")],
        faults("stale"), {},
    ),
    (
        "the batch flag is ignored",
        [("src/partition/walked.rs", "let more = frame.more();", "let more = frame.more() && false;")],
        CRASH, SEEDS,
    ),
    (
        "a commit is durable before the records it covers",
        [("src/store/subscription.rs", "            self.topic.log(*partition)?.flush_to(*next)?;", "            self.topic.log(*partition)?;\n            let _ = next;")],
        ["cargo", "test", "--test", "acks", "a_commit_above"], {},
    ),
    (
        "whoever sleeps on the board does not look behind a fence",
        [("src/sync/bell.rs", "    fence(Ordering::SeqCst);\n    seen", "    let _ = fence;\n    seen")],
        ["cargo", "test", "--release", "--lib", "loom_tests::nobody_sleeps"], LOOM,
    ),
    (
        "a look-up believes the frame at which it arrives",
        [("src/partition/seek.rs", "    if let Some(place) = near.filter(leads_there) {", "    if let Some(place) = near {")],
        faults("damage"), {},
    ),
    (
        "the end of a log is taken from a bad frame in its middle",
        [("src/partition/planner.rs", "match beyond.promise.filter(|promise| *promise > at.next) {", "match beyond.promise.filter(|promise| *promise > at.next && false) {")],
        faults("damage"), {},
    ),
    (
        "a round syncs only the newest segment",
        [("src/partition/rounds.rs", "for open in entry.open.iter().filter(unsafe_still) {", "for open in entry.open.iter().rev().take(1).filter(unsafe_still) {")],
        CRASH, SEEDS,
    ),
    (
        "adopted bytes are not written back",
        [("src/partition/apply.rs", "for (place, bytes) in &walked.adopted {", "for (place, bytes) in walked.adopted.iter().take(0) {")],
        CRASH, SEEDS,
    ),
    (
        "segments go before the beginning behind them is durable",
        [("src/store/retention.rs", "        if let Some((segment, base)) = start.filter(|(_, base)| *base > stated) {", "        if let Some((_, base)) = start {\n            log.remove_below(base)?;\n        }\n        if let Some((segment, base)) = start.filter(|(_, base)| *base > stated) {")],
        faults("removal"), {},
    ),
    (
        "what lies below a log's beginning stays after a crash",
        [("src/partition/leftover.rs", "                if self.promises.start.is_some() {", "                if self.promises.start.is_some() && false {")],
        faults("removal"), {},
    ),
    (
        "a forked child unlocks",
        [("src/sys/lock.rs", "if self.process != process::id() || self.released", "if self.released")],
        ["cargo", "test", "--lib", "sys::disk"], {},
    ),
    (
        "a segment of the journal goes without a sync of the folder",
        [("src/partition/reuse.rs", "        let synced = sync_dir(site);\n        if kept {", "        let synced: Result<()> = Ok(());\n        if kept {")],
        ["cargo", "test", "--test", "faults", "writes"], {},
    ),
    (
        "an owner's epoch is not above the last one",
        [
            ("src/journal/journal.rs", "last.max(found.epoch).checked_add(1)", "Some(last.max(found.epoch).max(1))"),
            ("src/partition/apply.rs", "true => plan.seen.checked_add(1),", "true => Some(plan.seen),"),
        ],
        CRASH, SEEDS,
    ),
    (
        "an entry counts for a log that has let go of it",
        [("src/board/watch.rs", "let current = version == self.version && version.is_multiple_of(2);", "let current = version.is_multiple_of(2) || version == self.version;")],
        ["cargo", "test", "--lib", "board::tests"], {},
    ),
    (
        "a follower does not finish the segment that it stands in when later ones have gone",
        [("src/partition/reach.rs", "                None => follower.segment().set_end(follower.end()),", "                None => {}")],
        ["cargo", "test", "--test", "processes", "a_reader_finishes"], {},
    ),
    (
        "files are not looked at where no board shows a log",
        [("src/partition/following.rs", "            return self.look_at_files(following);", "            return;")],
        ["cargo", "test", "--test", "processes", "an_owner_that_comes"], {},
    ),
    (
        "a reader lays no redo over the files",
        [("src/partition/attach.rs", "    let redo = &promises.redo;", "    let redo: &Vec<Redo> = &Vec::new();")],
        faults("beside"), {},
    ),
]


def fits(changes):
    """Whether each old text is there exactly once."""
    for path, old, _ in changes:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            count = file.read().count(old)
        if count != 1:
            return f"{path}: {count} places"
    return None


def copy():
    """The sources that git knows, as they are now; builds of an earlier run stay."""
    tree = os.path.join(PLACE, "tree")
    os.makedirs(tree, exist_ok=True)
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, known.stdout.decode().split("\0")):
        source, target = os.path.join(ROOT, name), os.path.join(tree, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
    return tree


def run(tree, command, environment):
    env = {**os.environ, "CARGO_TARGET_DIR": PLACE + "/target", **environment}
    done = subprocess.run(["timeout", "600", *command], cwd=tree, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main(wanted):
    chosen = [it for it in MUTATIONS if not wanted or it[0] in wanted]
    if "--list" in wanted:
        return print("\n".join(it[0] for it in MUTATIONS))
    if "--check" in wanted:
        chosen = MUTATIONS
    for name, changes, _, _ in chosen:
        problem = fits(changes)
        if problem:
            sys.exit(f"{name}: it does not fit any more: {problem}")
    if "--check" in wanted:
        return print(f"{len(chosen)} changes fit")
    tree = copy()
    missed = 0
    for name, changes, command, environment in chosen:
        begin = time.monotonic()
        for path, old, new in changes:
            target = os.path.join(tree, path)
            with open(target, encoding="utf-8") as file:
                text = file.read()
            with open(target, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
        code, said = run(tree, command, environment)
        for path, _, _ in changes:
            shutil.copy2(os.path.join(ROOT, path), os.path.join(tree, path))
            os.utime(os.path.join(tree, path))
        red = [line for line in said.splitlines() if line.endswith("... FAILED")]
        seed = [line for line in said.splitlines() if line.startswith("seed ")]
        took = time.monotonic() - begin
        if "error: could not compile" in said:
            verdict = "does not compile"
        elif code == 124:
            verdict = "caught, by hanging"
        elif code != 0 and (red or seed):
            verdict = "caught by " + (seed[0].split(":")[0] if seed else red[0][5:-11])
        elif code != 0 and "error: test failed" in said:
            # A model that meets a deadlock ends its process.
            verdict = "caught, by the end of " + command[-1]
        else:
            verdict = "NOT CAUGHT"
        missed += not verdict.startswith("caught")
        print(f"{name}: {verdict} ({took:.0f} s)", flush=True)
    sys.exit(f"{missed} of {len(chosen)} were not caught" if missed else None)


if __name__ == "__main__":
    main(sys.argv[1:])
