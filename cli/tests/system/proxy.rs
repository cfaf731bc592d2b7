//! Unchanged TCP programs over five hops of a lab: curl and a browser by SOCKS, git over ssh by a
//! fixed port, and a page that curl fetches without knowing of any proxy.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::place::{Place, Running, stderr, wait_for};
use crate::row::Row;

const FARHOP: &str = env!("CARGO_BIN_EXE_farhop");
/// Where the servers are: an address that only the last node has.
const FAR: &str = "192.0.2.1";
const FAR_6: &str = "2001:db8::1";

/// The scenario of six nodes in a row.
fn scenario(place: &Place) -> String {
    let mut text = "name = \"proxy\"\nduration_s = 1\nsecurity = \"off\"\n".to_owned();
    text += "[radio]\nphy = \"802.11a\"\nrate_mbps = 54\n[stack.link]\nkind = \"plain\"\n";
    let names: Vec<String> = (1..=6).map(|number| format!("n{number}")).collect();
    for name in &names {
        text += &format!("[[node]]\nname = \"{name}\"\n");
    }
    for ends in names.windows(2) {
        text += "[[link]]\n";
        text += &format!("between = [\"{}\", \"{}\"]\ndistance_km = 0.05\n", ends[0], ends[1]);
    }
    let file = place.path("proxy.toml");
    fs::write(&file, text).expect("the scenario is written");
    file
}

/// Starts a program in the lab that writes to files of the test.
fn spawn(place: &Place, node: &str, words: &[&str]) -> Running {
    place.spawn(node, words)
}

fn bytes(length: u32) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Waits until something listens at a port of a node.
fn wait_for_port(place: &Place, node: &str, port: u16) {
    let row = format!(":{port:04X} 00000000:0000 0A");
    let row6 = format!(":{port:04X} 00000000000000000000000000000000:0000 0A");
    wait_for("a port", || {
        let out = place.exec(node, &["cat", "/proc/net/tcp", "/proc/net/tcp6"]);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        said.contains(&row) || said.contains(&row6)
    });
}

#[test]
#[ignore = "system: curl, a browser, git over ssh and nftables in a lab of six daemons, about 40 s"]
fn programs_that_know_nothing_of_blocks_ride_on_them() {
    let place = Place::new("proxy");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: sshd and nftables want root");
        return;
    }
    if !place.keep(&scenario(&place)) {
        return;
    }
    for address in [format!("{FAR}/32"), format!("{FAR_6}/128")] {
        let out = place.exec("n6", &["ip", "address", "add", &address, "dev", "lo"]);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    let www = place.path("www");
    fs::create_dir_all(&www).expect("a folder");
    fs::write(place.path("www/page"), bytes(2_000_000)).expect("the page is written");
    let web = ["python3", "-m", "http.server", "8000", "-b", "::", "-d", &www];
    let _web = spawn(&place, "n6", &web);
    let exit = [FARHOP, "exit", "--node", "n6", "--allow", FAR, "--allow", FAR_6];
    let exit = [&exit[..], &["--allow", "127.0.0.1:8000"]].concat();
    let _exit = spawn(&place, "n6", &exit);
    let forward = format!("2222={FAR}:2200");
    let proxy = [FARHOP, "proxy", "--node", "n1", "--exit", "n6", "--socks", "1080"];
    let proxy = [&proxy[..], &["--forward", &forward, "--transparent"]].concat();
    let proxy = spawn(&place, "n1", &proxy);
    wait_for_port(&place, "n6", 8_000);
    wait_for_port(&place, "n1", 1_080);
    curl_fetches_by_socks(&place);
    a_browser_shows_a_page(&place);
    git_clones_over_ssh(&place);
    curl_is_redirected(&place);
    what_a_killed_proxy_left_goes_with_a_start_that_fails(&place);
    what_is_of_this_host_is_not_redirected(&place);
    the_end_of_the_proxy_resets_what_is_redirected(&place, &proxy);
}

/// Also where the reset has to leave by the redirect, which goes with the proxy.
fn the_end_of_the_proxy_resets_what_is_redirected(place: &Place, proxy: &Running) {
    fs::write(place.path("www/large"), bytes(60_000_000)).expect("the page is written");
    let (part, url) = (place.path("part"), format!("http://[{FAR_6}]:8000/large"));
    let fetching = spawn(place, "n1", &["curl", "-sS", "-m", "60", "-o", &part, &url]);
    wait_for("a part of the page", || fs::metadata(&part).is_ok_and(|file| file.len() > 0));
    proxy.signal(rustix::process::Signal::TERM);
    assert_eq!(fetching.end().0, Some(56), "it is reset, and does not wait");
    wait_for("the redirect to be gone", || !tables(place).contains("farhop_proxy"));
}

fn tables(place: &Place) -> String {
    let out = place.exec("n1", &["nft", "list", "tables"]);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Fetches a page; returns the exit status of curl.
fn curl(place: &Place, url: &str, words: &[&str]) -> Option<i32> {
    let copy = place.path("copy");
    let _ = fs::remove_file(&copy);
    let fixed = ["curl", "-sS", "-m", "60", "-o", &copy, url];
    let out = place.exec("n1", &[&fixed[..], words].concat());
    if !out.status.success() {
        println!("{url}: {}", stderr(&out).trim());
    }
    out.status.code()
}

fn assert_copied(place: &Place) {
    let copy = fs::read(place.path("copy")).expect("it was fetched");
    assert!(copy == bytes(2_000_000), "the page came changed: {} bytes", copy.len());
}

fn curl_fetches_by_socks(place: &Place) {
    let socks = ["--socks5-hostname", "127.0.0.1:1080"];
    let start = Instant::now();
    assert_eq!(curl(place, "http://localhost:8000/page", &socks), Some(0));
    println!("2 MB by SOCKS: {:.1} s", start.elapsed().as_secs_f64());
    assert_copied(place);
    // Curl names the reply of the proxy: refused there, and not allowed there.
    assert_eq!(curl(place, &format!("http://{FAR}:81/"), &socks), Some(97));
    assert_eq!(curl(place, "http://127.0.0.1:22/", &socks), Some(97));
}

/// A page of many parts, for which a browser opens several connections at once; where there is one.
fn a_browser_shows_a_page(place: &Place) {
    if std::process::Command::new("chromium").arg("--version").output().is_err() {
        println!("skipped: there is no chromium");
        return;
    }
    let mut page = "<!doctype html><title>far</title><body onload=\"document.title = [...\
        document.images].filter(image => image.naturalWidth == 8).length + ' pictures'\">"
        .to_owned();
    for number in 1..=24 {
        page += &format!("<img src=\"{number}.svg\">");
        let text = "<!-- some weight -->".repeat(500);
        let picture = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\" height=\"8\">";
        let file = place.path(&format!("www/{number}.svg"));
        fs::write(file, format!("{picture}{text}</svg>")).expect("a picture is written");
    }
    fs::write(place.path("www/index.html"), page).expect("the page is written");
    let own = format!("--user-data-dir={}", place.path("browser"));
    let words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"];
    let quiet = ["--disable-background-networking", "--disable-component-update", &own];
    let proxy = ["--proxy-server=socks5://127.0.0.1:1080", "--dump-dom"];
    let url = format!("http://{FAR}:8000/");
    let start = Instant::now();
    let out = place.exec("n1", &[&words[..], &quiet, &proxy, &[&url]].concat());
    println!("a page of 24 pictures in a browser: {:.1} s", start.elapsed().as_secs_f64());
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(shown.contains("<title>24 pictures</title>"), "{shown}\n{}", stderr(&out));
}

fn git_clones_over_ssh(place: &Place) {
    let run = |words: &[&str]| {
        let out = place.exec("n6", words);
        assert!(out.status.success(), "{words:?}: {}", stderr(&out));
    };
    let key = place.path("key");
    run(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &key]);
    let repository = place.path("repository");
    run(&["git", "init", "-q", &repository]);
    fs::write(Path::new(&repository).join("file"), bytes(300_000)).expect("it is written");
    run(&["git", "-C", &repository, "add", "file"]);
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    run(&[&["git", "-C", &repository], &who[..], &["commit", "-qm", "one"]].concat());
    fs::create_dir_all("/run/sshd").expect("a folder that sshd wants");
    let keys = format!("AuthorizedKeysFile={key}.pub");
    let host = format!("HostKey={key}");
    let options = ["-o", &keys, "-o", &host, "-o", "StrictModes=no", "-o", "PidFile=none"];
    let sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-p", "2200"];
    let _sshd = spawn(place, "n6", &[&sshd[..], &options].concat());
    wait_for_port(place, "n6", 2_200);
    let ssh = format!(
        "ssh -p 2222 -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR"
    );
    let start = Instant::now();
    let (from, to) = (format!("root@127.0.0.1:{repository}"), place.path("clone"));
    let out = place
        .exec("n1", &["env", &format!("GIT_SSH_COMMAND={ssh}"), "git", "clone", "-q", &from, &to]);
    assert!(out.status.success(), "{}", stderr(&out));
    println!("git clone over ssh: {:.1} s", start.elapsed().as_secs_f64());
    let file = fs::read(Path::new(&to).join("file")).expect("it was cloned");
    assert!(file == bytes(300_000));
}

fn curl_is_redirected(place: &Place) {
    for prefix in ["192.0.2.0/24", "2001:db8::/64"] {
        let out = place.exec("n1", &["ip", "route", "add", prefix, "dev", "lo"]);
        assert!(out.status.success(), "{}", stderr(&out));
    }
    wait_for("the redirect", || tables(place).contains("farhop_proxy"));
    for host in [FAR, &format!("[{FAR_6}]")] {
        assert_eq!(curl(place, &format!("http://{host}:8000/page"), &[]), Some(0), "{host}");
        assert_copied(place);
    }
    // What is no target of the exit is reset, and does not hang.
    assert_eq!(curl(place, &format!("http://{FAR}:82/"), &[]), Some(56));
}

/// And what a proxy that runs has redirected stays.
fn what_a_killed_proxy_left_goes_with_a_start_that_fails(place: &Place) {
    // No process has so high a number.
    let left = "farhop_proxy_4999999_1";
    let out = place.exec("n1", &["nft", "add", "table", "inet", left]);
    assert!(out.status.success(), "{}", stderr(&out));
    let words = [FARHOP, "proxy", "--node", "n1", "--exit", "nowhere", "--socks", "1081"];
    let out = place.exec("n1", &words);
    assert!(stderr(&out).contains("no node 'nowhere'"), "{}", stderr(&out));
    let tables = tables(place);
    assert!(tables.contains("farhop_proxy") && !tables.contains(left), "{tables}");
}

/// An address that both ends have means each its own.
fn what_is_of_this_host_is_not_redirected(place: &Place) {
    let near = place.path("near");
    fs::create_dir_all(&near).expect("a folder");
    fs::write(place.path("near/page"), bytes(2_000_000)).expect("the page is written");
    fs::write(place.path("www/page"), b"of another host").expect("the page is written");
    let out = place.exec("n1", &["ip", "address", "add", &format!("{FAR}/32"), "dev", "lo"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let _web = spawn(place, "n1", &["python3", "-m", "http.server", "8000", "-d", &near]);
    wait_for_port(place, "n1", 8_000);
    assert_eq!(curl(place, &format!("http://{FAR}:8000/page"), &[]), Some(0));
    assert_copied(place);
}

/// Six daemons on one host.
const NODES: &[&str] = &["hill", "one", "two", "three", "four", "valley"];

#[test]
#[ignore = "system: a download of which the exit's daemon is killed, about 15 s"]
fn a_connection_whose_exit_dies_ends_with_an_error() {
    let place = Place::new("exit");
    let Some(mut row) = Row::up(&place, NODES, 14_911) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    // A server that sends a little and then nothing.
    thread::spawn(move || {
        let mut held = Vec::new();
        for client in listener.incoming() {
            let mut client = client.expect("a client");
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\nbytes";
            std::io::Write::write_all(&mut client, head).expect("it is sent");
            held.push(client);
        }
    });
    let allow = format!("127.0.0.1:{port}");
    let _exit = place.start(&["exit", "--node", "valley", "--allow", &allow]);
    let socks = "14921";
    let _proxy = place.start(&["proxy", "--node", "hill", "--exit", "valley", "--socks", socks]);
    wait_for("the proxy", || std::net::TcpStream::connect(("127.0.0.1", 14_921)).is_ok());
    thread::sleep(Duration::from_millis(500));
    let mut curl = std::process::Command::new("curl");
    let url = format!("http://{allow}/");
    curl.args(["-sSN", "-m", "60", "--socks5-hostname", "127.0.0.1:14921", &url]);
    let mut curl = curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("curl");
    let mut first = [0; 5];
    let stdout = curl.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut first).expect("the first bytes");
    assert_eq!(&first, b"bytes");
    let start = Instant::now();
    row.kill_and_start(5);
    let status = curl.wait().expect("it was started").code();
    let took = start.elapsed();
    assert!(status == Some(56) && took < Duration::from_secs(20), "{status:?} after {took:?}");
    println!("the connection was reset after {:.1} s", took.as_secs_f64());
}

#[test]
#[ignore = "system: a download by an exit whose node is away, about 8 s"]
fn a_client_hears_that_an_exit_that_stays_away_is_not_to_be_reached() {
    let place = Place::new("away");
    let Some(mut row) = Row::patient(&place, &["hill", "ridge", "valley"], 14_951, 4) else {
        return;
    };
    row.kill(2);
    let words = ["proxy", "--node", "hill", "--exit", "valley", "--socks", "14957"];
    let _proxy = place.start(&words);
    wait_for("the proxy", || std::net::TcpStream::connect(("127.0.0.1", 14_957)).is_ok());
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "-m", "60", "--socks5-hostname", "127.0.0.1:14957", "http://192.0.2.9/"]);
    let start = Instant::now();
    let out = curl.output().expect("curl");
    let took = start.elapsed();
    // The reply of the proxy stands in brackets: 4 is "host unreachable" (RFC 1928).
    assert!(out.status.code() == Some(97) && stderr(&out).contains("(4)"), "{}", stderr(&out));
    assert!(took < Duration::from_secs(12), "{took:?}");
}

#[test]
#[ignore = "system: an upload that nobody reads and that is broken off, about 10 s"]
fn an_upload_that_is_broken_off_ends_at_a_target_that_does_not_read() {
    let place = Place::new("upload");
    let Some(_row) = Row::up(&place, &["hill", "ridge", "valley"], 15_011) else { return };
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("it can be");
    let target = format!("127.0.0.1:{}", server.local_addr().expect("a port").port());
    let forward = format!("15017={target}");
    let _exit = place.start(&["exit", "--node", "valley", "--allow", &target]);
    let words = ["proxy", "--node", "hill", "--exit", "valley", "--forward", &forward];
    let _proxy = place.start(&words);
    let mut ends = None;
    // Until the exit listens a connection is refused.
    wait_for("the proxy and the exit", || {
        let Ok(near) = std::net::TcpStream::connect("127.0.0.1:15017") else { return false };
        let limit = Instant::now() + Duration::from_secs(1);
        while Instant::now() < limit && ends.is_none() {
            ends = server.accept().ok().map(|(far, _)| (near.try_clone().expect("a second"), far));
            thread::sleep(Duration::from_millis(10));
        }
        ends.is_some()
    });
    let (mut near, far) = ends.expect("both ends");
    near.set_write_timeout(Some(Duration::from_secs(2))).expect("a time");
    let mut sent = 0;
    while let Ok(length) = std::io::Write::write(&mut near, &[7; 100_000]) {
        sent += length;
    }
    assert!(sent > 1_000_000, "{sent} bytes are on their way");
    rustix::net::sockopt::set_socket_linger(&near, Some(Duration::ZERO)).expect("it can be");
    drop(near);
    let start = Instant::now();
    wait_for("the target to hear of it", || {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut one = [PollFd::new(&far, PollFlags::empty())];
        poll(&mut one, Some(&Timespec::default())).expect("it can be");
        one[0].revents().contains(PollFlags::ERR)
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    println!("reset after {:.1} s, with {sent} bytes on their way", took.as_secs_f64());
}

#[test]
#[ignore = "system: a proxy and an exit that are ended in the middle of a connection, about 5 s"]
fn nobody_takes_a_part_for_the_whole_when_a_proxy_is_ended() {
    let place = Place::new("ended");
    let Some(_row) = Row::up(&place, &["hill", "ridge", "valley"], 14_981) else { return };
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = format!("127.0.0.1:{}", server.local_addr().expect("a port").port());
    let forward = format!("14987={target}");
    for ended in ["proxy", "exit"] {
        let exit = place.start(&["exit", "--node", "valley", "--allow", &target]);
        let words = ["proxy", "--node", "hill", "--exit", "valley", "--forward", &forward];
        let proxy = place.start(&words);
        // Until the exit listens a connection is refused.
        let mut here = None;
        wait_for("the proxy and the exit", || {
            here = std::net::TcpStream::connect("127.0.0.1:14987").ok().filter(|client| {
                let mut first = [0; 5];
                server.set_nonblocking(true).expect("it can be");
                let limit = Instant::now() + Duration::from_secs(1);
                while Instant::now() < limit {
                    if let Ok((mut far, _)) = server.accept() {
                        far.set_nonblocking(false).expect("it can be");
                        std::io::Write::write_all(&mut far, b"bytes").expect("it is sent");
                        std::mem::forget(far);
                        let got = std::io::Read::read_exact(&mut &*client, &mut first);
                        return got.is_ok() && &first == b"bytes";
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                false
            });
            here.is_some()
        });
        // The other one goes on.
        let (running, _other) = if ended == "proxy" { (proxy, exit) } else { (exit, proxy) };
        running.signal(rustix::process::Signal::TERM);
        running.end();
        let mut client = here.expect("it is connected");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        let rest = std::io::Read::read(&mut client, &mut [0]);
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(rest.as_ref().is_err_and(is_reset), "{ended}: {rest:?}");
    }
}
