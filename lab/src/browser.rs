//! A real browser without a window: headless Chromium, spoken with over a pipe (the DevTools protocol), ended with its owner.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::demand;
use crate::error::{During, Error, Result, said};
use crate::run::{Run, open_log, which};

/// A page of ours is shown in well under a second; a busy machine may take its time to start a browser.
const DEADLINE: Duration = Duration::from_mins(1);
/// DevTools speaks on descriptors 3 and 4, which only a shell can put there without unsafe code. It becomes the browser.
const ON_DESCRIPTORS: &str = r#"exec "$0" "$@" 3<&0 4>&1 >&2"#;

pub struct Browser {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    calls: u64,
    session: Option<String>,
    /// What it said of its own accord since the page was opened.
    heard: Vec<Value>,
}

/// How a page is looked at.
#[derive(Clone, Copy)]
pub struct View {
    pub width: u32,
    pub height: u32,
    /// `light` or `dark`.
    pub scheme: &'static str,
    /// `screen` or `print`.
    pub media: &'static str,
}

impl Browser {
    /// Starts it; what it writes of its own goes to `folder`.
    pub fn start(folder: &Path) -> Result<Self> {
        let Some(program) = which("chromium") else {
            return said("there is no browser: install Debian's package chromium");
        };
        let home = folder.join("browser");
        fs::create_dir_all(&home).at("make", &home)?;
        let mut command = Run::new("sh")
            .args(["-c", ON_DESCRIPTORS])
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            // It runs as root, as all of the lab, and shows pages of our own making.
            .arg("--no-sandbox")
            // Nothing of its own to be fetched, asked or updated.
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", home.join("profile").display()))
            .env("HOME", &home)
            .into_command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(open_log(&folder.join("browser.log"))?);
        let mut child = command.spawn().during(|| "cannot run chromium".to_owned())?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return said("chromium has no pipes");
        };
        let (tell, answers) = mpsc::channel();
        thread::spawn(move || {
            let messages = BufReader::new(output).split(0).map_while(std::result::Result::ok);
            for message in messages.filter_map(|message| serde_json::from_slice::<Value>(&message).ok()) {
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { child, input, answers, calls: 0, session: None, heard: Vec::new() };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attached = self.call("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}))?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(())
    }

    /// Shows a file.
    pub fn open(&mut self, file: &Path, view: View) -> Result<()> {
        let View { width, height, scheme, media } = view;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": media, "features": features}))?;
        self.heard.clear();
        let gone = self.call("Page.navigate", &json!({"url": address(file)}))?;
        demand!(gone["errorText"].is_null(), "{}: {}", file.display(), gone["errorText"]);
        self.wait_for("Page.loadEventFired")
    }

    /// What was logged, and what was asked of anyone but the file itself, since it was opened.
    pub fn complaints(&self, file: &Path) -> Vec<String> {
        let own = address(file);
        let complaint = |message: &Value| {
            let parameters = &message["params"];
            match message["method"].as_str()? {
                "Runtime.consoleAPICalled" => Some(format!("console: {}", parameters["args"])),
                "Runtime.exceptionThrown" => Some(format!("console: {}", parameters["exceptionDetails"]["text"])),
                "Log.entryAdded" => Some(format!("console: {}", parameters["entry"]["text"])),
                "Network.requestWillBeSent" if parameters["request"]["url"] != own.as_str() => {
                    Some(format!("request: {}", parameters["request"]["url"]))
                }
                _ => None,
            }
        };
        self.heard.iter().filter_map(complaint).collect()
    }

    /// What a function makes of the page. It is not the page's script: the page's policy does not hold it back.
    pub fn evaluate(&mut self, function: &str, argument: u32) -> Result<Value> {
        let expression = format!("({function})({argument})");
        let answer = self.call("Runtime.evaluate", &json!({"expression": expression, "returnByValue": true}))?;
        demand!(answer["exceptionDetails"].is_null(), "measuring: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].clone())
    }

    /// The whole page, not only what the window shows.
    pub fn screenshot(&mut self, to: &Path) -> Result<()> {
        /// No picture is higher than Chromium can make one.
        const HIGHEST: f64 = 16_000.0;
        let size = self.call("Page.getLayoutMetrics", &json!({}))?["cssContentSize"].clone();
        let height = size["height"].as_f64().unwrap_or_default().min(HIGHEST);
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let words = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let answer = self.call("Page.captureScreenshot", &words)?;
        let picture = decoded(&answer["data"])?;
        fs::write(to, picture).at("write", to)
    }

    /// The page on paper.
    pub fn print(&mut self, to: &Path) -> Result<()> {
        let answer = self.call("Page.printToPDF", &json!({"printBackground": true, "preferCSSPageSize": true}))?;
        let pdf = decoded(&answer["data"])?;
        demand!(pdf.starts_with(b"%PDF-") && pdf.len() > 5_000, "it printed {} bytes that are no PDF", pdf.len());
        fs::write(to, pdf).at("write", to)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes()).and_then(|()| self.input.flush());
        sent.during(|| format!("cannot ask the browser for {method}"))?;
        let id = self.calls;
        let answer = self.hear(method, |message| message["id"] == id)?;
        demand!(answer["error"].is_null(), "{method}: {}", answer["error"]["message"]);
        Ok(answer["result"].clone())
    }

    fn wait_for(&mut self, event: &str) -> Result<()> {
        if self.heard.iter().any(|message| message["method"] == event) {
            return Ok(());
        }
        self.hear(event, |message| message["method"] == event).map(drop)
    }

    /// Listens until a message is the wanted one; keeps the others.
    fn hear(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let begun = Instant::now();
        while let Some(left) = DEADLINE.checked_sub(begun.elapsed()) {
            match self.answers.recv_timeout(left) {
                Ok(message) if wanted(&message) => return Ok(message),
                Ok(message) => self.heard.push(message),
                Err(mpsc::RecvTimeoutError::Timeout) => break,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return said(format!("the browser ended before it answered {what}; its log is browser.log"));
                }
            }
        }
        Err(Error::Deadline { what: format!("the browser's {what}"), after: DEADLINE, last: String::new() })
    }

    /// Asks it to go, and ends it where it does not.
    fn end(&mut self) {
        const GRACE: Duration = Duration::from_secs(5);
        self.session = None;
        let _ = self.call("Browser.close", &json!({}));
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.end();
    }
}

fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

fn decoded(data: &Value) -> Result<Vec<u8>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.as_str().unwrap_or_default());
    bytes.map_err(|error| Error::Said(format!("the browser's answer is no base64: {error}")))
}
