//! Ctrl-C and SIGTERM: the run ends in order. Whatever it waits for is given up, and it takes away what it made, in seconds.
//! Asked a second time it ends at once, and the next run takes away what is left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{During, Error, Result};
use crate::say;

static ASKED: AtomicBool = AtomicBool::new(false);

/// As a shell has it: 128 and SIGINT.
pub const EXIT: u8 = 130;

/// Listens from now on, on a thread of its own.
pub fn listen() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.during(|| "cannot listen for signals".to_owned())?;
    let signals = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)))
    };
    let (mut interrupt, mut terminate) = signals.during(|| "cannot listen for signals".to_owned())?;
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if ASKED.swap(true, Ordering::Relaxed) {
                    say::line("asked again: ending at once; the next run takes away what is left");
                    std::process::exit(EXIT.into());
                }
                say::line("asked to stop: taking away what this run made");
            }
        });
    });
    Ok(())
}

pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// For whoever is about to wait, or to begin something.
pub fn check() -> Result<()> {
    if asked() { Err(Error::Stopped) } else { Ok(()) }
}
