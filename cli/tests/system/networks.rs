//! Networks behind the nodes of a chain.

use std::fs;

use farhop_testkit::skip;

use crate::place::{Place, Running, stderr, wait_for};

/// A host in a network of its own behind a node.
struct Beyond<'a> {
    place: &'a Place,
    node: &'static str,
    file: String,
    _stands: Running,
}

impl<'a> Beyond<'a> {
    /// The host `network.9`, and the node as its gateway, `network.1`.
    fn build(place: &'a Place, node: &'static str, network: &str, network_6: &str) -> Self {
        let file = place.path(&format!("{node}.pid"));
        let stand = format!("echo $$ > {file}; exec sleep 600");
        let stands = place.spawn(node, &["unshare", "-n", "sh", "-c", &stand]);
        wait_for("a host", || fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n')));
        let it = Self { place, node, file, _stands: stands };
        it.at_node(&format!(
            "ip link add lan type veth peer name eth netns $(cat {}) && \
             ip address add {network}.1/24 dev lan && \
             ip address add {network_6}1/64 dev lan nodad && ip link set lan up",
            it.file
        ));
        it.run(&format!(
            "ip address add {network}.9/24 dev eth && \
             ip address add {network_6}9/64 dev eth nodad && ip link set eth up && \
             ip route add default via {network}.1 && ip -6 route add default via {network_6}1"
        ));
        it
    }

    fn at_node(&self, words: &str) -> String {
        let out = self.place.exec(self.node, &["sh", "-c", words]);
        assert!(out.status.success(), "{words}: {}", stderr(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Runs a command in this host.
    fn run(&self, words: &str) -> String {
        self.at_node(&format!("nsenter -t $(cat {}) -n sh -c '{words}'", self.file))
    }
}

#[test]
#[ignore = "system: hosts behind both ends of three daemons, about 10 s"]
fn hosts_behind_the_nodes_of_a_chain_reach_each_other_and_the_nodes() {
    let place = Place::new("networks");
    if !rustix::process::geteuid().is_root() {
        skip("hosts behind nodes want root");
        return;
    }
    let file = place.chain("networks", [1, 6]);
    let text = fs::read_to_string(&file).expect("the scenario");
    let behind = |text: String, node: &str, networks: &str| {
        let line = format!("name = \"{node}\"\n");
        text.replace(&line, &format!("{line}networks = [{networks}]\n"))
    };
    let text = behind(text, "hill", "\"192.168.1.0/24\", \"fd01::/64\"");
    let text = behind(text, "valley", "\"0.0.0.0/0\", \"fd07::/64\"");
    fs::write(&file, text).expect("the scenario is written");
    if !place.keep(&file) {
        return;
    }
    let near = Beyond::build(&place, "hill", "192.168.1", "fd01::");
    let far = Beyond::build(&place, "valley", "192.168.7", "fd07::");
    for to in ["192.168.7.9", "fd07::9", "10.66.0.3"] {
        let said = near.run(&format!("ping -n -c 3 -i 0.2 -W 5 {to}"));
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    let said = far.run("ping -n -c 3 -i 0.2 -W 5 192.168.1.9");
    // The hosts of both nodes and the relay between them have each taken a hop off 64.
    assert!(said.contains("ttl=61"), "{said}");
    // The host of hill itself, and one that nobody knows of.
    place.assert_ping("192.168.7.9", "3");
    let page: String = (0..40_000).map(|line| format!("{line}\n")).collect();
    fs::write(place.path("page"), &page).expect("the page is written");
    let serve = format!("exec python3 -m http.server 8000 -d {}", place.dir.display());
    let serve = format!("nsenter -t $(cat {}) -n sh -c '{serve}'", far.file);
    let _web = place.spawn("valley", &["sh", "-c", &serve]);
    wait_for("the web server", || {
        let out = place.exec("hill", &["curl", "-sfI", "http://192.168.7.9:8000/page"]);
        out.status.success()
    });
    assert_eq!(near.run("curl -sf http://192.168.7.9:8000/page"), page);
    let out = place.farhop(&["status", "hill"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    for line in ["192.168.1.0/24 is behind this node", "to 0.0.0.0/0 by valley"] {
        assert!(said.contains(line), "{said}");
    }
}
