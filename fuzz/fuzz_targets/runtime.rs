//! What a container runtime answers: its messages as bytes, and its lists as JSON.
#![no_main]

use carrick_core::fact::cri::{parse_driver, parse_status};
use carrick_core::reset::pods::parse_sandboxes;
use carrick_host::cri::message::{
    ListContainersResponse, ListImagesResponse, ListPodSandboxResponse, PodSandboxStatusResponse, StatusResponse,
    VersionResponse,
};
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

fuzz_target!(|bytes: &[u8]| {
    let _ = (StatusResponse::decode(bytes), VersionResponse::decode(bytes), ListImagesResponse::decode(bytes));
    let _ = (ListContainersResponse::decode(bytes), PodSandboxStatusResponse::decode(bytes));
    if let Ok(listed) = ListPodSandboxResponse::decode(bytes) {
        assert_eq!(ListPodSandboxResponse::decode(listed.encode_to_vec().as_slice()).as_ref(), Ok(&listed));
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = (parse_status(&text), parse_driver(&text), parse_sandboxes(&text));
});
