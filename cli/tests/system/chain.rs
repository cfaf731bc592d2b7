//! A chain of three daemons, the middle one with a radio for each of its neighbours.

use crate::place::{Place, wait_for};

#[test]
#[ignore = "system: iperf3 across three daemons, about 40 s"]
fn iperf3_crosses_a_chain_of_daemons_on_one_channel_and_on_two() {
    for (name, channels) in [("one-channel", [1, 1]), ("two-channels", [1, 6])] {
        let lab = Place::new(name);
        if !lab.keep(&lab.chain(name, channels)) {
            return;
        }
        let slots = lab.status("ridge")["stack"]["link"]["slots"].clone();
        let of = |slot: usize, key: &str| slots[slot][key].as_u64().expect("a number");
        assert_eq!([of(0, "channel"), of(1, "channel")], channels.map(u64::from), "{slots}");
        assert_eq!(of(0, "cluster") == of(1, "cluster"), channels[0] == channels[1], "{slots}");
        let _server = lab.spawn("valley", &["iperf3", "-s"]);
        let measure = || {
            let mut report = serde_json::Value::Null;
            wait_for("iperf3's server", || {
                let words = ["iperf3", "-c", "10.66.0.3", "-t", "10", "--bidir", "-J"];
                let run = lab.exec("hill", &words);
                report = serde_json::from_slice(&run.stdout).expect("iperf3 speaks JSON");
                report["error"].is_null()
            });
            let both = ["sum_received", "sum_received_bidir_reverse"].map(|direction| {
                report["end"][direction]["bits_per_second"].as_f64().expect("a rate") / 1e6
            });
            println!("{name}: {both:.2?} Mb/s");
            both
        };
        // Two nodes carry 3.5 to 3.8 Mb/s each way. A host that is late carries less, but hardly
        // three times in a row.
        let is_enough = |both: [f64; 2]| both.iter().all(|rate| *rate > 2.0);
        assert!((0..3).any(|_| is_enough(measure())), "{name}: too little, three times");
    }
}
