//! Captures of the air, as Wireshark reads them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::folder::{Folder, PAIR, demo, farhop, flow, stderr};

/// How many frames of a capture pass a filter.
fn tshark(file: &str, filter: &str) -> usize {
    let out = Command::new("tshark")
        .args(["-r", file, "-Y", filter])
        .output()
        .expect("tshark is missing: run scripts/setup.sh");
    assert!(out.status.success(), "{}", stderr(&out));
    String::from_utf8_lossy(&out.stdout).lines().count()
}

#[test]
fn the_packets_of_a_capture_stand_in_the_order_of_their_times() {
    let folder = Folder::new("pcap-order");
    let (there, back) = (flow("udp"), "from = \"valley\"\nto = \"hill\"\nkind = \"udp\"\n");
    let text = format!(
        "name = \"far\"\nduration_s = 1\n{PAIR}distance_km = 80\n{there}\n[[flow]]\n{back}"
    );
    let file = folder.file("air.pcapng");
    let out = farhop(&["sim", &folder.write("far.toml", &text), "--json", "--pcap", &file]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(tshark(&file, "wlan") > 100);
    assert_eq!(tshark(&file, "frame.time_delta < 0"), 0);
}

#[test]
fn a_capture_of_the_air_is_read_by_wireshark() {
    let folder = Folder::new("pcap");
    let file = folder.file("air.pcapng");
    let out = farhop(&["sim", &demo(), "--json", "--pcap", &file, "--at", "valley"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let tshark = |filter: &str| tshark(&file, filter);
    let frames = tshark("radiotap && wlan");
    assert!(frames > 1_000, "{frames} frames");
    assert_eq!(tshark("frame"), frames);
    assert_eq!(tshark("_ws.malformed"), 0);
    assert!(tshark("radiotap.mactime && radiotap.datarate == 11") > 1_000);
}

#[test]
fn what_failed_its_check_is_marked_in_a_capture_and_what_nobody_noticed_is_not_in_it() {
    let folder = Folder::new("pcap-lost");
    let text = format!(
        "name = \"lost\"\nduration_s = 2\nstack.link = {{ kind = \"plain\", mac_ack = false }}\n\
         radio = {{ phy = \"802.11g\", rate_mbps = 24 }}\n\
         {PAIR}loss = {{ kind = \"interferer\", load_mbps = 2 }}\n{}rate_mbps = 4\n\
         size_bytes = 500\n",
        flow("udp")
    );
    let (file, losses) = (folder.file("air.pcapng"), folder.file("lost.csv"));
    let scenario = folder.write("lost.toml", &text);
    let words = ["sim", &scenario, "--json", "--pcap", &file, "--at", "valley"];
    let out = farhop(&[&words[..], &["--losses", &losses]].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    let fates = std::fs::read_to_string(&losses).expect("it was written");
    let fates = |fate: &str| fates.lines().filter(|line| line.ends_with(fate)).count();
    assert!(fates(",crc") > 10 && fates(",preamble") > 50, "both ways to lose a frame");
    assert_eq!(tshark(&file, "radiotap.flags.badfcs == 1"), fates(",crc"));
    assert_eq!(tshark(&file, "radiotap.flags.badfcs == 0"), fates(",ok"));
    let hash = |out: &[u8]| {
        let report: Value = serde_json::from_slice(out).expect("a report");
        report["trace_hash"].as_str().expect("a hash").to_owned()
    };
    let unwatched = farhop(&["sim", &scenario, "--json"]);
    assert_eq!(hash(&out.stdout), hash(&unwatched.stdout), "whoever looks changes nothing");
}

#[test]
fn a_capture_has_what_the_radios_of_the_node_hear_on_their_channels() {
    let folder = Folder::new("pcap-channels");
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/two-radios.toml");
    let scenario = scenario.to_str().expect("a plain path");
    let capture = |node: &str| {
        let file = folder.file(&format!("{node}.pcapng"));
        let out = farhop(&["sim", scenario, "--json", "--pcap", &file, "--at", node]);
        assert!(out.status.success(), "{}", stderr(&out));
        assert_eq!(tshark(&file, "_ws.malformed"), 0);
        let on = |mhz: u16| tshark(&file, &format!("radiotap.channel.freq == {mhz}"));
        assert_eq!(tshark(&file, "frame"), on(2412) + on(2437), "frames of no channel at {node}");
        [on(2412), on(2437)]
    };
    let [hill, village, town] = ["hill", "village", "town"].map(capture);
    assert!(hill.iter().all(|frames| *frames > 1_000), "{hill:?}");
    assert_eq!((village[1], town[0]), (0, 0));
    // One that sends does not hear what comes meanwhile.
    for (near, far) in [(hill[0], village[0]), (hill[1], town[1])] {
        assert!(near.abs_diff(far) < near / 10, "{near} and {far} frames of one channel");
    }
}

#[test]
fn a_capture_names_the_radio_of_a_node_that_a_frame_is_for() {
    let folder = Folder::new("pcap-radios");
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/two-radios.toml");
    let file = folder.file("air.pcapng");
    let scenario = scenario.to_str().expect("a plain path");
    let out = farhop(&["sim", scenario, "--json", "--pcap", &file, "--at", "hill"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let [near, far] = ["02:66:68:00:00:01", "02:66:68:00:00:03"];
    for (channel, own, other) in
        [(2412, "02:66:68:00:00:02", near), (2437, "02:66:68:01:00:02", far)]
    {
        let on = |more: &str| tshark(&file, &format!("radiotap.channel.freq == {channel}{more}"));
        let [to_own, to_other] = [own, other].map(|to| on(&format!(" && wlan.ra == {to}")));
        assert!(to_own > 100 && to_other > 100, "{channel} MHz: {to_own} and {to_other}");
        let to_all = on(" && wlan.ra == ff:ff:ff:ff:ff:ff");
        assert_eq!(to_own + to_other + to_all, on(""), "{channel} MHz: each is for one of them");
    }
}

/// The warnings and errors of Wireshark about the packets of a capture.
fn complaints(file: &str) -> String {
    // Of `_ws.expert.severity`.
    const WARNING: u32 = 0x0060_0000;
    let out = Command::new("tshark")
        .args(["-r", file, "-Y", &format!("_ws.malformed || _ws.expert.severity >= {WARNING}")])
        .args(["-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"])
        .output()
        .expect("tshark is missing: run scripts/setup.sh");
    assert!(out.status.success(), "{}", stderr(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

const DATA: &str = "wlan.fc.type_subtype == 0x20";
const QOS_DATA: &str = "wlan.fc.type_subtype == 0x28";
const BLOCK_ACK: &str = "wlan.fc.type_subtype == 0x19";
const OFDM_5GHZ: &str = "radiotap.channel.flags.ofdm == 1 && radiotap.channel.flags.5ghz == 1";
const OFDM_2GHZ: &str = "radiotap.channel.flags.ofdm == 1 && radiotap.channel.flags.2ghz == 1";
/// The settings of a radio, and what its captures have many of.
const KINDS: [(&str, &[&[&str]]); 7] = [
    (
        "phy = \"802.11b\", preamble = \"long\", rate_mbps = 5.5",
        &[&[DATA, "radiotap.datarate == 5.5 && radiotap.flags.preamble == 0"]],
    ),
    (
        "phy = \"802.11a\", rate_mbps = 54, rts_threshold = 500",
        &[
            &[DATA, OFDM_5GHZ, "radiotap.datarate == 54"],
            &["wlan.fc.type_subtype == 0x1b", "radiotap.datarate == 24 && wlan.duration > 300"],
            &["wlan.fc.type_subtype == 0x1c"],
        ],
    ),
    (
        "phy = \"802.11a\", rate_mbps = 12, width_mhz = 10",
        &[&[DATA, "radiotap.channel.flags.half == 1"]],
    ),
    (
        "phy = \"802.11g\", rate_mbps = 24, edca = true",
        &[&[QOS_DATA, OFDM_2GHZ, "wlan.qos.ack == 0"]],
    ),
    (
        "phy = \"802.11n\", band = \"2.4GHz\", mcs = 7",
        &[&[QOS_DATA, "radiotap.mcs.index == 7 && radiotap.mcs.bw == 0"], &[BLOCK_ACK]],
    ),
    (
        "phy = \"802.11n\", width_mhz = 40, streams = 2, mcs = 15, guard_interval = \"short\"",
        &[
            &[QOS_DATA, "radiotap.mcs.index == 15 && radiotap.mcs.bw == 1 && radiotap.mcs.gi == 1"],
            &["radiotap.ampdu.flags.last == 1"],
        ],
    ),
    (
        "phy = \"802.11ac\", width_mhz = 80, streams = 2, mcs = 9",
        &[
            &[
                QOS_DATA,
                "radiotap.vht.mcs.0 == 9 && radiotap.vht.nss.0 == 2 && radiotap.vht.bw == 4",
            ],
            &[BLOCK_ACK, "wlan.ba.bm"],
        ],
    ),
];

#[test]
fn captures_of_every_kind_of_radio_are_read_by_wireshark_without_a_complaint() {
    let folder = Folder::new("pcap-kinds");
    for (radio, filters) in KINDS {
        let text = format!(
            "name = \"kinds\"\nduration_s = 0.5\nradio = {{ {radio} }}\n\
             stack.link = {{ kind = \"plain\" }}\n{PAIR}distance_km = 0.1\nloss = 0.1\n{}",
            flow("udp")
        );
        let (scenario, file) = (folder.write("kinds.toml", &text), folder.file("air.pcapng"));
        let out = farhop(&["sim", &scenario, "--json", "--pcap", &file, "--at", "valley"]);
        assert!(out.status.success(), "{radio}: {}", stderr(&out));
        assert_eq!(complaints(&file), "", "{radio}");
        assert_eq!(tshark(&file, "frame"), tshark(&file, "radiotap && wlan"), "{radio}");
        for filter in filters {
            let found = tshark(&file, &filter.join(" && "));
            assert!(found > 20, "{radio}: {found} frames with {filter:?}");
        }
    }
}
