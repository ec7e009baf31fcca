//! Segment files are named by their number.

/// The file name of segment `number`: at least eight digits.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:08}.seg")
}

/// The number in a segment's file name; `None` for any name that [`file_name`] does not make.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".seg")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The file name of a segment that its log has let go of, and whose space is kept for another one.
pub(crate) fn used_name(number: u32) -> String {
    format!("{number:08}.used")
}

/// The number in such a name.
pub(crate) fn used_number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".used")?.parse().ok()?;
    (used_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_make_are_ours() {
        for number in [0, 7, 99_999_999, 100_000_000, u32::MAX] {
            assert_eq!(number_of(&file_name(number)), Some(number));
            assert_eq!(used_number_of(&used_name(number)), Some(number));
            assert_eq!(number_of(&used_name(number)), None);
        }
        for other in [
            "0.seg",
            "00000000",
            "+0000001.seg",
            "000000001.seg",
            "00000001.SEG",
            ".seg",
        ] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
