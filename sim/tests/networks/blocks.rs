//! Blocks over nodes with several radios.

use farhop_sim::engine::Report;

use super::report;

/// Goodput of blocks to a neighbour, in Mb/s, from a node that also sends blocks and some small
/// files over three hops of channel 1.
fn beside_small_files(channel: u16, files: u32) -> f64 {
    let mut text = "name = \"hub\"\nduration_s = 50\nmeasure_from_s = 5\n\
                    radio = { phy = \"802.11b\" }\n"
        .to_owned();
    for name in ["hub", "a", "b", "c", "x"] {
        text += &format!("[[node]]\nname = \"{name}\"\n");
    }
    for (one, other, channel) in
        [("hub", "a", 1), ("a", "b", 1), ("b", "c", 1), ("hub", "x", channel)]
    {
        text += &format!(
            "[[link]]\nbetween = [\"{one}\", \"{other}\"]\nradio = {{ channel = {channel} }}\n"
        );
    }
    for to in ["x", "c"] {
        text += &format!("[[flow]]\nfrom = \"hub\"\nto = \"{to}\"\nkind = \"hop\"\n");
    }
    for file in 0..files {
        text += &format!(
            "[[flow]]\nfrom = \"hub\"\nto = \"c\"\nkind = \"hop\"\nbytes = 4000\nstart_s = {}\n",
            4 + file
        );
    }
    report(&text).flows[0].goodput_mbps
}

#[test]
fn gaps_for_small_files_are_on_the_air_that_those_go_over() {
    let [apart, shared] = [6, 2].map(|channel| {
        let (with, without) = (beside_small_files(channel, 45), beside_small_files(channel, 0));
        println!("channel {channel}: {with:.2} beside small files, {without:.2} without");
        with / without
    });
    assert!(apart > 0.97, "{apart}");
    assert!(shared < 0.9, "channels 1 and 2 are one air: {shared}");
}

#[test]
fn a_neighbour_is_answered_by_the_radio_that_heard_it_where_routes_back_are_others() {
    let mut text = "name = \"ring\"\nduration_s = 4\nradio.phy = \"802.11a\"\n\
                    node = [{ name = \"a\" }, { name = \"b\" }, { name = \"c\" }, \
                    { name = \"d\" }]\n\
                    flow = [{ from = \"d\", to = \"b\", kind = \"hop\" }]\n"
        .to_owned();
    for ([one, other], channel) in
        [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]].iter().zip([1, 21, 41, 61])
    {
        text += &format!(
            "[[link]]\nbetween = [\"{one}\", \"{other}\"]\nradio = {{ channel = {channel} }}\n"
        );
    }
    let report = super::report(&text);
    assert!(report.total_mbps() > 20.0, "{}", report.total_mbps());
}

/// A row of nodes with blocks from end to end.
fn row(nodes: usize, settings: &str, link: &str) -> Report {
    let mut text = format!("name = \"row\"\nduration_s = 30\n{settings}\n");
    for node in 0..nodes {
        text += &format!("[[node]]\nname = \"n{node}\"\n");
    }
    for from in 1..nodes {
        text += &format!("[[link]]\nbetween = [\"n{}\", \"n{from}\"]\n{link}\n", from - 1);
    }
    text += &format!("[[flow]]\nfrom = \"n0\"\nto = \"n{}\"\nkind = \"hop\"\n", nodes - 1);
    report(&text)
}

#[test]
fn relays_that_are_reached_by_address_have_routes_to_each_other() {
    let [raw, ip] = ["raw", "ip"].map(|kind| {
        row(3, &format!("stack = {{ hop = {{ next_hop = \"{kind}\" }} }}"), "").total_mbps()
    });
    assert!(raw > 3.0 && ip > 0.9 * raw, "{raw} and {ip} Mb/s");
}

#[test]
fn what_a_wire_does_not_lose_brings_as_much_of_its_rate() {
    for (nodes, loss, least) in [(2, 0.5, 0.85), (2, 0.65, 0.45), (5, 0.2, 0.8), (5, 0.3, 0.7)] {
        let (wire, link) =
            ("radio = { phy = \"wire\", rate_mbps = 10 }", format!("loss = {loss:?}"));
        let (goodput, most) = (row(nodes, wire, &link).total_mbps(), 10.0 * (1.0 - loss));
        println!("{nodes} nodes, loss {loss}: {goodput:.2} of {most} Mb/s");
        assert!(goodput > least * most && goodput < most, "{goodput} of {most} Mb/s");
    }
}

#[test]
fn blocks_fill_the_waiting_for_answers_over_long_wires() {
    for (mbps, ms, loss, least) in [(100, 50, 0.0, 0.9), (100, 0, 0.1, 0.75), (200, 20, 0.0, 0.9)] {
        let radio = format!("radio = {{ phy = \"wire\", rate_mbps = {mbps} }}");
        let link = format!("delay_ms = {ms}\nloss = {loss:?}");
        let goodput = row(3, &radio, &link).total_mbps();
        println!("{mbps} Mb/s, {ms} ms, loss {loss}: {goodput:.1} Mb/s");
        assert!(goodput > least * f64::from(mbps), "{goodput} of {mbps} Mb/s, {ms} ms");
    }
}

#[test]
fn relays_that_take_each_other_for_the_next_hop_do_not_ask_without_end() {
    let mut text = "name = \"loop\"\nduration_s = 130\n\
                    stack = { routing = { kind = \"olsr\", tc_s = 20 } }\n"
        .to_owned();
    for node in ["a", "b", "c", "d"] {
        text += &format!("[[node]]\nname = \"{node}\"\n");
    }
    for ends in ["\"a\", \"b\"", "\"a\", \"c\"", "\"b\", \"c\"", "\"b\", \"d\"", "\"c\", \"d\""] {
        text += &format!("[[link]]\nbetween = [{ends}]\n");
    }
    text += "[[flow]]\nfrom = \"a\"\nto = \"d\"\nkind = \"hop\"\nstart_s = 30\n";
    for (from, since) in [("b", 60), ("c", 64)] {
        text += &format!("[[fault]]\nlink = [\"{from}\", \"d\"]\nfrom_s = {since}\nto_s = 129\n");
    }
    let found = report(&text);
    let asked: Vec<u64> = found.nodes.iter().map(|node| node.layers["hop"]["requests"]).collect();
    println!("{asked:?}");
    assert!(asked[1] < 1_500 && asked[2] < 1_500, "{asked:?}");
}

/// Goodput of blocks from one station to a node that also has 300 files of so many bytes for one
/// that is gone, and gets small ones of a third, in Mb/s.
fn beside_files_for_nobody(bytes: u32) -> f64 {
    let mut text = "name = \"gone\"\nduration_s = 40\nradio = { phy = \"802.11b\" }\n\
                    node = [{ name = \"h\" }, { name = \"d\" },\n\
                            { name = \"s0\" }, { name = \"s1\" }]\n\
                    fault = [{ node = \"d\", from_s = 0, to_s = 40 }]\n"
        .to_owned();
    for station in ["s0", "s1", "d"] {
        text += &format!("[[link]]\nbetween = [\"h\", \"{station}\"]\n");
    }
    text += "[[flow]]\nfrom = \"s0\"\nto = \"h\"\nkind = \"hop\"\n";
    for _ in 0..300 {
        text += &format!("[[flow]]\nfrom = \"h\"\nto = \"d\"\nkind = \"hop\"\nbytes = {bytes}\n");
    }
    for file in 0..15 {
        text += &format!(
            "[[flow]]\nfrom = \"s1\"\nto = \"h\"\nkind = \"hop\"\nbytes = 4000\nstart_s = {}\n",
            5 + 2 * file
        );
    }
    report(&text).flows[0].goodput_mbps
}

#[test]
fn files_for_one_that_is_gone_leave_the_air_to_others() {
    for bytes in [4_000, 100_000] {
        let goodput = beside_files_for_nobody(bytes);
        assert!(goodput > 4.0, "{goodput} Mb/s beside files of {bytes} bytes");
    }
}
