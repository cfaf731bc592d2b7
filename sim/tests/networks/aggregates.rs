//! Links and transports over radios that send many frames in one transmission (802.11n and ac).

use farhop_proto::stack::LinkConfig;
use farhop_sim::engine::Report;

use super::report;

/// A row of nodes under a link, `km` apart, with a flow from the first to the last.
fn row(nodes: usize, radio: &str, link: &str, way: (f64, f64), kind: &str) -> Report {
    report(&row_text(nodes, radio, link, way, kind))
}

fn row_text(nodes: usize, radio: &str, link: &str, (km, loss): (f64, f64), kind: &str) -> String {
    let mut text = format!(
        "name = \"row\"\nduration_s = 6\nmeasure_from_s = 1\n[radio]\n{radio}\n\
         [stack.link]\nkind = \"{link}\"\n"
    );
    for node in 0..nodes {
        text += &format!("[[node]]\nname = \"n{node}\"\n");
    }
    for from in 0..nodes - 1 {
        text += &format!(
            "[[link]]\nbetween = [\"n{from}\", \"n{}\"]\ndistance_km = {km:?}\nloss = {loss:?}\n",
            from + 1
        );
    }
    text += &format!("[[flow]]\nfrom = \"n0\"\nto = \"n{}\"\nkind = \"{kind}\"\n", nodes - 1);
    text
}

const N: &str = "phy = \"802.11n\"";
const AC: &str = "phy = \"802.11ac\"\nwidth_mhz = 80\nmcs = 9\nstreams = 2";

#[test]
fn slots_are_filled_with_transmissions_of_many_frames() {
    // A transmission of 28 frames in 5.51 ms, beside one of one frame alone.
    let (many, one) = (28.0 * 1472.0 * 8.0 / 5_509.5, 1472.0 * 8.0 / 331.0);
    for (nodes, loss, least) in [(2, 0.0, 0.92), (3, 0.0, 0.88), (2, 0.1, 0.73), (3, 0.1, 0.62)] {
        // Over 18.5 ms of 40, or of 24 where the slots of the other end may be short.
        let part = if nodes == 2 { 18.5 / 24.0 } else { 18.5 / 40.0 };
        let (many, one) = (many * part, one * part);
        let goodput = row(nodes, N, "wild", (20.0, loss), "udp").total_mbps();
        let single = format!("{N}\naggregate = 1");
        let without = row(nodes, &single, "wild", (20.0, loss), "udp").total_mbps();
        println!("{nodes} nodes, {loss}: {goodput:.2}, {without:.2} of {many:.2} Mb/s");
        assert!(goodput > least * many && goodput < many, "{goodput} of {many}");
        assert!(without < one * 1.02, "{without} of {one}");
    }
}

#[test]
fn what_is_repeated_does_not_reach_into_the_slots_of_others() {
    let report = row(3, AC, "wild", (20.0, 0.3), "udp");
    let of_all =
        |what: &str| report.nodes.iter().map(|node| node.layers["radio"][what]).sum::<u64>();
    // A request at the end of a turn may meet the first frame of the next one: gaps are drawn, and
    // the plan has their mean.
    let (collided, sent) = (of_all("air_collided_us"), of_all("air_data_us"));
    assert!(collided * 1_000 < sent, "{collided} of {sent} us");
    let [radio, link] = ["radio", "link"].map(|layer| &report.nodes[0].layers[layer]);
    assert!(radio["aggregates"] > 1_000 && radio["block_ack_requests"] > 100, "{radio:?}");
    // What the radio repeats, the link need not.
    assert!(link["retransmissions"] < link["frames_sent"] / 20, "{link:?}");
}

#[test]
fn blocks_go_as_many_in_a_transmission_as_datagrams_do() {
    for (radio, loss) in [(N, 0.0), (AC, 0.0), (AC, 0.3)] {
        let [blocks, datagrams] =
            ["hop", "udp"].map(|kind| row(2, radio, "plain", (0.2, loss), kind).total_mbps());
        println!("{radio}, {loss}: {blocks:.1} of {datagrams:.1} Mb/s");
        assert!(blocks > 0.85 * datagrams, "{blocks} of {datagrams}");
    }
}

#[test]
fn relays_take_as_many_blocks_as_fill_their_slots() {
    for (block_bytes, loss) in [(1 << 20, 0.0), (1 << 18, 0.0), (1 << 20, 0.1)] {
        let datagrams = row(3, AC, "wild", (20.0, loss), "udp").total_mbps();
        let text = row_text(3, AC, "wild", (20.0, loss), "hop");
        let blocks = report(&format!("{text}[stack.hop]\nblock_bytes = {block_bytes}\n"));
        let blocks = blocks.total_mbps();
        println!("{block_bytes} bytes, {loss}: {blocks:.1} of {datagrams:.1} Mb/s");
        assert!(blocks > 0.87 * datagrams, "{blocks} of {datagrams} Mb/s");
    }
}

#[test]
fn many_stations_have_turns_that_pay() {
    let mut text = format!(
        "name = \"star\"\nduration_s = 4\nmeasure_from_s = 2\nradio = {{ {} }}\n\
         stack.link = {{ kind = \"wild\" }}\n[[node]]\nname = \"hub\"\n",
        AC.replace('\n', ", ")
    );
    for at in 0..12 {
        text += &format!("[[node]]\nname = \"s{at}\"\n");
    }
    for at in 0..12 {
        text += &format!(
            "[[link]]\nbetween = [\"hub\", \"s{at}\"]\ndistance_km = {}\nloss = 0.05\n\
             [[flow]]\nfrom = \"s{at}\"\nto = \"hub\"\nkind = \"udp\"\n",
            at + 3
        );
    }
    let mbps = report(&text).total_mbps();
    println!("{mbps:.1} Mb/s");
    // 85 with a turn for packets for each of them in each slot.
    assert!(mbps > 120.0, "{mbps:.1} Mb/s");
}

#[test]
fn blocks_leave_others_of_their_node_places_in_the_queue() {
    for (radio, mbps) in [(N, 5.0), (AC, 20.0)] {
        let text = row_text(2, radio, "plain", (0.2, 0.0), "hop")
            + &format!(
                "[[flow]]\nfrom = \"n0\"\nto = \"n1\"\nkind = \"udp\"\nrate_mbps = {mbps:?}\n"
            );
        let report = report(&text);
        let (blocks, loss) = (&report.flows[0], report.flows[1].loss.expect("some were sent"));
        println!("{radio}: {:.1} Mb/s, {loss:.4} of the others lost", blocks.goodput_mbps);
        assert!(loss < 0.005, "{loss} of {mbps} Mb/s");
        assert!(blocks.goodput_mbps > 10.0 * mbps, "{}", blocks.goodput_mbps);
    }
}

#[test]
fn what_is_given_up_behind_frames_that_still_come_holds_nothing_back() {
    // Blocks from `a` and UDP from beyond `b`, which does not hear `a`, meet. Gaps would leave it
    // room.
    let slowest = (6..=8).map(|seed| {
        let report = super::report(&format!(
            "name = \"held\"\nduration_s = 20\nseed = {seed}\nradio.phy = \"802.11n\"\n\
             stack.hop.call_gap_ms = 0\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n\
             link = [{{ between = [\"a\", \"b\"] }}, {{ between = [\"b\", \"c\"] }}]\n\
             [[flow]]\nfrom = \"c\"\nto = \"a\"\nkind = \"udp\"\nrate_mbps = 0.05\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = \"hop\"\n"
        ));
        report.flows[1].goodput_mbps
    });
    let slowest = slowest.fold(f64::INFINITY, f64::min);
    assert!(slowest > 45.0, "blocks stood still until 64 frames had come: {slowest:.2} Mb/s");
}

#[test]
fn a_station_that_goes_down_does_not_take_the_turns_of_another() {
    let found = report(&format!(
        "name = \"gone\"\nduration_s = 12\n\
         node = [{{ name = \"m\" }}, {{ name = \"a\" }}, {{ name = \"b\" }}]\n\
         link = [{{ between = [\"m\", \"a\"], distance_km = 5 }},\n\
                 {{ between = [\"m\", \"b\"], distance_km = 5 }}]\n\
         [radio]\n{N}\n[stack.link]\nkind = \"wild\"\n\
         [[flow]]\nfrom = \"m\"\nto = \"a\"\nkind = \"udp\"\nrate_mbps = 0.1\nsize_bytes = 125\n\
         start_s = 1\n\
         [[flow]]\nfrom = \"m\"\nto = \"b\"\nkind = \"udp\"\nrate_mbps = 1\nstart_s = 1\n\
         [[fault]]\nnode = \"b\"\nfrom_s = 5\nto_s = 10\n"
    ));
    let delay = found.flows[0].delay_ms.expect("packets came");
    assert!(delay.p99 < 60.0, "{delay:?}");
}

#[test]
fn slots_over_long_ways_carry_what_the_plan_says() {
    // Each transmission waits for its answer, which is 1.3 ms at 200 km.
    for (radio, km) in [(N, 0.1), (N, 200.0), (AC, 20.0), (AC, 100.0), (AC, 200.0)] {
        let text = row_text(2, radio, "wild", (km, 0.0), "udp");
        let text = format!("{text}[[flow]]\nfrom = \"n1\"\nto = \"n0\"\nkind = \"udp\"\n");
        let plan = farhop_testkit::scenario(&text).plan();
        let LinkConfig::Wild(wild) = &plan.nodes[0].stack.link else { panic!("it is wild") };
        let packets = wild.packets_a_slot(&plan.nodes[0].radios[0].spec, wild.slot(), 1_500);
        let cycle = (wild.slot() + plan.hops[0].delay) * 2;
        let planned = packets as f64 * 1_472.0 * 8e-6 / cycle.as_secs_f64();
        let report = report(&text);
        for flow in &report.flows {
            let off = flow.goodput_mbps / planned - 1.0;
            println!("{km} km: {:.2} Mb/s, planned {planned:.2}", flow.goodput_mbps);
            assert!((-0.05..0.02).contains(&off), "{km} km: {off:+.3} of {planned} Mb/s");
        }
        let late = report.nodes.iter().map(|node| node.layers["link"]["frames_late"]).sum::<u64>();
        let sent = report.nodes.iter().map(|node| node.layers["link"]["frames_sent"]).sum::<u64>();
        // Gaps are drawn, and the plan has their mean.
        assert!(late * 25 < sent, "{km} km: {late} late beside {sent}");
    }
}
