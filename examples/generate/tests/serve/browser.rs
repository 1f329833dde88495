//! The chat page in a headless Chromium.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use attn_needs::{Need, needed};
use fantoccini::{Client, ClientBuilder, Locator, key::Key};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Server, Setup};

/// A browser and its driver, which end with the test.
struct Browser {
    client: Client,
    driver: Child,
    port: u16,
    _profile: TempDir,
}

impl Drop for Browser {
    /// The driver ends its browser when it is asked to. If the test has failed, it may be gone already.
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.write_all(b"GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The driver: `CHROMEDRIVER`, or the first of `PATH`.
fn driver() -> Option<Command> {
    let path = std::env::var_os("CHROMEDRIVER").unwrap_or_else(|| "chromedriver".into());
    let mut version = Command::new(&path);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success()).then(|| Command::new(path))
}

impl Browser {
    /// Starts a browser that prefers dark or light pages; `None` where there is none.
    async fn start(dark: bool) -> Option<Self> {
        let hint = "no chromedriver: `apt-get install chromium chromium-driver`, or set CHROMEDRIVER";
        let mut command = needed(Need::Browser, driver().ok_or(hint))?;
        let mut driver =
            command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a driver");
        let lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let (port, profile) = (port.expect("the driver tells its port"), tempfile::tempdir().expect("a folder"));
        let client = connect(port, profile.path(), dark).await;
        Some(Browser { client, driver, port, _profile: profile })
    }

    async fn text(&self, selector: &str) -> String {
        self.client.find(Locator::Css(selector)).await.expect(selector).text().await.expect("a text")
    }

    async fn eval(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("a script")
    }

    /// Waits until the script gives true.
    async fn until(&self, script: &str) {
        let wait = async {
            while self.eval(&format!("return {script}")).await != json!(true) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(15), wait).await.is_err() {
            panic!("not in time: {script}; the page says: {}", self.text("body").await);
        }
    }

    /// Types into the focused element.
    async fn keys(&self, keys: &str) {
        self.client.active_element().await.expect("a focus").send_keys(keys).await.expect("keys");
    }

    /// Writes what is seen to `GENERATE_SCREENSHOTS`, if that is set.
    async fn screenshot(&self, name: &str) {
        if let Some(folder) = std::env::var_os("GENERATE_SCREENSHOTS") {
            let png = self.client.screenshot().await.expect("a screenshot");
            std::fs::write(Path::new(&folder).join(name), png).expect("a file");
        }
    }
}

async fn connect(port: u16, profile: &Path, dark: bool) -> Client {
    let profile = format!("--user-data-dir={}", profile.display());
    let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=900,760",
        &profile,
        &scheme,
    ];
    let capabilities = json!({ "browserName": "chrome", "goog:chromeOptions": { "args": arguments } });
    let Value::Object(capabilities) = capabilities else { unreachable!("an object") };
    let url = format!("http://127.0.0.1:{port}");
    ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&url).await.expect("a browser")
}

/// That the last message has ended.
const ENDED: &str = "document.querySelectorAll('.writing').length === 0 && !document.getElementById('send').hidden";

fn key(key: Key) -> String {
    char::from(key).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_chats() {
    let Some(browser) = Browser::start(false).await else { return };
    let server = Server::start(Setup { step: Duration::from_millis(5), ..Setup::default() }).await;
    browser.client.goto(&server.url("/")).await.expect("a page");
    browser.until("document.getElementById('model').textContent === 'echo'").await;
    browser.eval("document.getElementById('temperature').value = 0").await;

    // the message has the focus from the beginning; Shift and Enter begin a line
    browser.keys(&format!("Hello,{}{}{}world é$", key(Key::Shift), key(Key::Enter), key(Key::Null))).await;
    browser.keys(&key(Key::Enter)).await;
    browser.until(&format!("document.querySelectorAll('article').length === 2 && {ENDED}")).await;
    assert_eq!(browser.text("article.user .what").await, "Hello,\nworld é$");
    assert_eq!(browser.text("article.assistant .what").await, "Hello,\nworld é");
    let figures = browser.text("article.assistant .figures").await;
    assert!(figures.starts_with("first token after ") && figures.contains(" tokens/s · 16 tokens"), "{figures}");
    let status = browser.eval("return document.getElementById('status').textContent").await;
    assert_eq!(status, "The assistant says: Hello,\nworld é", "what a screen reader is told");
    assert_eq!(browser.eval("return document.activeElement.id").await, "message");

    // the next request has the conversation, which begins at most two pages after that of the first
    let before = server.engine.stats().looked_up_tokens;
    browser.keys("Again$\n").await;
    browser.until(&format!("document.querySelectorAll('article').length === 4 && {ENDED}")).await;
    let prompt = "user:Hello,\nworld é$\nassistant:Hello,\nworld é\nuser:Again$\n\u{2}Again$";
    assert_eq!(server.engine.stats().looked_up_tokens - before, prompt.len() as u64);
    browser.screenshot("light.png").await;

    // a new chat forgets it
    browser.client.find(Locator::Id("clear")).await.expect("a button").click().await.expect("a click");
    browser.until("document.querySelectorAll('article').length === 0").await;
    let before = server.engine.stats().looked_up_tokens;
    browser.keys("New$\n").await;
    browser.until(&format!("document.querySelectorAll('article').length === 2 && {ENDED}")).await;
    assert_eq!(server.engine.stats().looked_up_tokens - before, "user:New$\n\u{2}New$".len() as u64);
    server.drained().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_appears_as_it_is_made_and_can_be_stopped() {
    let Some(browser) = Browser::start(true).await else { return };
    let server = Server::start(Setup { step: Duration::from_millis(20), ..Setup::default() }).await;
    browser.client.goto(&server.url("/")).await.expect("a page");
    browser.eval("document.getElementById('temperature').value = 0").await;
    let said = "document.querySelector('article:last-of-type.assistant .what').textContent.length";
    for (stop, articles) in [("button", 2), ("key", 4)] {
        browser.keys("All work and no play makes Jack a dull boy. \n").await;
        browser.until(&format!("document.querySelectorAll('article').length === {articles} && {said} > 5")).await;
        let some = browser.eval(&format!("return {said}")).await.as_u64().expect("a length");
        browser.until(&format!("{said} > {}", some + 5)).await;
        if stop == "button" {
            browser.screenshot("dark.png").await;
            browser.client.find(Locator::Id("stop")).await.expect("a button").click().await.expect("a click");
        } else {
            browser.keys(&key(Key::Escape)).await;
        }
        browser.until(ENDED).await;
        let figures = browser.text("article:last-of-type .figures").await;
        assert!(figures.ends_with(" · stopped"), "{figures}");
        // the server has cancelled the request
        server.drained().await;
    }
    assert!(server.engine.stats().generated_tokens < 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_told_and_can_be_mended() {
    let Some(browser) = Browser::start(false).await else { return };
    let server = Server::start(Setup::default()).await;
    browser.client.goto(&server.url("/")).await.expect("a page");
    browser.eval("document.getElementById('temperature').value = -1").await;
    browser.keys("Hello$\n").await;
    browser.until("document.querySelectorAll('article.failed').length === 1").await;
    let figures = browser.text("article.failed .figures").await;
    assert!(figures.contains("temperature is -1; it must be finite, 0 or more"), "{figures}");
    // the message that failed is no part of the conversation
    browser.eval("document.getElementById('temperature').value = 0").await;
    browser.keys("Hello$\n").await;
    browser.until(&format!("document.querySelectorAll('article').length === 4 && {ENDED}")).await;
    assert_eq!(server.engine.stats().looked_up_tokens, "user:Hello$\n\u{2}Hello$".len() as u64);
    // HTML of a model is text
    browser.keys("<img src=x onerror=alert(1)><b>bold</b>$\n").await;
    browser.until(&format!("document.querySelectorAll('article').length === 6 && {ENDED}")).await;
    assert_eq!(browser.text("article:last-of-type .what").await, "<img src=x onerror=alert(1)><b>bold</b>");
}

/// Every control has a name, and text has a contrast of 4.5 and more (WCAG 2.2, AA), in light and dark.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_for_everyone() {
    let server = Server::start(Setup::default()).await;
    for dark in [false, true] {
        let Some(browser) = Browser::start(dark).await else { return };
        browser.client.goto(&server.url("/")).await.expect("a page");
        browser.eval("document.querySelector('details').open = true").await;
        browser.keys("Hello$\n").await;
        browser.until(&format!("document.querySelectorAll('article').length === 2 && {ENDED}")).await;
        let scheme = browser.eval("return matchMedia('(prefers-color-scheme: dark)').matches").await;
        assert_eq!(scheme, dark);
        let unnamed = browser.eval(
            "return [...document.querySelectorAll('input, textarea, button')]
                .filter(e => !(e.labels?.[0]?.textContent || e.textContent).trim()).map(e => e.id)",
        );
        assert_eq!(unnamed.await, json!([]));
        let faint = browser.eval(include_str!("contrast.js")).await;
        assert_eq!(faint, json!([]), "elements of low contrast, dark: {dark}");
        let wide = browser.eval("return document.documentElement.scrollWidth > window.innerWidth").await;
        assert_eq!(wide, false, "the page scrolls sideways");
        browser.screenshot(if dark { "settings-dark.png" } else { "settings-light.png" }).await;
    }
}
