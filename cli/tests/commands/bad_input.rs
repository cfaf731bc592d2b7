//! What the program says to a file that is wrong, and what it promises of one that is right.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::folder::{Folder, PAIR, demo, farhop, flat, flow, json, program, refusal, stderr};

/// A good scenario; the tests spoil a line of it each.
fn good() -> String {
    let head = "name = \"bad-input\"\n\n[radio]\nrate_mbps = 11\n\n[stack.link]\nkind = \"wild\"\n";
    format!("{head}\n{PAIR}distance_km = 80\n{}", flow("tcp"))
}

fn scenarios() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut folders = vec![root];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                files.push(path);
            }
        }
    }
    files
}

/// Spoils the good scenario and gives what `check` says to it: status 2 and nothing on stdout.
fn spoiled(test: &str, spoil: &[(&str, &str)]) -> String {
    let folder = Folder::new(test);
    let mut text = good();
    for (good, bad) in spoil {
        assert!(text.contains(good), "nothing to spoil: {good}");
        text = text.replacen(good, bad, 1);
    }
    let said = refusal(&["check", &folder.write("bad.toml", &text)]);
    assert!(said.contains("bad.toml"), "no file: {said}");
    said
}

#[test]
fn the_good_file_is_good() {
    let folder = Folder::new("good");
    let file = folder.write("good.toml", &good());
    assert_eq!(farhop(&["check", &file]).status.code(), Some(0));
}

#[test]
fn each_wrong_thing_is_named_with_its_line_and_what_would_be_right() {
    let link = "between = [\"hill\", \"valley\"]";
    let cases: [(&str, &str, &str, &[&str]); 9] = [
        ("distance_km", "distanc_km", ":17:", &["distanc_km", "did you mean `distance_km`?"]),
        ("= 80", "= -80", ":17:", &["-80 is not a distance", "from 0 to 1000"]),
        ("= 11", "= 12", ":4:", &["no rate of 12 Mb/s", "one of 1, 2, 5.5, 11"]),
        ("to = \"valley\"", "to = \"moon\"", ":21:", &["no node 'moon'", "one of: hill, valley"]),
        ("= 80", "= \"far\"", ":17:", &["string \"far\"", "a number like 12"]),
        ("\"bad-input\"", "\"bad-input", ":1:", &["string", "farhop schema"]),
        ("kind = \"wild\"", "kind = \"wired\"", ":7:", &["`wired`", "`wild`", "`plain`"]),
        (link, "between = [\"hill\", \"hill\"]", ":16:", &["to itself", "two different nodes"]),
        ("name = \"bad-input\"", "duration_s = 0", ":1:", &["name"]),
    ];
    for (index, (good, bad, line, words)) in cases.into_iter().enumerate() {
        let said = spoiled(&format!("case-{index}"), &[(good, bad)]);
        assert!(said.contains(&format!("bad.toml{line}")), "not at {line}: {said}");
        for word in words {
            assert!(said.contains(word), "'{word}' is missing: {said}");
        }
    }
}

/// What `check` says to the good scenario with more text behind it, in one line.
fn with_more(test: &str, more: &str) -> String {
    let folder = Folder::new(test);
    folder.write("nan.csv", "a,0,0\nb,nan,3\n");
    refusal(&["check", &folder.write("bad.toml", &(good() + more))])
}

#[test]
fn impossible_places_layouts_and_faults_are_named() {
    let layout = "[[layout]]\nname = \"n\"\nkind = ";
    let air = "[propagation]\nkind = \"fixed\"\n";
    let cases: [(String, &[&str]); 11] = [
        (format!("{air}{layout}\"file\"\nfile = \"nan.csv\""), &["line 2: 'nan' of 'b'"]),
        (format!("{air}{layout}\"file\"\nfile = \"no.csv\""), &["cannot read no.csv", "No such"]),
        (
            format!("{air}{layout}\"chain\"\ncount = 1000000\nspacing_m = 1"),
            &["1000000 is not a number of nodes", "from 1 to 65000"],
        ),
        (format!("{layout}\"random\"\ncount = 3"), &["random places need an area"]),
        (
            "[[node]]\nname = \"x\"\nposition_m = [0, nan]".into(),
            &["NaN is not a coordinate", "bad.toml:25"],
        ),
        ("[propagation]\nexponent = 4".into(), &["\"links\" has no exponent", "log-distance"]),
        ("[propagation]\nkind = \"range\"".into(), &["a range needs its length"]),
        (
            format!("{air}{layout}\"random\"\ncount = 60000\narea_m = [9, 9]"),
            &["pairs of nodes hear each other", "floor_dbm"],
        ),
        (
            "[[fault]]\nnode = \"hill\"\nfrom_s = 1\nto_s = 5\n\
             [[fault]]\nnode = \"hill\"\nfrom_s = 4\nto_s = 6"
                .into(),
            &["node 'hill' is down from 4 s to 6 s, and from 1 s to 5 s", "from 1 s to 6 s"],
        ),
        (
            "[[node]]\nname = \"x\"\n[[link]]\nbetween = [\"x\", \"hill\"]\n\
             radio = { chanel = 6 }"
                .into(),
            &["unknown field `chanel`", "did you mean `channel`?"],
        ),
        (
            "[[node]]\nname = \"x\"\nradio = { rate_mbps = 7 }".into(),
            &["no rate of 7 Mb/s", "one of 1, 2, 5.5, 11"],
        ),
    ];
    for (index, (more, words)) in cases.into_iter().enumerate() {
        let said = with_more(&format!("space-{index}"), &more);
        for word in words {
            assert!(said.contains(word), "'{word}' is missing: {said}");
        }
    }
}

#[test]
fn what_only_the_simulator_has_is_refused_elsewhere_in_one_line() {
    let folder = Folder::new("several");
    let more = "[[node]]\nname = \"town\"\n[[link]]\nbetween = [\"hill\", \"town\"]\n\
                radio = { channel = 6 }\n";
    // Under `wild` daemons have several radios too.
    let text = format!("{}{more}", good()).replace("\"wild\"", "\"plain\"");
    let file = folder.write("several.toml", &text);
    assert_eq!(farhop(&["check", &file]).status.code(), Some(0));
    for words in [&["lab", &file][..], &["up", &file, "--node", "hill"]] {
        let said = refusal(words);
        assert!(said.contains("'hill' has 2 radios") && said.contains("farhop sim"), "{said}");
    }
}

#[test]
fn all_that_is_impossible_is_said_at_once() {
    let said = spoiled(
        "several",
        &[("= 80", "= -80"), ("= 11", "= 12"), ("name = \"valley\"", "name = \"hill\"")],
    );
    assert!(said.contains("one of: hill "), "{said}");
    for (line, word) in [
        (":17:", "-80 is not a distance"),
        (":4:", "no rate of 12"),
        (":13:", "two nodes are called 'hill'"),
        (":16:", "no node 'valley'"),
        (":21:", "no node 'valley'"),
    ] {
        assert!(said.contains(&format!("bad.toml{line}")), "no {line}: {said}");
        assert!(said.contains(word), "no '{word}': {said}");
    }
}

#[test]
fn all_that_cannot_be_read_is_said_at_once_each_at_its_own_line() {
    let said = spoiled(
        "unreadable",
        &[
            ("rate_mbps", "rate_mbs"),
            ("kind = \"wild\"", "kind = \"wild\"\nslot_mss = 20\nguard_ms = \"long\""),
            ("distance_km = 80", "distance_km = 80\nlosss = 0.1"),
            ("kind = \"tcp\"", "kind = \"tcpp\""),
        ],
    );
    for (line, word) in [
        (":4:", "did you mean `rate_mbps`?"),
        (":8:", "did you mean `slot_ms`?"),
        (":9:", "string \"long\", expected a number"),
        (":20:", "did you mean `loss`?"),
        (":25:", "did you mean `tcp`?"),
    ] {
        assert!(said.contains(&format!("bad.toml{line}")), "no {line}: {said}");
        assert!(said.contains(word), "no '{word}': {said}");
    }
    assert!(said.contains("5 things are wrong"), "{said}");
}

#[test]
fn of_very_many_things_that_are_wrong_the_first_are_told() {
    let flow = |number: usize| {
        format!("[[flow]]\nfrom = \"hill\"\nto = \"moon-{number:03}\"\nkind = \"tcp\"\n")
    };
    let flows = (0..500).map(flow).collect::<String>();
    let said = spoiled("many", &[("[[flow]]", &format!("{flows}[[flow]]"))]);
    let is_told = |word: &str| said.contains(word);
    assert!(is_told("500 things are wrong; the first 20:"), "{}", said.lines().next().unwrap());
    assert!(is_told("moon-019") && !is_told("moon-030"));
}

#[test]
fn an_impossible_value_is_told_beside_a_typing_error() {
    let said = spoiled("both", &[("rate_mbps", "rate_mbs"), ("= 80", "= -80")]);
    for word in ["bad.toml:4:", "did you mean `rate_mbps`?", "bad.toml:17:", "-80 is not"] {
        assert!(said.contains(word), "no '{word}': {said}");
    }
}

#[test]
fn what_a_command_is_asked_for_must_be_in_the_file() {
    let folder = Folder::new("asked");
    let (file, capture) = (folder.write("good.toml", &good()), folder.file("air.pcapng"));
    let commands: [&[&str]; 3] = [
        &["sim", &file, "--pcap", &capture, "--at", "moon"],
        &["up", &file, "--node", "moon"],
        &["demo", "--seconds", "-1"],
    ];
    for words in commands {
        let said = refusal(words);
        assert!(said.contains("moon") || said.contains("0.5 to 3600"), "{words:?}: {said}");
    }
    assert!(!Path::new(&capture).exists(), "a capture of nothing");
}

#[test]
fn what_cannot_be_written_is_named() {
    let folder = Folder::new("unwritable");
    let file = folder.write("good.toml", &good());
    let nowhere = folder.file("no/such/folder.out");
    for option in ["--pcap", "--trace", "--losses"] {
        for place in [&nowhere, &folder.file("")] {
            let said = refusal(&["sim", &file, option, place]);
            assert!(said.contains(place.trim_end_matches('/')), "{said}");
            assert!(said.contains(&format!("{option} takes a file in a folder")), "{said}");
        }
    }
}

#[test]
fn the_page_of_a_run_needs_nothing_else_and_escapes_what_it_was_given() {
    let folder = Folder::new("page");
    let text = good().replace("\"bad-input\"", "\"<script>x</script> & y\"\nduration_s = 1");
    let file = folder.write("page.toml", &(text + "name = \"<b> & c\"\n"));
    let out = folder.file("out");
    assert!(farhop(&["sim", &file, "--out", &out]).status.success());
    let (page, chart) = (folder.read("out/report.html"), folder.read("out/flows.svg"));
    assert!(page.contains("&lt;b&gt; &amp; c") && chart.contains("&lt;b&gt; &amp; c"));
    assert!(!page.contains("<script") && !chart.contains("<script"), "{chart}");
    for outside in ["http://", "https://", "src=", "@import"] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(outside), "the page wants {outside}");
    }
    assert_eq!(page.matches("<svg").count(), 2, "the flows over time, and the air");
    let report: Value = serde_json::from_str(&folder.read("out/report.json")).expect("it is JSON");
    assert_eq!(report["flows"][0]["name"], "<b> & c");
}

#[test]
fn every_command_that_takes_a_file_refuses_a_bad_one_and_builds_nothing() {
    let folder = Folder::new("commands");
    let missing = folder.file("missing.toml");
    let runtime = folder.file("run");
    let commands: [&[&str]; 4] = [&["check"], &["sim"], &["lab"], &["up", "--node", "hill"]];
    for words in commands {
        let out = program()
            .args(words)
            .arg(&missing)
            .env("FARHOP_RUNTIME_DIR", &runtime)
            .output()
            .expect("farhop runs");
        let said = flat(&out);
        assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("missing.toml"), "{words:?}: {said}");
        assert!(said.contains("No such file"), "{words:?}: {said}");
    }
    assert!(!Path::new(&runtime).exists(), "something was half built");
}

#[test]
fn the_schema_has_the_keys_of_a_scenario() {
    let out = farhop(&["schema"]);
    let schema = json(&out);
    assert!(schema["$schema"].as_str().is_some_and(|name| name.contains("json-schema.org")));
    for key in [
        "name",
        "duration_s",
        "seed",
        "area",
        "radio",
        "propagation",
        "interference",
        "mobility",
        "stack",
        "node",
        "layout",
        "link",
        "flow",
        "fault",
    ] {
        assert!(schema["properties"][key].is_object(), "no {key}");
    }
    let of = |name: &str, key: &str| schema["$defs"][name]["properties"][key].is_object();
    assert!(of("RadioLinkConfig", "distance_km"), "{:#}", schema["$defs"]);
    // Every reference leads somewhere.
    let text = String::from_utf8_lossy(&out.stdout);
    for reference in text.split("\"#/$defs/").skip(1) {
        let name = reference.split('"').next().expect("a name");
        assert!(schema["$defs"][name].is_object(), "no definition of {name}");
    }
}

#[test]
fn every_scenario_of_the_repository_passes() {
    let files = scenarios();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let out = farhop(&["check", file.to_str().expect("a plain path")]);
        assert!(out.status.success(), "{}", stderr(&out));
        assert!(String::from_utf8_lossy(&out.stdout).contains("node "));
    }
}

/// The commands that a help lists, but for `help` itself.
fn listed(help: &str) -> Vec<String> {
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_has_examples() {
    let mut commands = vec![vec![]];
    let mut seen = 0;
    while let Some(words) = commands.pop() {
        let all: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let out = farhop(&all);
        let help = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && help.contains("Examples:"), "{words:?}");
        commands.extend(listed(&help).into_iter().map(|name| [&words[..], &[name]].concat()));
        seen += 1;
    }
    assert!(seen > 20, "{seen} commands");
}

#[test]
fn check_tells_what_each_flow_sends_and_who_finds_the_routes() {
    let folder = Folder::new("told");
    let calls = flow("voip") + "voip = { codec = \"g711\" }\n" + &flow("web") + &flow("on-off");
    let text = good() + &calls + "rate_mbps = 2\n\n[stack.routing]\nkind = \"olsr\"\n";
    let text = text + "\n[security]\nmode = \"authenticate-only\"\n";
    let out = farhop(&["check", &folder.write("told.toml", &text)]);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", stderr(&out));
    for words in [
        "routing olsr",
        "from hill to valley, as much as goes, 0 s",
        "a call of 172 B every 20 ms, played up to 60 ms late",
        "pages, read for 30 s in the mean",
        "2 Mb/s in 1440 B for 1 s and nothing for 1 s in the mean",
        "security: frames are authenticated, but whoever is in range can READ",
        "farhop lab would refuse it",
        "no flow of kind \"voip\"",
    ] {
        assert!(said.contains(words), "no '{words}': {said}");
    }
}

#[test]
fn a_seed_decides_what_goes_on_air() {
    let hash = |seed: &str| {
        let report = json(&farhop(&["sim", &demo(), "--json", "--seed", seed]));
        report["trace_hash"].as_str().expect("a hash").to_owned()
    };
    assert_eq!(hash("1"), hash("1"));
    assert_ne!(hash("1"), hash("2"));
}

#[test]
fn random_flows_without_ends_are_refused_at_their_line() {
    let folder = Folder::new("random");
    let random = "[[flow]]\nkind = \"udp\"\nrandom = { count = 20 }\n";
    let file = folder.write("good.toml", &(good() + random));
    assert_eq!(farhop(&["check", &file]).status.code(), Some(0));
    let nodes = "name = \"x\"\nnode = [{ name = \"a\" }, { name = \"b\" }]\n";
    let file = folder.write("apart.toml", &format!("{nodes}{random}"));
    for command in ["check", "sim"] {
        let said = refusal(&[command, &file]);
        assert!(said.contains("apart.toml:5:") && said.contains("0 of 20 flows"), "{said}");
    }
    let layout = "propagation = { kind = \"range\", receive_m = 100 }\n\
                  layout = [{ kind = \"chain\", name = \"n\", count = 5, spacing_m = 90 }]\n";
    let sweep = "[sweep]\nvary = [{ key = \"propagation.receive_m\", values = [100, 50] }]\n";
    let file = folder.write("sweep.toml", &format!("name = \"x\"\n{layout}{random}{sweep}"));
    let said = refusal(&["sim", &file]);
    assert!(said.contains("sweep.toml:8:") && said.contains("0 of 20 flows"), "{said}");
}

#[test]
fn what_is_wrong_far_along_a_line_is_told_by_its_column() {
    let folder = Folder::new("wide");
    for bad in ["name = 3", "name = \"b\", nme = 3", "name = \"a\""] {
        let text = format!(
            "name = \"x\"\nnode = [{{ name = \"a\" }},{}{{ {bad} }}]\n",
            " ".repeat(70_000)
        );
        let said = refusal(&["check", &folder.write("wide.toml", &text)]);
        assert!(said.contains("wide.toml:2:700"), "{said}");
    }
}

#[test]
fn names_that_cannot_be_shown_are_refused() {
    for spoil in [
        ("\"bad-input\"", "\"\\u001b[31m\""),
        ("\"bad-input\"", "\"x\"\ndescription = \"a\\nb\\u0007\""),
        ("kind = \"tcp\"", "kind = \"tcp\"\nname = \"\\uffff\""),
    ] {
        let said = spoiled("names", &[spoil]);
        assert!(said.contains("cannot be shown"), "{said}");
    }
}

#[test]
fn what_only_the_simulator_or_only_a_lab_can_run_is_refused_with_the_file() {
    let folder = Folder::new("bbr");
    let file = folder.write("bbr.toml", &(good() + "congestion = \"bbr\"\n"));
    let capture = folder.file("air.pcapng");
    let said = refusal(&["sim", &file, "--pcap", &capture]);
    assert!(!Path::new(&capture).exists(), "a capture of nothing");
    assert!(said.contains("bbr.toml:23:") && said.contains("BBR"), "{said}");
    assert!(said.contains("farhop lab"), "{said}");
    let random = "[[flow]]\nkind = \"tcp\"\nrandom = { count = 3 }\n";
    let file = folder.write("bbr.toml", &format!("{}{random}congestion = \"bbr\"\n", good()));
    assert!(refusal(&["sim", &file]).contains("bbr.toml:26:"), "at the flow of the file");
    let file = folder.write("call.toml", &(good() + &flow("voip")));
    let said = refusal(&["lab", &file]);
    assert!(said.contains("call.toml: ") && said.contains("no flow of kind \"voip\""), "{said}");
}

#[test]
fn what_finds_no_room_on_standard_output_ends_with_a_reason() {
    let folder = Folder::new("full");
    let good = format!("duration_s = 1\n{}", good());
    let sweep = good.clone() + "[[sweep.vary]]\nkey = \"link[0].loss\"\nvalues = [0, 0.1]\n";
    let (file, sweep) = (folder.write("good.toml", &good), folder.write("sweep.toml", &sweep));
    let commands: [&[&str]; 5] = [
        &["check", &file],
        &["sim", &file],
        &["sim", &sweep],
        &["sim", &sweep, "--json"],
        &["paper"],
    ];
    for command in commands {
        let full =
            std::fs::File::options().write(true).open("/dev/full").expect("it can be opened");
        let out = program().args(command).stdout(full).output().expect("the program was built");
        assert_eq!(out.status.code(), Some(1), "{command:?}");
        assert!(stderr(&out).contains("standard output cannot be written"), "{}", stderr(&out));
    }
    for option in ["--trace", "--pcap", "--losses"] {
        let out = farhop(&["sim", &file, option, "/dev/full"]);
        assert_eq!(out.status.code(), Some(1), "{option}");
        assert!(stderr(&out).contains("cannot write /dev/full"), "{}", stderr(&out));
    }
}

#[test]
fn the_exit_statuses_are_told_of_each_command_that_only_its_user_ends() {
    let help = String::from_utf8(farhop(&["--help"]).stdout).expect("text");
    let (_, told) = help.split_once("Exit status:").expect("it is told");
    let of = |status: &str| {
        told.lines().find(|line| line.trim_start().starts_with(status)).expect(status).to_owned()
    };
    let (done, interrupted) = (of("0 "), of("130 "));
    for command in ["up", "top", "status --watch"] {
        assert!(done.contains(command), "{done}");
    }
    for command in ["receive", "proxy", "exit"] {
        assert!(interrupted.contains(command), "{interrupted}");
    }
}
