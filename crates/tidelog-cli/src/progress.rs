//! Progress on standard error: a bar where that is a terminal, and nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const RECORDS: &str = "  {bar:40.cyan} {human_pos} of {human_len} records, {per_sec}";
const BYTES: &str = "  {bar:40.cyan} {bytes} of {total_bytes}, {bytes_per_sec}, {msg}";
const PIPE: &str = "  {spinner} {bytes}, {bytes_per_sec}, {msg}";

/// A bar over a known number of records.
pub(crate) fn records(total: u64) -> ProgressBar {
    styled(Some(total), RECORDS)
}

/// A bar over so many bytes, or a count of them where nobody knows how many will come.
pub(crate) fn bytes(total: Option<u64>) -> ProgressBar {
    let bar = styled(total, if total.is_some() { BYTES } else { PIPE });
    if total.is_none() && !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(100));
    }
    bar
}

fn styled(total: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    // The templates are constants of this file, which a test reads.
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_can_be_read() {
        for template in [RECORDS, BYTES, PIPE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
