//! A sensor writes, a screen follows: what is there, then what comes, until the sensor is done.
//!
//! `cargo run --example tailing`

use std::thread;
use std::time::Duration;

use tidelog::{Result, Start, Store};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path().join("data"))?;
    let readings = store.topic("readings")?;
    readings.append("21.0 °C")?;

    // The screen starts with what is there already.
    let mut tail = readings.follow(Start::Earliest)?;
    let screen = thread::spawn(move || -> Result<u64> {
        let mut shown = 0;
        while let Some(record) = tail.next()? {
            println!("{}  {}", record.position(), record.text()?);
            shown += 1;
        }
        Ok(shown)
    });

    for tenth in 1..=5 {
        thread::sleep(Duration::from_millis(20));
        readings.append(format!("21.{tenth} °C"))?;
    }
    // Nothing comes any more: whoever follows ends when he has everything.
    readings.finish()?;
    let shown = screen.join().expect("the screen does not panic")?;
    println!("the screen has shown {shown} readings");
    drop(readings);
    store.close()
}
