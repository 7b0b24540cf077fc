//! Whatever kubeadm prints: it has milestones and causes, and what is quoted of it holds no secret.
#![no_main]

use std::sync::LazyLock;

use carrick_core::join::output::{causes, milestone};
use carrick_core::signature::Library;
use carrick_core::testing::secret::{KINDS, Plant, pieces_found, plant_one};
use libfuzzer_sys::fuzz_target;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::built_in().expect("ours"));

fuzz_target!(|input: (u8, &str)| {
    let (kind, text) = input;
    let Plant { text: planted, secrets } = plant_one(&KINDS[usize::from(kind) % KINDS.len()], "fuzz");
    let output = format!("{text}\n\n\n\n{planted}\n");
    output.lines().for_each(|line| drop(milestone(line)));
    let told = format!("{:?}", causes(&output, &LIBRARY));
    if pieces_found(text.as_bytes(), &secrets).is_empty() {
        assert_eq!(pieces_found(told.as_bytes(), &secrets), Vec::<String>::new());
    }
});
