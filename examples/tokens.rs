//! A model's answer, word by word, to a reader whose connection breaks: it comes back with the place it
//! had, and misses nothing.
//!
//! `cargo run --example tokens`

use std::thread;
use std::time::Duration;

use tidelog::{Result, Start, Store, Topic};

const ANSWER: &str = "A log is an append-only sequence of records, ordered by time.";

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(dir.path().join("data"))?;
    // A topic for each answer: it costs a few kilobytes, and is deleted when nobody asks any more.
    let answer = store.topic("answers.42")?;
    let model = thread::spawn({
        let answer = answer.clone();
        move || -> Result<()> {
            for word in ANSWER.split_inclusive(' ') {
                answer.append_nowait(word)?;
                thread::sleep(Duration::from_millis(3));
            }
            answer.finish()
        }
    });

    // The first connection breaks after four words. What the client keeps is a number.
    let (mut text, next) = read(&answer, 0, Some(4))?;
    println!("broken after  {text:?}, to go on at {next}");
    let (rest, _) = read(&answer, next, None)?;
    text += &rest;
    println!("complete      {text:?}");
    assert_eq!(text, ANSWER);
    model.join().expect("the model does not panic")?;
    drop(answer);
    store.delete_topic("answers.42")?;
    store.close()
}

/// Follows the answer from a place on; what came, and the place to go on at.
fn read(answer: &Topic, from: u64, words: Option<usize>) -> Result<(String, u64)> {
    let (mut text, mut next) = (String::new(), from);
    let mut tail = answer.follow(Start::Offset(from))?;
    for _ in 0..words.unwrap_or(usize::MAX) {
        let Some(word) = tail.next()? else { break };
        text += word.text()?;
        next = word.next().offset();
    }
    Ok((text, next))
}
