//! Keys in folders of a test's own.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::folder::{Folder, PAIR, farhop, flat, json, refusal, stderr};

/// The line of a new key.
fn line(folder: &Folder, name: &str) -> (String, String) {
    let made = json(&farhop(&["keys", "--json", "--keys", &folder.file(name)]));
    ["key", "fingerprint"].map(|field| made[field].as_str().expect(field).to_owned()).into()
}

#[test]
fn a_key_without_a_name_is_told_by_its_fingerprint_once() {
    let folder = Folder::new("keys-nameless");
    let (key, fingerprint) = line(&folder, "other");
    let own = folder.file("own");
    for (words, begin) in [
        (&["keys", "trust", &key, "--keys", &own][..], format!("trusted: {fingerprint}; ")),
        (&["keys", "trust", &key, "--keys", &own], format!("trusted already: {fingerprint}; ")),
        (&["keys", "list", "--keys", &own], format!("-                    {fingerprint} added")),
        (&["keys", "revoke", &key, "--keys", &own], format!("revoked: {fingerprint}; ")),
    ] {
        let out = farhop(words);
        assert!(out.status.success(), "{}", stderr(&out));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(said.starts_with(&begin), "{words:?}: {said}");
        let first = said.lines().next().expect("a line");
        assert_eq!(first.matches(&fingerprint).count(), 1, "{said}");
        let is_told = said.contains("\nother nodes do not learn of it");
        assert_eq!(is_told, words[1] == "revoke", "{said}");
    }
}

#[test]
fn a_file_in_the_place_of_the_folder_is_refused() {
    let folder = Folder::new("keys-file");
    let file = folder.write("key", "mine\n");
    for words in [&["keys"][..], &["keys", "list"], &["keys", "revoke", "hill"]] {
        let said = refusal(&[words, &["--keys", &file]].concat());
        assert!(said.contains("is a file: --keys takes the folder"), "{said}");
    }
    let none = farhop(&["keys", "list", "--keys", &folder.file("none")]);
    let said = String::from_utf8_lossy(&none.stdout).into_owned();
    assert!(none.status.success() && said.contains("which is not there yet"), "{said}");
}

#[test]
fn what_is_refused_makes_no_folder() {
    let folder = Folder::new("keys-refused");
    let none = folder.file("none");
    let out = farhop(&["keys", "revoke", "hill", "--keys", &none]);
    assert_eq!(out.status.code(), Some(2), "{}", stderr(&out));
    assert!(!std::fs::exists(&none).expect("it can be seen"));
    // A key itself can be revoked before anything is known of it.
    let (key, fingerprint) = line(&folder, "other");
    let out = farhop(&["keys", "revoke", &key, "--keys", &none]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(String::from_utf8_lossy(&out.stdout).starts_with(&format!("revoked: {fingerprint}")));
}

#[test]
fn a_folder_that_others_can_change_is_refused_by_all_who_read_it() {
    let folder = Folder::new("keys-open");
    let (key, _) = line(&folder, "own");
    let own = folder.file("own");
    std::fs::set_permissions(&own, Permissions::from_mode(0o770)).expect("our own");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/up-udp.toml");
    for words in [
        &["keys"][..],
        &["keys", "list"],
        &["keys", "trust", &key],
        &["keys", "revoke", &key],
        &["up", scenario, "--node", "left"],
    ] {
        let out = farhop(&[words, &["--keys", &own]].concat());
        let right = format!(
            "others can change {own} (mode 0770): if it is for keys alone `chmod go-w {own}`"
        );
        assert!(flat(&out).contains(&right), "{words:?}: {}", stderr(&out));
        // A service is not started again for it.
        assert_eq!(out.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn a_shared_key_beside_security_that_is_off_is_warned_of() {
    let folder = Folder::new("keys-psk");
    let psk = format!("{}=", "A".repeat(43));
    let device = |own: u16, other: &str, port: u16| {
        format!(
            "device = {{ kind = \"udp\", bind = \"127.0.0.1:{own}\", \
             peers = {{ {other} = \"127.0.0.1:{port}\" }} }}\n"
        )
    };
    let text = |security: &str| {
        let pair = PAIR.replace(
            "name = \"hill\"\n",
            &format!("name = \"hill\"\n{}", device(4860, "valley", 4861)),
        );
        let pair = pair.replace(
            "name = \"valley\"\n",
            &format!("name = \"valley\"\n{}", device(4861, "hill", 4860)),
        );
        format!("name = \"psk\"\n[security]\n{security}\n{pair}distance_km = 1\n")
    };
    let warned = "the `psk` does NOTHING where security is off";
    for (security, is_warned) in [
        (format!("mode = \"off\"\npsk = \"{psk}\""), true),
        ("mode = \"off\"".into(), false),
        (format!("psk = \"{psk}\""), false),
    ] {
        let file = folder.write("psk.toml", &text(&security));
        let out = farhop(&["check", &file]);
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!((out.status.success(), said.contains(warned)), (true, is_warned), "{said}");
        // No daemon can have that interface: it says what it has to say, and ends.
        let out =
            farhop(&["up", &file, "--node", "hill", "--tun", "lo", "--keys", &folder.file("own")]);
        let said = stderr(&out);
        assert_eq!((out.status.code(), said.contains(warned)), (Some(1), is_warned), "{said}");
    }
}
