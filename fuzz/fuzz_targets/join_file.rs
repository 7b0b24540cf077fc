//! A JoinConfiguration as somebody wrote it, among any other documents; what kubeadm then gets says the same.
#![no_main]

use carrick_core::fact::version::Version;
use carrick_core::join::request::configuration::render;
use carrick_core::join::request::file::from_text;
use carrick_core::join::state::JoinPolicy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let known = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n    token: abcdef.0123456789abcdef\n    apiServerEndpoint: 10.0.0.11:6443\n    unsafeSkipCAVerification: true\n";
    for text in [text.to_owned(), format!("{known}{text}"), format!("{text}\n---\n{known}")] {
        let Ok(request) = from_text(&text) else { continue };
        for minor in [29, 31, 34] {
            let version = Version { major: 1, minor, patch: 0 };
            let Ok(rendered) = render(&request, version, &JoinPolicy::default()) else { continue };
            let again = from_text(rendered.text()).expect("what is written can be read");
            assert_eq!((again.api, again.node_name), (request.api.clone(), request.node_name.clone()));
        }
    }
});
