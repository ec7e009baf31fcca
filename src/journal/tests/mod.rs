//! What journals say, and what follows from it.

use super::*;

#[test]
fn seeds_are_good_journals() {
    for seed in fuzz_seeds() {
        fuzz_event(&seed);
    }
}
