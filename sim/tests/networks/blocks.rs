//! Blocks over nodes with several radios.

use super::report;

/// Goodput of blocks to a neighbour, in Mb/s, from a node that also sends blocks and some small
/// files over three hops of channel 1.
fn beside_small_files(channel: u16, files: u32) -> f64 {
    let mut text = "name = \"hub\"\nduration_s = 20\nmeasure_from_s = 5\n\
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
        let (with, without) = (beside_small_files(channel, 15), beside_small_files(channel, 0));
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
