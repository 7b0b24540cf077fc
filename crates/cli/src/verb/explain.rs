//! `carrick explain ID`: what an id means, why it matters, how to see it, how to mend it.

use carrick_core::check::{self, CHECKS, Registered};
use carrick_core::report::nearest;

use crate::exit::{Exit, Failure};
use crate::render::wrap::reflow;
use crate::terminal::{BOLD, DIM, print, styled};

/// Explain an id that Carrick prints: what it means, why it matters for a join, how to mend it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An id such as kubelet.standalone, or one of kubeadm's names such as Port-10250; none lists them all
    id: Option<String>,
}

pub fn run(args: &Args) -> Result<Exit, Failure> {
    let text = match &args.id {
        None => list(),
        Some(id) => find(id)?.into_iter().map(explain).collect::<Vec<_>>().join("\n"),
    };
    print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(Exit::Ok)
}

fn find(id: &str) -> Result<Vec<&'static Registered>, Failure> {
    let found: Vec<&Registered> = check::find(id).collect();
    if found.is_empty() {
        let hint = nearest(id).map_or("carrick explain lists them all".to_owned(), |id| format!("did you mean {id}?"));
        return Err(Failure::usage(format!("{id:?} is not an id of Carrick's; {hint}")));
    }
    Ok(found)
}

fn explain(Registered { check, explain, .. }: &Registered) -> String {
    let aliases = match check.kubeadm {
        [] => String::new(),
        names => format!("\n\nkubeadm calls it: {}", names.join(", ")),
    };
    let subsystem = styled(DIM, check.subsystem.name());
    let text = reflow(explain, crate::terminal::width());
    format!("{}  {subsystem}\n\n{text}{aliases}\n", styled(BOLD, check.id))
}

fn list() -> String {
    let width = CHECKS.iter().map(|registered| registered.check.id.len()).max().unwrap_or_default();
    CHECKS.iter().map(|Registered { check, .. }| format!("{:width$}  {}\n", check.id, check.title)).collect()
}
