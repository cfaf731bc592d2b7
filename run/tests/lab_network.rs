//! Whole labs: real daemons in network namespaces over the emulated air.
//!
//! Each story runs in a process of its own, since a lab isolates the process that holds it, and
//! this program is also what the lab's processes are made of. After each story nothing of it may
//! be left. Where the kernel allows no namespaces, one line says so. As a test of the system, which
//! takes the machine for itself, it runs with `--ignored`.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use farhop_proto::stack::{LossTrace, Scenario};
use farhop_run::daemon::{query, socket_path};
use farhop_run::device::os;
use farhop_run::lab::{self, Lab, LabError, LabOptions, LabState, Process, Progress};
use rustix::process::{Pid, Signal, kill_process};

type Outcome = Result<(), Box<dyn Error>>;
type Story = (&'static str, fn() -> Outcome);

const STORIES: [Story; 7] = [
    ("flows_run_over_real_daemons_and_leave_nothing", flows),
    ("what_the_scenario_cuts_is_cut_and_comes_back", faults),
    ("a_recording_is_played_back_from_the_beginning_of_the_run", recorded),
    ("a_killed_daemon_ends_the_run_but_not_the_air", killed_daemon),
    ("an_interrupted_run_leaves_nothing", interrupted),
    ("a_killed_lab_is_cleaned_up_beside_a_running_one", killed_lab),
    ("an_ordinary_user_has_labs_too", ordinary_user),
];

/// Name of the folder of a story, in the environment of all its processes.
const FOLDER: &str = "FARHOP_RUNTIME_DIR";
/// Exit status of a story that the kernel does not allow.
const REFUSED: u8 = 77;
const PATIENCE: Duration = Duration::from_secs(10);

const PAIR: &str = r#"
name = "pair"
duration_s = 4

[stack.link]
kind = "wild"

[[node]]
name = "hill"
clock = { offset_s = 1, drift_ppm = 50 }

[[node]]
name = "valley"

[[link]]
between = ["hill", "valley"]
distance_km = 40
loss = 0.05

[[flow]]
from = "hill"
to = "valley"
kind = "tcp"

[[flow]]
from = "valley"
to = "hill"
kind = "tcp"

[[flow]]
name = "voice"
from = "hill"
to = "valley"
kind = "udp"
rate_mbps = 0.1
size_bytes = 160
"#;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let outcome = match words.first().map(String::as_str) {
        Some("lab-node") => child(&words, &|dir, name, parent, seed| {
            lab::run_node(dir, name, parent, seed, false).map_err(Into::into)
        }),
        Some("lab-air") => child(&words, &|dir, _, parent, seed| {
            lab::run_air(dir, parent, seed).map_err(Into::into)
        }),
        Some("hold") => hold(&words),
        Some("exec") => exec(&words[1..]),
        Some("story") => story(&words),
        _ => return run_all(&words),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let refused = error.downcast_ref::<LabError>();
            let refused = refused.is_some_and(|error| matches!(error, LabError::Refused(_)));
            if refused { ExitCode::from(REFUSED) } else { ExitCode::FAILURE }
        }
    }
}

// What the other processes of a story do.

fn value<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).map(String::as_str)
}

fn child(words: &[String], run: &dyn Fn(&Path, &str, u32, u64) -> Outcome) -> Outcome {
    let given = |name| value(words, name).ok_or_else(|| format!("{name} is missing"));
    let (dir, node) = (given("--state")?, value(words, "--node").unwrap_or_default());
    run(Path::new(dir), node, given("--parent")?.parse()?, given("--seed")?.parse()?)
}

fn story(words: &[String]) -> Outcome {
    let parent = value(words, "--parent").ok_or("--parent is missing")?;
    if parent != "none" {
        os::die_with_parent(parent.parse()?)?;
    }
    let story = STORIES.iter().find(|(name, _)| *name == words[1]).ok_or("no such story")?;
    (story.1)()
}

/// Holds a lab until it is killed; says its id.
fn hold(words: &[String]) -> Outcome {
    os::die_with_parent(value(words, "--parent").ok_or("--parent is missing")?.parse()?)?;
    lab::isolate()?;
    let lab = start(PAIR)?;
    println!("{}", lab.state().id);
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Runs a program in a node: the id of the lab, the node, the program.
fn exec(words: &[String]) -> Outcome {
    Err(lab::exec(&lab::find(Some(&words[0]))?, &words[1], &words[2..]).into())
}

// The test itself.

fn run_all(words: &[String]) -> ExitCode {
    let has = |name: &str| words.iter().any(|word| word == name);
    if has("--list") {
        STORIES.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let is_asked_for = has("--ignored") || has("--include-ignored");
    let after_threads = words.iter().position(|word| word == "--test-threads").map(|at| at + 1);
    let filters: Vec<&String> = words
        .iter()
        .enumerate()
        .filter(|(at, word)| !word.starts_with('-') && Some(*at) != after_threads)
        .map(|(_, word)| word)
        .collect();
    let mut failed = 0;
    for (name, _) in STORIES {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        if !is_asked_for {
            println!("test {name} ... ignored, system: daemons in namespaces");
            continue;
        }
        match tell(name) {
            Ok(note) => println!("test {name} ... {note}"),
            Err(error) => {
                failed += 1;
                println!("test {name} ... FAILED: {error}");
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a story in a process of its own, and looks at what it left.
fn tell(name: &str) -> Result<String, Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("farhop-lab-test-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let output = Command::new(env::current_exe()?)
        .args(["story", name, "--parent", &std::process::id().to_string()])
        .env(FOLDER, &folder)
        .output()?;
    let left = wait_until(|| left_over(&folder).is_empty());
    let report = match (output.status.code(), left) {
        (Some(0), true) => Ok("ok".into()),
        (Some(code), true) if code == i32::from(REFUSED) => {
            let said = String::from_utf8_lossy(&output.stderr);
            farhop_testkit::skip(said.trim());
            Ok("skipped".into())
        }
        (_, true) => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
        (_, false) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("it left {:?}; {said}", left_over(&folder)).into())
        }
    };
    fs::remove_dir_all(&folder)?;
    report
}

/// Processes of a story that still run, and folders of labs that are still there.
fn left_over(folder: &Path) -> Vec<String> {
    let mark = format!("{FOLDER}={}", folder.display());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|line| line == mark.as_bytes())
    });
    let labs = fs::read_dir(folder.join("labs")).into_iter().flatten().flatten();
    processes.chain(labs).map(|entry| entry.path().display().to_string()).collect()
}

fn wait_until(mut is_true: impl FnMut() -> bool) -> bool {
    let limit = Instant::now() + PATIENCE;
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(scenario: &str) -> Result<Lab, Box<dyn Error>> {
    start_lab(&farhop_testkit::scenario(scenario))
}

fn start_lab(scenario: &Scenario) -> Result<Lab, Box<dyn Error>> {
    let options = LabOptions { seed: None, program: env::current_exe()? };
    Ok(Lab::start(scenario, &options, &mut |_| true)?)
}

fn kill(process: &Process) -> Outcome {
    assert!(process.is_alive());
    Ok(kill_process(Pid::from_raw(process.pid as i32).ok_or("no pid")?, Signal::KILL)?)
}

/// Names of the interfaces in this namespace.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    let mut names: Vec<String> = names.filter(|name| name.starts_with("air")).collect();
    names.sort();
    names
}

// The stories.

fn flows() -> Outcome {
    lab::isolate()?;
    let mut lab = start(PAIR)?;
    assert_eq!(interfaces(), ["air0", "air1"]);
    let mut last = 0.0;
    let report = lab.run_flows(&mut |progress| {
        if let Progress::Running(passed, all) = progress {
            assert!(passed >= last && passed <= all);
            last = passed;
        }
        true
    })?;
    for flow in &report.flows[..2] {
        assert!(flow.goodput_mbps > 0.5, "{}: {} Mb/s", flow.name, flow.goodput_mbps);
        let bins: f64 = flow.over_time_mbps.iter().sum::<f64>() * flow.bin_s * 1e6 / 8.0;
        let delivered = flow.delivered_bytes as f64;
        assert!(flow.over_time_mbps.len() >= 38 && bins > delivered * 0.9, "{bins} {delivered}");
        assert!(flow.sent_bytes >= flow.delivered_bytes && flow.retransmissions.is_some());
    }
    let voice = &report.flows[2];
    assert!(voice.loss.ok_or("no loss")? < 0.05, "{voice:?}");
    // 40 km are 0.13 ms; a datagram waits for a slot, not for a second.
    let delay = voice.delay_ms.ok_or("no delay")?;
    assert!(delay.p50 > 0.13 && delay.p50 < 1_000.0, "{delay:?}");
    assert!(voice.jitter_ms.ok_or("no jitter")?.p50 > 0.0);
    let lateness = report.lateness.as_ref().ok_or("no lateness")?;
    let names: Vec<&str> = lateness.processes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["air", "hill", "valley"]);
    assert!(lateness.processes.iter().all(|one| one.wakeups > 50), "{lateness:?}");
    assert!(lateness.slots > 150 && report.frames_on_air > 500, "{report:?}");
    let dir = lab.state().dir();
    assert!(dir.exists());
    drop(lab);
    assert!(!dir.exists());
    assert!(wait_until(|| interfaces().is_empty()), "{:?}", interfaces());
    Ok(())
}

fn faults() -> Outcome {
    lab::isolate()?;
    let steady = PAIR.split("[[flow]]").next().unwrap_or_default().replace("= 4", "= 8").replace(
        "loss = 0.05",
        "loss = 0
         [[flow]]
         from = 'hill'
         to = 'valley'
         kind = 'udp'
         rate_mbps = 0.4
         [[fault]]
         link = ['valley', 'hill']
         from_s = 1
         to_s = 2.5
         [[fault]]
         node = 'valley'
         from_s = 4.5
         to_s = 6",
    );
    let mut lab = start(&steady)?;
    let report = lab.run_flows(&mut |_| true)?;
    let bins = &report.flows[0].over_time_mbps;
    let mean = |from: f64, to: f64| {
        let part = &bins[(from * 10.0) as usize..(to * 10.0) as usize];
        part.iter().sum::<f64>() / part.len() as f64
    };
    // What was on its way may still come in the first tenths; a second later it is back in step.
    for (from, to) in [(0.3, 1.0), (3.5, 4.5), (7.0, 7.9)] {
        assert!(mean(from, to) > 0.3, "from {from} to {to} s: {bins:?}");
    }
    for (from, to) in [(1.2, 2.5), (4.7, 6.0)] {
        assert!(mean(from, to) < 0.01, "from {from} to {to} s: {bins:?}");
    }
    Ok(())
}

fn recorded() -> Outcome {
    lab::isolate()?;
    let text = PAIR.split("[[flow]]").next().unwrap_or_default().replace(
        "loss = 0.05",
        "loss = { kind = 'trace', file = 'losses.csv' }
         [[flow]]
         from = 'hill'
         to = 'valley'
         kind = 'udp'
         rate_mbps = 0.4",
    );
    let recording = "time_ns,link,fate\n0,a>b,crc\n1500000000,a>b,ok\n4000000000,a>b,end\n";
    let recording = LossTrace::parse(recording, None)?;
    let mut scenario = farhop_testkit::scenario(&text);
    let (_, loss) = scenario.losses_mut().next().ok_or("no loss")?;
    loss.recordings_mut().pop().ok_or("no recording")?.recording = Some(recording.into());
    let report = start_lab(&scenario)?.run_flows(&mut |_| true)?;
    let bins = &report.flows[0].over_time_mbps;
    assert!(bins[..14].iter().all(|rate| *rate == 0.0), "{bins:?}");
    assert!(bins[25..39].iter().sum::<f64>() > 14.0 * 0.3, "{bins:?}");
    Ok(())
}

fn killed_daemon() -> Outcome {
    lab::isolate()?;
    let mut lab = start(PAIR)?;
    let (_, valley) = lab.state().nodes[1].clone();
    let air = socket_path(&lab.state().dir(), "@air");
    let outcome = lab.run_flows(&mut |progress| {
        if let Progress::Running(passed, _) = progress
            && passed > 0.5
            && valley.is_alive()
        {
            kill(&valley).expect("our own process");
        }
        true
    });
    match outcome {
        Err(LabError::Ended { name, .. }) if name == "valley" => {}
        other => return Err(format!("not the end of valley: {other:?}").into()),
    }
    // The network of the dead is the lab's until that ends; the air serves on.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(interfaces(), ["air0", "air1"]);
    query(&air)?;
    drop(lab);
    assert!(wait_until(|| interfaces().is_empty()), "{:?}", interfaces());
    Ok(())
}

fn interrupted() -> Outcome {
    lab::isolate()?;
    let mut lab = start(PAIR)?;
    let begin = Instant::now();
    let outcome = lab.run_flows(
        &mut |progress| !matches!(progress, Progress::Running(passed, _) if passed > 0.5),
    );
    assert!(matches!(outcome, Err(LabError::Interrupted)), "{outcome:?}");
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    Ok(())
}

/// A lab that another process holds.
fn held() -> Result<(Child, LabState), Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["hold", "--parent", &std::process::id().to_string()]);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().ok_or("no output")?;
    let id = BufReader::new(out).lines().next();
    match id {
        Some(id) => Ok((child, lab::find(Some(&id?))?)),
        None => {
            let status = child.wait()?;
            let refused = status.code() == Some(i32::from(REFUSED));
            let said = "the kernel refuses".to_owned();
            Err(if refused { LabError::Refused(said).into() } else { said.into() })
        }
    }
}

fn in_node(lab: &LabState, node: &str, words: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["exec", &lab.id, node]).args(words);
    // One that is left over must not keep this test's own pipes open.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

fn killed_lab() -> Outcome {
    let (mut first, killed) = held()?;
    let (mut second, other) = held()?;
    assert_eq!(lab::list().len(), 2);
    assert!(lab::find(None).is_err_and(|error| error.to_string().contains(&other.id)));
    let mut seen = in_node(&killed, "hill", &["cat", "/proc/net/dev"])?;
    let seen = seen.stdout(Stdio::piped()).output()?;
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("farhop0:") && seen.contains("radio0:"), "{seen}");
    assert!(lab::exec(&killed, "nobody", &["true"]).to_string().contains("hill, valley"));

    let mut strays = [
        in_node(&killed, "hill", &["sleep", "60"])?.spawn()?,
        in_node(&killed, "valley", &["env", "-i", "sleep", "60"])?.spawn()?,
    ];
    let mut neighbour = in_node(&other, "hill", &["env", "-i", "sleep", "60"])?.spawn()?;
    let is_asleep = |child: &Child| {
        let text = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap_or_default();
        text.starts_with(b"sleep")
    };
    assert!(wait_until(|| strays.iter().chain([&neighbour]).all(is_asleep)));
    first.kill()?;
    first.wait()?;
    let nodes = killed.nodes.iter().map(|(_, process)| process);
    let all: Vec<&Process> = nodes.chain(killed.air.as_ref()).collect();
    assert_eq!(all.len(), 3);
    assert!(wait_until(|| all.iter().all(|process| !process.is_alive())));
    assert!(killed.dir().exists() && !killed.is_alive());
    assert!(strays[0].try_wait()?.is_none() && strays[1].try_wait()?.is_none());

    assert_eq!(lab::down(Some(&killed.id), false)?, std::slice::from_ref(&killed.id));
    assert!(!killed.dir().exists());
    let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
    assert!(wait_until(|| strays.iter_mut().all(has_ended)), "a program outlived its lab");
    assert!(lab::down(Some(&killed.id), false).is_err());
    assert!(neighbour.try_wait()?.is_none(), "a program of another lab was killed");
    assert!(other.is_alive() && lab::find(None)?.id == other.id);
    let busy = lab::down(None, false).expect_err("somebody may wait for it").to_string();
    assert!(busy.contains("has flows that run"), "{busy}");
    assert_eq!(lab::down(Some(&other.id), false)?, std::slice::from_ref(&other.id));
    assert!(wait_until(|| has_ended(&mut neighbour)), "a program outlived its lab");
    second.wait()?;
    assert_eq!(lab::list().len(), 0);
    Ok(())
}

/// The flows once more, by a user without rights. Only root can make this user, and give it a TUN
/// device in a mount namespace of its own where the machine's is closed.
fn ordinary_user() -> Outcome {
    let missing = |what: &str| LabError::Refused(format!("{what} to become an ordinary user"));
    if !rustix::process::geteuid().is_root() {
        lab::isolate()?;
        return Err(missing("this needs root").into());
    }
    let folder = PathBuf::from(env::var_os(FOLDER).ok_or("no folder")?);
    let (program, home) = (folder.join("test"), folder.join("home"));
    fs::copy(env::current_exe()?, &program)?;
    fs::create_dir(&home)?;
    std::os::unix::fs::chown(&home, Some(65_534), Some(65_534))?;
    let script = "mount -t tmpfs none /mnt && mknod -m 666 /mnt/tun c 10 200 && \
        mount --bind /mnt/tun /dev/net/tun && umount -l /mnt && \
        exec setpriv --reuid 65534 --regid 65534 --clear-groups env -i \
        PATH=\"$PATH\" XDG_RUNTIME_DIR=\"$2\" \"$1\" story \"$3\" --parent none";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .args([&program, &home])
        .arg(STORIES[0].0)
        .output()
        .map_err(|_| missing("there is no `unshare`"))?;
    if output.status.success() {
        let left: Vec<_> = fs::read_dir(home.join("farhop/labs"))?.collect();
        assert!(left.is_empty(), "{left:?}");
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let refused = output.status.code() == Some(i32::from(REFUSED));
    Err(if refused { LabError::Refused(said).into() } else { said.into() })
}
