//! The link to /dev/null that masks kubelet.service is taken away. Whether the kubelet is enabled shows only then, and is
//! fixed in the next round. `carrick undo` puts the link back.

use super::Fix;
use crate::fact::{Facts, Known};
use crate::plan::Effect;

pub const FIX: Fix = Fix { fixes: &["kubelet.masked"], does: "unmasks it", plan };

fn plan(facts: &Facts) -> Known<Vec<Effect>> {
    let mask = if facts.unit_state("kubelet")?.is_masked() { facts.mask_of("kubelet")? } else { None };
    Ok(mask.map(|path| vec![Effect::Remove { path }, Effect::ReloadUnits]).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::unit::SHOW;
    use crate::testing::{facts, plans};

    #[test]
    fn only_a_mask_is_taken_away() {
        let with = |load: &str, entry: &[(&str, &str)]| {
            facts()
                .with_query(&SHOW, &format!("Id=kubelet.service\nLoadState={load}\n"))
                .with_dir("/etc/systemd/system", entry)
                .without_dir("/run/systemd/system")
        };
        let link = [("lrwxrwxrwx", "kubelet.service -> /dev/null")];
        plans(
            &FIX,
            [
                (
                    "masked",
                    with("masked", &link),
                    &["remove /etc/systemd/system/kubelet.service", "make systemd read its unit files anew"],
                ),
                ("an empty file in its place", with("masked", &[("-rw-r--r--", "kubelet.service")]), &[]),
                ("not masked", with("loaded", &[]), &[]),
            ],
        );
    }
}
