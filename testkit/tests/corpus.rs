//! The corpus of the fuzzer, and changed copies of it, go through every target.

use std::fs;
use std::path::{Path, PathBuf};

use farhop_proto::base::Seed;
use farhop_testkit::fuzz::TARGETS;

/// Changed copies of each file.
const COPIES: usize = 60;

fn files(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

#[test]
fn no_file_and_no_change_of_it_upsets_a_target() {
    for (name, target) in TARGETS {
        let files = files(name);
        assert!(!files.is_empty(), "no corpus for {name}");
        let mut rng = Seed(1).stream(name);
        for file in files {
            let bytes = fs::read(&file).expect("it was listed");
            target(&bytes);
            for _ in 0..COPIES {
                let mut changed = bytes.clone();
                for _ in 0..=rng.below(4) {
                    match (rng.below(4), changed.len() as u64) {
                        (_, 0) => changed.push(rng.next_u64() as u8),
                        (0, length) => changed.truncate(rng.below(length) as usize),
                        (1, length) => {
                            let from = rng.below(length) as usize;
                            changed.extend_from_within(from..);
                        }
                        (_, length) => {
                            changed[rng.below(length) as usize] ^= 1 << rng.below(8);
                        }
                    }
                }
                target(&changed);
            }
        }
    }
}
