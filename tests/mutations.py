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
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PLACE = os.environ.get("TIDELOG_MUTATIONS", "/tmp/tidelog-mutations")
# A tenth of the long campaign.
CRASH = ["cargo", "test", "--release", "--test", "crash", "what_was"]
SEEDS = {"TIDELOG_SEEDS": "5000"}
LOOM = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": PLACE + "/target-loom"}


# Miri interprets, and finds a data race by the orderings, whatever the processor would have made of them.
MIRI = ["cargo", "+nightly", "miri", "test", "--lib", "append_map"]
INTERPRETED = {"MIRIFLAGS": "-Zmiri-disable-isolation", "CARGO_TARGET_DIR": PLACE + "/target-miri"}
MODELS = ["cargo", "test", "--release", "--lib", "sync::loom_tests"]


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
        [("src/store/subscription/builder.rs", "            self.log(*partition)?.flush_to(*next)?;", "            self.log(*partition)?;\n            let _ = next;")],
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
        [("src/store/retention/mod.rs", "    log.settle_below(segment)?;\n", "    log.settle_below(segment)?;\n    log.start_at(segment, offset)?;\n")],
        ["cargo", "test", "--test", "retention", "cuts"], {},
    ),
    (
        "a plan does not mind what a required subscription has not committed",
        [("src/store/retention/plan.rs", "match (retention.required, facts.required) {", "match (retention.required, facts.required.filter(|_| false)) {")],
        ["cargo", "test", "--test", "retention", "required"], {},
    ),
    (
        "what is kept for a required subscription is kept for ever",
        [("src/store/retention/plan.rs", "(behind >= limit).then_some(Reason::HardLimit)", "(behind >= limit && false).then_some(Reason::HardLimit)")],
        ["cargo", "test", "--test", "retention", "required"], {},
    ),
    (
        "an audit leaves out the last segment that goes",
        [("src/store/retention/mod.rs", "    let plan = planned(store, topic, &log, true)?;\n    Ok(", "    let mut plan = planned(store, topic, &log, true)?;\n    plan.removals.pop();\n    Ok(")],
        ["cargo", "test", "--test", "retention", "random"], {},
    ),
    (
        "retention leaves one segment that it says it removes",
        [("src/store/retention/mod.rs", "let Some((segment, offset)) = plan.start else {", "let one = plan.removals.last().map(|last| (last.segments.start, last.offsets.start));\n        let Some((segment, offset)) = one else {")],
        ["cargo", "test", "--test", "retention", "random"], {},
    ),
    (
        "files go although somebody copies them",
        [("src/partition/retain.rs", "let kept = removing.is_kept();", "let kept = removing.is_kept() && false;")],
        faults("backup"), {},
    ),
    (
        "a copy sees half of a transaction",
        [("src/store/transaction.rs", "let whole = store.whole.read().unwrap_or_else(PoisonError::into_inner);", "let whole = drop::<PoisonError<()>>;")],
        faults("backup"), {},
    ),
    (
        "a copy gets its name before the names in it are synced",
        [("src/store/backup.rs", "            .copy_to(first, standing, storage.as_ref(), &dir, made)?;\n        self.sync(&dir)?;", "            .copy_to(first, standing, storage.as_ref(), &dir, made)?;")],
        faults("backup"), {},
    ),
    (
        "what stands in for a segment stands for none of its offsets",
        [("src/partition/mending.rs", "let (epoch, next) = behind.map_or((1, self.next), |it| (it.epoch, it.base));", "let (epoch, next) = behind.map_or((1, self.next), |it| (it.epoch, self.next));")],
        faults("mend"), {},
    ),
    (
        "what stands in for the end does not reach as far as was promised",
        [("src/partition/mending.rs", "let next = self.next.max(known);", "let next = self.next.max(known.min(0));")],
        faults("mend"), {},
    ),
    (
        "a repair that states an end leaves what the journal holds out of the files",
        [("src/partition/mend.rs", "        lay(site, promises, (epoch, end.nonce))?;\n", "        let _ = (lay, epoch, end.nonce);\n")],
        faults("mend"), {},
    ),
    (
        "a repair writes over a header that it has not kept",
        [("src/partition/mend.rs", "let copied = copy.write_at(&page[..read], 0).and_then(|()| copy.sync());", "let copied = copy.sync();")],
        faults("mend"), {},
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
        [("src/partition/reuse.rs", "        let synced = site.sync_dir(&site.dir);\n        if kept {", "        let synced: Result<()> = Ok(());\n        if kept {")],
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
    (
        "published before the copy is done",
        [("src/sys/append_map/tail.rs", "        self.broken = true;\n", "        self.broken = true;\n        let to = (self.end + len) as u64;\n        self.region.published.store(to, Ordering::Release);\n")],
        ["cargo", "test", "--lib", "append_map"], {},
    ),
    (
        "a region is published relaxed",
        [("src/sys/append_map/tail.rs", ".store(self.end as u64, Ordering::Release);", ".store(self.end as u64, Ordering::Relaxed);")],
        MIRI, INTERPRETED,
    ),
    (
        "what a region has published is read relaxed",
        [("src/sys/append_map.rs", "self.published.load(Ordering::Acquire) as usize", "self.published.load(Ordering::Relaxed) as usize")],
        MIRI, INTERPRETED,
    ),
    (
        "a watermark is published relaxed",
        [("src/sync/watermark.rs", "to, Ordering::Release) < to {\n            self.wake_before((to, 0));", "to, Ordering::Relaxed) < to {\n            self.wake_before((to, 0));")],
        MODELS, LOOM,
    ),
    (
        "a watermark is read relaxed",
        [("src/sync/watermark.rs", "self.position.load(Ordering::Acquire)", "self.position.load(Ordering::Relaxed)")],
        MODELS, LOOM,
    ),
    (
        "whoever waits does not look behind a fence",
        [("src/sync/watermark.rs", "        // Between entering and looking; the other fence is in `wake_before`.\n        fence(Ordering::SeqCst);\n", "")],
        MODELS, LOOM,
    ),
    (
        "index entries behind the slot are believed",
        [("src/partition/apply.rs", "if !walked.entries.is_empty() {", "if !walked.entries.is_empty() && false {")],
        faults("damage"), {},
    ),
    (
        "recovery looks only at the last segment",
        [("src/partition/planner.rs", "            let slot = header.seal.or(header.slots.slot);\n            let slot = slot.map", "            if number < u32::MAX {\n                return Ok(lowest);\n            }\n            let slot = header.seal.or(header.slots.slot);\n            let slot = slot.map")],
        CRASH, SEEDS,
    ),
    (
        "a snapshot stands for all that came before it was written",
        [("src/journal/replay.rs", "let first = self.kept.partition_point(|(at, _)| *at < self.needed_from);", "let first = self.kept.len();")],
        ["cargo", "test", "--lib", "journal::tests"], {},
    ),
    (
        "the search for what proves damage ends at today's bound",
        [("src/store/catalog.rs", "        reach_bytes: reach\n            .max(options.unsettled_bytes)", "        reach_bytes: options.unsettled_bytes\n            .max(reach.min(1))")],
        faults("bounds"), {},
    ),
    (
        "a log is open, and shown, before the seal of its cut is synced",
        [("src/partition/apply.rs", "                self.put(walked, Sector::Seal, &seal)?;\n                self.sync(walked)?;", "                self.put(walked, Sector::Seal, &seal)?;")],
        faults("bounds"), {},
    ),
    (
        "a slot is written at what is durable, and not at what is settled",
        [("src/partition/rounds.rs", "        self.redo_is_kept();\n", "        self.redo_is_kept();\n        let entry = self.ledger.read();\n        if let Some(Open { segment, .. }) = entry.open.last() {\n            let _ = self.write_slot(&mut self.slots(), segment, entry.mark);\n        }\n")],
        CRASH, SEEDS,
    ),
    (
        "a batch whose last word may be there is written over",
        [
            ("src/sys/append_map/tail.rs", "(Backend::Pwrite, _) => self.write(len, fill, words)?,", "(Backend::Pwrite, _) => {\n                let done = self.write(len, fill, words);\n                self.broken = matches!(done, Err(AppendError::Io(_)));\n                done?;\n            }"),
            ("src/segment/writer.rs", "self.broken |= result.is_err() || flaw.is_some();", "self.broken |= matches!(result, Err(AppendError::Io(_))) || flaw.is_some();"),
        ],
        faults("writes"), {},
    ),
    (
        "a write that failed is written over",
        [
            ("src/sys/append_map/tail.rs", "(Backend::Pwrite, _) => self.write(len, fill, words)?,", "(Backend::Pwrite, _) => {\n                let done = self.write(len, fill, words);\n                self.broken = matches!(done, Err(AppendError::LastWord(_)));\n                done?;\n            }"),
            ("src/segment/writer.rs", "self.broken |= result.is_err() || flaw.is_some();", "self.broken |= matches!(result, Err(AppendError::LastWord(_))) || flaw.is_some();"),
        ],
        faults("writes"), {},
    ),
    (
        "what cannot be read is taken for the end of a log",
        [("src/segment/walk.rs", "        read.map(|_| ())\n", "        drop(read);\n        Ok(())\n")],
        faults("bounds"), {},
    ),
    (
        "a file is let go of before it is synced",
        [
            ("src/partition/park.rs", "let settled = self.direct(true, true);", "let settled: Result<Next> = Ok(Next::Rest);"),
            ("src/partition/park.rs", "if active.is_over() || !settled {", "if active.is_over() || (settled && false) {"),
        ],
        faults("parking"), {},
    ),
    (
        "two syncs of one file are under way at once",
        [
            ("src/flush/queue.rs", "                    claim.insert(Claim::RunningAndDue);", "                    claim.insert(Claim::Queued);\n                    self.enqueue(log);"),
            ("src/partition/rounds.rs", "            self.sync(&entry, progress.settled)?;\n            self.renew_window", "            let settled = progress.settled;\n            drop(progress);\n            self.sync(&entry, settled)?;\n            progress = self.progress();\n            self.renew_window"),
        ],
        faults("no_file_is_synced"), {},
    ),
    (
        "rot in the last record after a clean close is taken for a torn tail",
        [
            ("src/partition/planner.rs", "self.promises.end.filter(|_| self.promises.is_clean()) else {", "self.promises.end.filter(|_| self.promises.is_clean() && false) else {"),
            ("src/partition/planner.rs", "if let Some((mark, epoch)) = best {", "if let Some((mark, epoch)) = best.filter(|_| false) {"),
            ("src/partition/planner.rs", "let known = sealed.max(recorded)", "let known = sealed.max(recorded.filter(|_| false))"),
        ],
        faults("damage"), {},
    ),
    (
        "a transaction's checkpoints are stated before it",
        [("src/store/transacting.rs", "commit_ending(store, &ending, &parts, self.facts.clone(), now)?;", "{\n            if !self.facts.is_empty() {\n                store.journal.commit(&self.facts)?;\n            }\n            commit_ending(store, &ending, &parts, Vec::new(), now)?\n        };")],
        CRASH, SEEDS,
    ),
    (
        "a transaction forgets to state the end of a topic",
        [("src/store/catalog.rs", "facts.extend(ending.iter().map(|topic| {", "facts.extend(ending.iter().take(0).map(|topic| {")],
        CRASH, SEEDS,
    ),
    (
        "a transaction's facts and records are two records of the journal",
        [("src/journal/journal.rs", "        let mut payload = transaction(events);\n        redo(&mut payload)?;\n        let payloads = [payload];\n        let mut book = self.book();\n", "        let mut payload = transaction(&[]);\n        redo(&mut payload)?;\n        let payloads = [payload];\n        let mut book = self.book();\n        if !events.is_empty() {\n            self.append(&mut book, &[transaction(events)], self.0.reserve())?;\n        }\n")],
        CRASH, SEEDS,
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


def same(source, target):
    """Makes a file the same as another; one that is already keeps its time, by which builds go."""
    with open(source, "rb") as file:
        wanted = file.read()
    try:
        with open(target, "rb") as file:
            if file.read() == wanted:
                return
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(wanted)


def copy():
    """The sources that git knows, as they are now; builds of an earlier run stay."""
    tree = os.path.join(PLACE, "tree")
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, known.stdout.decode().split("\0")):
        same(os.path.join(ROOT, name), os.path.join(tree, name))
    return tree


def run(tree, command, environment):
    """Builds, for as long as that takes; then runs for as long as a test may."""
    env = {**os.environ, "CARGO_TARGET_DIR": PLACE + "/target", **environment}
    shape = {"cwd": tree, "env": env, "capture_output": True, "text": True}
    # The last word says which tests to run.
    built = subprocess.run([*command[:-1], "--no-run"], **shape)
    if built.returncode != 0:
        return built.returncode, built.stdout + built.stderr
    done = subprocess.run(["timeout", "600", *command], **shape)
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
            same(os.path.join(ROOT, path), os.path.join(tree, path))
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
        if not verdict.startswith("caught"):
            print("    " + "\n    ".join(said.splitlines()[-12:]), flush=True)
    sys.exit(f"{missed} of {len(chosen)} were not caught" if missed else None)


if __name__ == "__main__":
    main(sys.argv[1:])
