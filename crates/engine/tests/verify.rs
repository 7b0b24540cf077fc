//! Looking at a machine that has never joined proves that it has not, touches nothing, and ends.

use std::time::Duration;

use carrick_core::check::Outcome;
use carrick_core::fact::identity::MachineIdentity;
use carrick_core::join::verify::{Until, holds, report};
use carrick_core::judge::Ignore;
use carrick_core::report::Overall;
use carrick_core::signature::Library;
use carrick_engine::join::NodeObserver;
use carrick_engine::join::inspect::LiveDiagnosis;
use carrick_engine::join::verify::look;
use carrick_testkit::Machine;

#[tokio::test]
async fn a_machine_without_a_certificate_has_not_joined() {
    let machine = Machine::default();
    let shared = machine.shared();
    let library = Library::built_in().unwrap();
    for until in [Until::Registered, Until::Network, Until::Verified] {
        let mut observer =
            NodeObserver::new(&shared, "w1".to_owned(), MachineIdentity { uuid: None, machine_id: None }, None);
        let diagnosis =
            LiveDiagnosis { library: &library, ignore: &Ignore::default(), time_box: Duration::from_secs(1) };
        let seen = look(&mut observer, until, Some(Duration::from_mins(1)), &diagnosis, &mut |_| ()).await;
        assert!(!holds(&seen, until));
        let report = report("w1", &seen, until);
        assert_eq!((report.verdict, report.reached.and_then(|far| far.reached)), (Overall::Fail, None));
        assert!(report.findings.iter().all(|finding| finding.verdict != Outcome::Pass), "{report:?}");
    }
    assert!(machine.changes().is_empty());
}
