//! Accounts that are nowhere but in the log: balances are what replaying it adds up to, now or as it
//! stood at any time.
//!
//! `cargo run --example ledger`

use std::collections::BTreeMap;

use tidelog::{Record, Result, Start, Store, Timestamp, Topic, TopicOptions};

type Balances = BTreeMap<String, i64>;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path().join("data"))?;
    let ledger = store.create_topic("ledger", TopicOptions::new().content_type("text/plain"))?;

    let day = |day: i64| Timestamp::from_millis(1_517_443_200_000 + day * 86_400_000);
    ledger.append(Record::new("+100").key("alice").at(day(0)))?;
    ledger.append(Record::new("+20").key("bob").at(day(0)))?;
    // Both entries, or none: a batch is whole after any crash.
    ledger.append_batch([
        Record::new("-30").key("alice").at(day(1)),
        Record::new("+30").key("bob").at(day(1)),
    ])?;
    ledger.append(Record::new("-50").key("bob").at(day(2)))?;

    println!(
        "now:                {:?}",
        replay(&ledger, ledger.partition(0)?.end()?)?
    );
    // The first entry of the third day ends what is replayed.
    let end = ledger.partition(0)?.find(day(2))?;
    println!("before the 3rd day: {:?}", replay(&ledger, end)?);
    drop(ledger);
    store.close()
}

/// Adds up the entries below an offset.
fn replay(ledger: &Topic, end: u64) -> Result<Balances> {
    let mut balances = Balances::new();
    let mut entries = ledger.partition(0)?.cursor(Start::Earliest)?;
    while let Some(entry) = entries.next()? {
        if entry.position().offset() == end {
            break;
        }
        let account = String::from_utf8_lossy(entry.key().unwrap_or_default()).into_owned();
        let amount: i64 = entry.text()?.parse().expect("an amount");
        *balances.entry(account).or_default() += amount;
    }
    Ok(balances)
}
