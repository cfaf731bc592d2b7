//! Applications of flows, over a clean link of 802.11b.

use farhop_sim::engine::{FlowReport, RunOptions, run};

use super::report;

/// Runs a link with these flows.
fn flows(secs: u32, flows: &str) -> Vec<FlowReport> {
    let text = format!(
        "name = \"applications\"\nduration_s = {secs}\n\
         node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         link = [{{ between = [\"a\", \"b\"], distance_km = 1 }}]\n\
         [radio]\nphy = \"802.11b\"\npreamble = \"short\"\nrate_mbps = 11\n{flows}"
    );
    let scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    run(&scenario, RunOptions::default()).expect("it runs").flows
}

fn flow(text: &str) -> String {
    format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\n{text}\n")
}

#[test]
fn an_on_off_source_sends_half_of_the_time() {
    let fixed = "kind = \"on-off\"\nrate_mbps = 2\n\
                 on_off = { on_s = 0.5, off_s = 0.5, exponential = false }";
    let drawn = "kind = \"on-off\"\nrate_mbps = 2\non_off = { on_s = 0.5, off_s = 0.5 }";
    let found = flows(200, &(flow(fixed) + &flow(drawn)));
    assert!((found[0].goodput_mbps - 1.0).abs() < 0.02, "{}", found[0].goodput_mbps);
    // 200 periods of exponential times: within three deviations of the mean.
    assert!((found[1].goodput_mbps - 1.0).abs() < 0.2, "{}", found[1].goodput_mbps);
    // A bin of 1 s holds half a second of sending.
    let silent = found[1].over_time_mbps.iter().filter(|mbps| **mbps < 0.01).count();
    assert!(silent > 5, "{silent} silent seconds");
    assert_eq!(found[0].loss, Some(0.0));
}

#[test]
fn a_file_tells_how_long_it_took() {
    let found = flows(20, &flow("kind = \"tcp\"\nbytes = 1000000\nstart_s = 3"));
    let took = found[0].completed_s.expect("it came whole");
    assert!((1.4..2.5).contains(&took), "{took} s");
    assert!((found[0].goodput_mbps - 8.0 / took).abs() < 1e-6);
    let found = flows(20, &flow("kind = \"tcp\"\nbytes = 100000000"));
    assert_eq!(found[0].completed_s, None);
}

#[test]
fn many_files_and_pages_come_whole_beside_each_other() {
    // More than a sender takes at once, so that each source writes again and again.
    let file = flow("kind = \"tcp\"\nbytes = 200000");
    let page = flow("kind = \"web\"\nweb = { think_s = 0.5 }");
    let found = flows(60, &(file.repeat(20) + &page.repeat(5)));
    let (files, pages) = found.split_at(20);
    assert!(files.iter().all(|file| file.delivered_bytes == 200_000), "{files:?}");
    assert!(files.iter().all(|file| file.completed_s.is_some()), "{files:?}");
    assert!(pages.iter().all(|web| web.objects.is_some_and(|all| all.pages > 5)), "{pages:?}");
}

#[test]
fn pages_come_object_by_object() {
    let web = "kind = \"web\"\ncongestion = \"cubic\"\nweb = { think_s = 0.5 }";
    let found = flows(200, &flow(web));
    let objects = found[0].objects.expect("objects of pages");
    assert!(objects.pages > 60, "{objects:?}");
    // A main object and 5.6 others.
    let per_page = objects.count as f64 / objects.pages as f64;
    assert!((4.5..9.0).contains(&per_page), "{per_page} objects a page");
    let (object, page) = (objects.completion_ms.expect("times"), objects.page_ms.expect("times"));
    assert!(page.p50 > object.p50 && object.p50 > 2.0, "{objects:?}");
    assert_eq!(objects.failed, 0);
    assert_eq!(found, flows(200, &flow(web)));
}

#[test]
fn a_call_is_worse_beside_a_transfer_through_a_deep_queue() {
    let call = flow("kind = \"voip\"\nvoip = { codec = \"g711\" }");
    let alone = flows(30, &call)[0].voip.expect("a score");
    assert!(alone.mos > 4.2 && alone.loss == 0.0, "{alone:?}");
    let beside = flows(30, &(call + &flow("kind = \"tcp\"")))[0].voip.expect("a score");
    // 50 packets of 1.5 ms each come before a packet of the call.
    assert!(beside.mos < alone.mos - 0.1, "{beside:?}");
}

/// Flows of a chain of three nodes whose radios have access categories.
fn flows_over_a_relay(flows: &str) -> Vec<FlowReport> {
    let text = format!(
        "name = \"categories\"\nduration_s = 30\n\
         node = [{{ name = \"a\" }}, {{ name = \"relay\" }}, {{ name = \"b\" }}]\n\
         link = [{{ between = [\"a\", \"relay\"] }}, {{ between = [\"relay\", \"b\"] }}]\n\
         [radio]\nphy = \"802.11a\"\nrate_mbps = 24\nedca = true\n{flows}"
    );
    report(&text).flows
}

#[test]
fn a_call_keeps_its_place_where_access_categories_contend() {
    let call = |dscp: &str| flow(&format!("kind = \"voip\"\n{dscp}"));
    let transfer = flow("kind = \"udp\"");
    let alone = &flows_over_a_relay(&call(""))[0];
    let beside = &flows_over_a_relay(&(call("") + &transfer))[0];
    let unmarked = &flows_over_a_relay(&(call("dscp = 0") + &transfer))[0];
    let mos = |flow: &FlowReport| flow.voip.expect("a score").mos;
    // It waits for frames on air, and for no packet: in no queue, nor behind any.
    assert!(mos(beside) > mos(alone) - 0.1, "{:?}", beside.voip);
    assert_eq!(beside.loss, Some(0.0));
    let p95 = |flow: &FlowReport| flow.delay_ms.expect("delays").p95;
    assert!(p95(beside) < p95(alone) + 6.0, "{} ms", p95(beside));
    assert!(p95(unmarked) > p95(beside) + 20.0, "{} ms", p95(unmarked));
}

#[test]
fn each_access_category_has_its_share() {
    let mark = |dscp: &str| flow(&format!("kind = \"udp\"\ndscp = {dscp}"));
    let found = flows_over_a_relay(&["8", "0", "34", "46"].map(mark).concat());
    let rates: Vec<f64> = found.iter().map(|flow| flow.goodput_mbps).collect();
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
    assert!(rates[3] > 10.0 * rates[1], "{rates:?}");
}

#[test]
fn only_the_window_is_measured() {
    let udp = "kind = \"udp\"\nrate_mbps = 1\nstart_s = 5\nmeasure_from_s = 10";
    let found = flows(20, &flow(udp));
    assert!((found[0].goodput_mbps - 1.0).abs() < 0.01, "{}", found[0].goodput_mbps);
    assert!(found[0].delivered_bytes > 1_800_000);
    // Saturated TCP without its slow start is no slower than with it.
    let whole = flows(4, &flow("kind = \"tcp\""))[0].goodput_mbps;
    let later = flows(4, &flow("kind = \"tcp\"\nmeasure_from_s = 2"))[0].goodput_mbps;
    assert!(later > 0.995 * whole, "{later} Mb/s, {whole} with the start");
}

#[test]
fn settings_of_tcp_reach_the_connection() {
    let plain = flows(10, &flow("kind = \"tcp\""));
    let lazy = flows(10, &flow("kind = \"tcp\"\ntcp = { delayed_ack = 4 }"));
    assert!(lazy[0].goodput_mbps > 1.03 * plain[0].goodput_mbps, "fewer acknowledgements");
    let ns3 = flows(10, &flow("kind = \"tcp\"\ntcp = { preset = \"ns3\" }"));
    assert!(ns3[0].goodput_mbps < 0.85 * plain[0].goodput_mbps, "small segments, many ACKs");
}

#[test]
fn red_keeps_the_queue_short_and_marks_save_repetitions() {
    let link = "[stack.link]\nkind = \"plain\"\nqueue_packets = 100\n";
    let red = format!("{link}queue = {{ kind = \"red\", min_packets = 5, max_packets = 15 }}\n");
    let both = |ecn: bool| {
        flow(&format!("kind = \"tcp\"\nmeasure_from_s = 10\ntcp = {{ ecn = {ecn} }}"))
            + &flow("kind = \"udp\"\nmeasure_from_s = 10\nrate_mbps = 0.05\nsize_bytes = 100")
    };
    let tail = flows(30, &(link.to_owned() + &both(false)));
    let dropped = flows(30, &(red.clone() + &both(false)));
    let marked = flows(30, &(red + &both(true)));
    let delay = |flows: &[FlowReport]| flows[1].delay_ms.expect("packets came").p50;
    assert!(delay(&marked) < 0.5 * delay(&tail), "{} {}", delay(&marked), delay(&tail));
    assert!(delay(&dropped) < 0.5 * delay(&tail));
    // What slow start poured in before the mean had followed is dropped in both.
    let again = |flows: &[FlowReport]| flows[0].retransmissions.expect("tcp");
    assert!(again(&marked) * 3 < again(&dropped), "{} {}", again(&marked), again(&dropped));
    let (short, long) = (marked[0].goodput_mbps, tail[0].goodput_mbps);
    assert!(short > 0.9 * long, "{short} Mb/s, {long} with a long queue");
}

/// The first flow's report where a node is off from one second to another, of twenty.
fn beside_an_outage(node: &str, from_s: u32, to_s: u32, text: &str) -> FlowReport {
    let fault = format!("[[fault]]\nnode = \"{node}\"\nfrom_s = {from_s}\nto_s = {to_s}\n");
    flows(20, &(flow(text) + &fault)).remove(0)
}

#[test]
fn what_comes_after_the_last_datagram_is_lost_too() {
    let udp = "kind = \"udp\"\nrate_mbps = 1";
    let later = format!("{udp}\nmeasure_from_s = 6.5");
    for node in ["a", "b"] {
        let loss = |from_s, to_s, text: &str| {
            beside_an_outage(node, from_s, to_s, text).loss.expect("datagrams")
        };
        // Those of the last second may be on their way, and some wait in a queue.
        let of_most = loss(5, 20, udp);
        assert!((of_most - 14.0 / 19.0).abs() < 0.08, "{node}: {of_most}");
        let of_middle = loss(5, 10, udp);
        assert!((0.15..0.25).contains(&of_middle), "{node}: {of_middle}");
        let of_all = loss(0, 20, udp);
        assert_eq!(of_all, 1.0, "{node}");
        // Of an outage before measuring nothing counts.
        let before = loss(2, 5, &later);
        assert!(before < 0.02, "{node}: {before}");
    }
}

#[test]
fn a_call_that_breaks_off_is_a_bad_call() {
    let call = "kind = \"voip\"\nvoip = { codec = \"g711\" }";
    let voip = |from_s, to_s| beside_an_outage("b", from_s, to_s, call).voip.expect("a score");
    let (broken, dead) = (voip(5, 20), voip(0, 20));
    assert!((broken.loss - 14.0 / 19.0).abs() < 0.02 && broken.mos < 2.5, "{broken:?}");
    assert_eq!((dead.loss, dead.mos, dead.r_factor), (1.0, 1.0, 0.0));
}

#[test]
fn a_file_that_is_there_before_measuring_is_measured_from_its_start() {
    let found = flows(20, &flow("kind = \"tcp\"\nbytes = 1000000\nmeasure_from_s = 10"));
    let took = found[0].completed_s.expect("it came whole");
    assert!(took < 3.0 && (found[0].goodput_mbps - 8.0 / took).abs() < 1e-6, "{found:?}");
}

#[test]
fn the_delay_is_not_that_of_clocks_that_drift_apart() {
    let text = "name = \"drift\"\nduration_s = 300\n\
         node = [{ name = \"a\", clock = { drift_ppm = 80, offset_s = 3 } }, { name = \"b\" }]\n\
         link = [{ between = [\"a\", \"b\"], distance_km = 1 }]\n\
         flow = [{ from = \"a\", to = \"b\", kind = \"udp\", rate_mbps = 0.1 }]\n";
    let delay = crate::report(text).flows[0].delay_ms.expect("packets came");
    assert!((1.0..5.0).contains(&delay.p50) && delay.p99 - delay.p50 < 3.0, "{delay:?}");
}

#[test]
fn what_comes_after_the_stop_is_delivered_and_no_part_of_the_goodput() {
    let text = "name = \"stop\"\nduration_s = 3\nstack.link = { kind = \"wild\" }\n\
         node = [{ name = \"a\" }, { name = \"b\" }]\nlink = [{ between = [\"a\", \"b\"] }]\n\
         flow = [{ from = \"a\", to = \"b\", kind = \"udp\", rate_mbps = 1, stop_s = 0.1 }]\n";
    let report = crate::report(text);
    let flow = &report.flows[0];
    assert_eq!((flow.loss, flow.sent_bytes), (Some(0.0), flow.delivered_bytes));
    let binned: f64 = flow.over_time_mbps.iter().map(|mbps| mbps * flow.bin_s * 1e6 / 8.0).sum();
    assert_eq!(binned.round() as u64, flow.delivered_bytes);
    let in_time = flow.goodput_mbps * 0.1 * 1e6 / 8.0;
    assert!(in_time < flow.delivered_bytes as f64 / 2.0, "{flow:?}");
}

#[test]
fn a_flow_that_ends_before_it_is_measured_is_refused() {
    let text = "name = \"early\"\nduration_s = 10\nmeasure_from_s = 5\n\
         node = [{ name = \"a\" }, { name = \"b\" }]\n\
         link = [{ between = [\"a\", \"b\"], distance_km = 1 }]\n\
         flow = [{ from = \"a\", to = \"b\", kind = \"udp\", stop_s = 4 }]\n";
    let problems = farhop_testkit::scenario(text).problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].path, "flow[0].stop_s");
}

/// A call beside a transfer of blocks: four nodes in a row, of which the first and the third do not
/// hear each other. Returns what the transfer carries and what the call is like.
fn call_beside_blocks(gap_ms: f64) -> (f64, FlowReport) {
    let text = format!(
        "name = \"hidden\"\nduration_s = 60\n\
         [radio]\nphy = \"802.11b\"\nrate_mbps = 11\nedca = true\n\
         access = {{ background = {{ txop_us = 8160 }} }}\n\
         [propagation]\nkind = \"range\"\nreceive_m = 100\nsense_m = 110\n\
         [[layout]]\nkind = \"chain\"\nname = \"n\"\ncount = 4\nspacing_m = 90\n\
         [stack.hop]\ncall_gap_ms = {gap_ms:?}\n\
         [[flow]]\nfrom = \"n3\"\nto = \"n4\"\nkind = \"hop\"\n\
         [[flow]]\nfrom = \"n1\"\nto = \"n2\"\nkind = \"voip\"\n"
    );
    let scenario = farhop_testkit::scenario(&text);
    assert_eq!(scenario.problems(), []);
    let mut flows = run(&scenario, RunOptions::default()).expect("it runs").flows;
    let call = flows.remove(1);
    (flows[0].goodput_mbps, call)
}

#[test]
fn blocks_leave_room_for_a_call_whose_sender_does_not_hear_them() {
    let (drowned, left) = (call_beside_blocks(0.0), call_beside_blocks(4.0));
    let loss = |(_, call): &(f64, FlowReport)| call.loss.expect("a call has a loss");
    let mos = |(_, call): &(f64, FlowReport)| call.voip.expect("a score").mos;
    println!("{:.2} and {:.2} Mb/s", drowned.0, left.0);
    println!(
        "loss {:.3} and {:.3}, MOS {:.2} and {:.2}",
        loss(&drowned),
        loss(&left),
        mos(&drowned),
        mos(&left)
    );
    assert!(loss(&drowned) > 0.2, "nothing else helps it");
    // A second of it has passed until all around know.
    assert!(loss(&left) < 0.03 && mos(&left) > 3.6);
    assert!(left.0 > 0.35 * drowned.0, "the transfer goes on");
}
