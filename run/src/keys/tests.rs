//! Tests of the folder of keys, and of the error messages.

use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::net::UnixListener;

use farhop_proto::stack::{NodeConfig, RadioLinkConfig, Scenario};
use rustix::fs::{CWD, FileType};
use tempfile::TempDir;

use super::*;

fn folder() -> (TempDir, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(Some(&dir.path().join("keys"))).expect("an absolute path");
    (dir, store)
}

fn key(byte: u8) -> PublicKey {
    Identity::from_secret([byte; 32]).public()
}

/// Writes the file of the own key.
fn put_key(store: &Store, text: &str, mode: u32) {
    store.make_dir().expect("a directory");
    fs::write(store.key_file(), text).expect("a file");
    fs::set_permissions(store.key_file(), fs::Permissions::from_mode(mode)).expect("our own");
}

fn complaint(store: &Store) -> String {
    let error = store.own_or_new().map(|(identity, _)| identity.public());
    error.expect_err("something is wrong").to_string()
}

#[test]
fn the_first_start_makes_a_key_that_stays_and_that_nobody_else_can_read() {
    let (_dir, store) = folder();
    assert!(store.own().expect("nothing wrong").is_none());
    let (first, is_new) = store.own_or_new().expect("a new key");
    assert!(is_new);
    let (second, is_new) = store.own_or_new().expect("the same key");
    assert!(!is_new && first.public() == second.public());
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(store.dir()), mode(&store.key_file())), (0o700, 0o600));
    let text = fs::read_to_string(store.key_file()).expect("text");
    assert!(text.starts_with("farhop private key, version 1\n"), "{}", text.len());
    assert_eq!(fs::read_dir(store.dir()).expect("a directory").count(), 1, "nothing is left over");
    let (_other, other) = folder();
    assert_ne!(other.own_or_new().expect("a key").0.public(), first.public());
}

#[test]
fn two_who_make_the_key_at_once_get_the_same() {
    let (_dir, store) = folder();
    let make = || store.own_or_new().expect("a key").0.public();
    let made: Vec<PublicKey> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(made.iter().all(|key| *key == made[0]), "{made:?}");
}

#[test]
fn what_one_who_was_killed_left_is_removed_by_the_next_and_nothing_else_is() {
    let (_dir, store) = folder();
    store.make_dir().expect("a directory");
    let put = |name: &str| fs::write(store.dir().join(name), "half").expect("a file");
    let there = || {
        let entries = fs::read_dir(store.dir()).expect("a directory").flatten();
        let mut names: Vec<_> =
            entries.filter_map(|it| it.file_name().into_string().ok()).collect();
        names.sort();
        names.retain(|name| name != "key" && name != "trusted");
        names
    };
    let others = [".key-backup", ".unfinished-key-mine", "key-aB3xYz", "unfinished-key-aB3xYz"];
    others.iter().for_each(|name| put(name));
    put(".unfinished-key-aB3xYz");
    store.own_or_new().expect("a new key");
    assert_eq!(there(), others);
    // A process may have been killed after its key was complete.
    put(".unfinished-key-aB3xYz");
    let making = lock(store.dir()).expect("nobody has it");
    store.own_or_new().expect("the same key");
    assert_eq!(there().len(), others.len() + 1, "somebody is making it");
    drop(making);
    store.own_or_new().expect("the same key");
    assert_eq!(there(), others);
    put(".unfinished-trusted-aB3xYz");
    store.trust(key(2), Some("hill"), false).expect("a new one");
    assert_eq!(there(), others);
}

#[test]
fn a_key_cut_short_at_any_place_is_called_so() {
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    let whole = fs::read_to_string(store.key_file()).expect("text");
    // Without the last character, the end of the line, it is still complete.
    for length in 0..whole.len() - 1 {
        put_key(&store, &whole[..length], 0o600);
        let said = complaint(&store);
        assert!(said.contains("/key is cut short") && said.contains("from a copy"), "{said}");
    }
    put_key(&store, whole.trim_end(), 0o600);
    assert!(!store.own_or_new().expect("a whole key").1);
}

#[test]
fn what_is_wrong_with_the_own_key_is_said_with_what_to_do() {
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    let good = fs::read_to_string(store.key_file()).expect("text");
    let newer = good.replace("version 1", "version 2");
    let damaged = good.trim_end().replace('=', "!");
    let longer = format!("{good}more");
    for (text, mode, what, remedy) in [
        (&*good, 0o644, "is open to others (mode 0644)", "`chmod 600 "),
        (&*good, 0o660, "is open to others (mode 0660)", "`chmod 600 "),
        (&*newer, 0o600, "is of version 2", "the newer farhop"),
        (&*damaged, 0o600, "is damaged", "from a copy"),
        (&*longer, 0o600, "is damaged", "from a copy"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", 0o600, "is not a key of farhop", "--keys"),
        ("farhop private key, version x\n", 0o600, "is not a key of farhop", "--keys"),
    ] {
        put_key(&store, text, mode);
        let said = complaint(&store);
        assert!(said.contains(what) && said.contains(remedy), "{what}: {said}");
        assert!(said.contains("/keys/key") && !said.contains('\n'), "{said}");
        assert_eq!(fs::read_to_string(store.key_file()).expect("text"), text, "it is left alone");
    }
}

#[test]
fn a_key_that_is_not_text_is_told_from_one_that_is_damaged() {
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    let good = fs::read(store.key_file()).expect("bytes");
    let (head, damaged) =
        (good.iter().position(|byte| *byte == b'\n'), [good, vec![0xff]].concat());
    for (bytes, what) in [
        (damaged.clone(), "is damaged: its second line"),
        (damaged[head.expect("two lines")..].to_vec(), "is not a key of farhop: move it away"),
    ] {
        fs::write(store.key_file(), bytes).expect("our own");
        let said = complaint(&store);
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn what_others_can_change_is_refused_with_the_command_that_mends_it() {
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    store.trust(key(1), Some("hill"), false).expect("a key");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
    };
    for (path, right) in [(store.dir().to_owned(), 0o700), (store.trusted_file(), 0o644)] {
        for mode in [right | 0o020, right | 0o002] {
            set(&path, mode);
            let said = store.trusted().expect_err("others can change it").to_string();
            let path = path.display();
            let begin = format!("others can change {path} (mode {mode:04o}): ");
            let close = format!("`chmod go-w {path}`");
            assert!(said.starts_with(&begin) && said.contains(&close), "{said}");
            let said = store.revoke("hill", &BTreeMap::new()).expect_err("nor written").to_string();
            assert!(said.starts_with(&begin), "{said}");
        }
        set(&path, right);
        store.trusted().expect("as it was");
    }
    set(store.dir(), 0o1777);
    let said = complaint(&store);
    assert!(said.contains("it is for all") && !said.contains("chmod"), "{said}");
    set(store.dir(), 0o755);
    store.own().expect("others may look at the folder");
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    store.trust(key(1), Some("hill"), false).expect("a key");
    for path in [store.dir().to_owned(), store.trusted_file(), store.key_file()] {
        chown(&path, Some(65534), None).expect("root may");
        let said = store.own().map(|_| ()).and(store.trusted().map(|_| ()));
        let said = said.expect_err("it is somebody else's").to_string();
        let begin = format!("{} belongs to user 65534", path.display());
        assert!(said.starts_with(&begin) && said.contains("`chown -R 0 "), "{said}");
        chown(&path, Some(0), None).expect("root may");
    }
    store.trusted().expect("as it was");
}

#[test]
fn two_folders_with_links_to_one_list_change_it_one_after_the_other() {
    let (dir, one) = folder();
    let other = Store::open(Some(&dir.path().join("other"))).expect("a folder");
    let real = dir.path().join("list");
    fs::write(&real, "").expect("a file");
    for store in [&one, &other] {
        store.make_dir().expect("a folder");
        symlink("../list", store.trusted_file()).expect("a link");
    }
    let all = |store: &Store, half: u8| {
        (0..40).for_each(|n| _ = store.trust(key(2 * n + half), None, false).expect("a key"));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| all(&one, 1));
        scope.spawn(|| all(&other, 2));
    });
    assert_eq!(one.trusted().expect("a list").text().lines().count(), 80);
}

#[test]
fn a_link_in_the_place_of_the_trusted_keys_stays_and_is_written_through() {
    let (dir, store) = folder();
    let (far, real) = (dir.path().join("far"), dir.path().join("far/keys"));
    fs::create_dir(&far).expect("a folder");
    fs::write(&real, "# by hand\n").expect("a file");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("our own");
    store.make_dir().expect("a folder");
    symlink(Path::new("../far/keys"), store.trusted_file()).expect("a link");
    let before = fs::metadata(&real).expect("a file").ino();
    store.trust(key(1), Some("hill"), false).expect("a key");
    assert!(fs::symlink_metadata(store.trusted_file()).expect("a link").is_symlink());
    let text = fs::read_to_string(&real).expect("text");
    assert!(text.starts_with("# by hand\nfh1-"), "{text}");
    let after = fs::metadata(&real).expect("a file");
    assert_eq!(after.permissions().mode() & 0o777, 0o640);
    assert_ne!(after.ino(), before, "it is replaced whole, and not written into");
    assert_eq!(fs::read_dir(&far).expect("a folder").count(), 1, "nothing is left over");
    // The folder that a link leads to is checked like the folder of keys itself.
    fs::set_permissions(&far, fs::Permissions::from_mode(0o777)).expect("our own");
    let said = store.trusted().expect_err("others can replace it").to_string();
    assert!(said.contains("/far (mode 0777)"), "{said}");
    fs::set_permissions(&far, fs::Permissions::from_mode(0o1777)).expect("our own");
    store.trusted().expect("others cannot replace it");
    fs::remove_file(&real).expect("a file");
    let said = store.trusted().expect_err("which are revoked?").to_string();
    assert!(said.contains("/keys/trusted is a link to what is not there"), "{said}");
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let (_dir, store) = folder();
    store.make_dir().expect("a folder");
    let fifo = |path: &Path| {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    };
    for (path, name) in [(store.key_file(), "key"), (store.trusted_file(), "trusted")] {
        let said = || {
            let said = store.own().map(|_| ()).and(store.trusted().map(|_| ()));
            said.expect_err(name).to_string()
        };
        fifo(&path);
        assert!(said().contains(&format!("/{name} is a named pipe and no file: move it away")));
        assert!(store.ask().expect("nobody can hold it").is_none());
        fs::remove_file(&path).expect("our own");
        fs::create_dir(&path).expect("a folder");
        assert!(said().contains(&format!("/{name} is a folder and no file")), "{}", said());
        fs::remove_dir(&path).expect("our own");
        drop(UnixListener::bind(&path).expect("a socket"));
        assert!(said().contains(&format!("/{name} is a socket and no file")), "{}", said());
        fs::remove_file(&path).expect("our own");
        symlink("/dev/null", &path).expect("a link");
        assert!(said().contains(&format!("/{name} is a device and no file")), "{}", said());
        fs::remove_file(&path).expect("our own");
    }
    symlink("gone", store.key_file()).expect("a link");
    assert!(complaint(&store).contains("/keys/key is a link to what is not there"));
}

#[test]
fn a_line_of_the_trusted_keys_that_is_not_text_is_named() {
    let (_dir, store) = folder();
    store.trust(key(1), Some("hill"), false).expect("a key");
    let text = [&fs::read(store.trusted_file()).expect("bytes"), &b"# f\xfcr\n"[..]].concat();
    fs::write(store.trusted_file(), text).expect("our own");
    let said = store.trusted().expect_err("no UTF-8").to_string();
    assert!(said.contains("/trusted, line 2: this is no text in UTF-8: write the line"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    // Not even root can make a folder there.
    let store = Store::open(Some(Path::new("/proc/farhop"))).expect("an absolute path");
    let said = store.trust(key(1), None, false).expect_err("no folder").to_string();
    assert!(said.starts_with("cannot write in /proc/farhop: "), "{said}");
    let said = complaint(&store);
    assert!(said.starts_with("cannot write in /proc/farhop: "), "{said}");
    assert!(said.contains("with --keys"), "{said}");
}

#[test]
fn two_who_trust_at_once_lose_nothing() {
    let (_dir, store) = folder();
    std::thread::scope(|scope| {
        for byte in 0..16 {
            let store = &store;
            scope.spawn(move || {
                let name = format!("node-{byte}");
                store.trust(key(byte), Some(&name), false).expect("a new key");
            });
        }
    });
    assert_eq!(store.trusted().expect("a good file").added().count(), 16);
}

#[test]
fn permissions_of_the_trusted_keys_stay() {
    let (_dir, store) = folder();
    store.trust(key(1), None, false).expect("a key");
    let mode = || fs::metadata(store.trusted_file()).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o644);
    fs::set_permissions(store.trusted_file(), fs::Permissions::from_mode(0o640)).expect("ours");
    store.trust(key(2), None, false).expect("a key");
    assert_eq!(mode(), 0o640);
}

#[test]
fn the_own_key_is_not_trusted() {
    let (_dir, store) = folder();
    let (own, _) = store.own_or_new().expect("a key");
    let said = store.trust(own.public(), Some("hill"), false).expect_err("our own").to_string();
    assert!(said.contains("is this node's own") && said.contains("two nodes"), "{said}");
}

#[test]
fn a_second_daemon_with_the_key_is_refused_until_the_first_ends() {
    let (dir, store) = folder();
    let socket = dir.path().join("hill.sock");
    let said = store.hold("hill", &socket).expect_err("no key").to_string();
    assert!(said.starts_with("there is no key in "), "{said}");
    store.own_or_new().expect("a key");
    let held = store.hold("hill", &socket).expect("the first");
    let said = store.hold("valley", &socket).expect_err("the second").to_string();
    assert!(said.contains("the daemon of 'hill' runs with the key"), "{said}");
    assert!(said.contains("a folder of its own with --keys"), "{said}");
    drop(held);
    store.hold("valley", &socket).expect("the first has ended");
}

#[test]
fn a_daemon_that_ended_is_not_told_and_one_that_is_deaf_is_named() {
    let (dir, store) = folder();
    assert!(store.tell().expect("nobody").is_none());
    store.own_or_new().expect("a key");
    let socket = dir.path().join("hill.sock");
    let held = store.hold("hill", &socket).expect("the first");
    let said = store.tell().expect_err("a daemon without a socket").to_string();
    assert!(said.contains("hill.sock"), "{said}");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let hang_up = std::thread::spawn(move || drop(listener.accept()));
    assert!(store.tell().is_err());
    hang_up.join().expect("no panic");
    // A daemon that is killed leaves this file.
    let note = fs::read(store.holder_file()).expect("a note");
    drop(held);
    fs::write(store.holder_file(), note).expect("a note");
    assert!(store.tell().expect("it has ended").is_none());
}

#[test]
fn a_daemon_that_left_no_note_is_not_taken_for_none() {
    let (_dir, store) = folder();
    store.own_or_new().expect("a key");
    let held = store.hold("hill", Path::new("hill.sock")).expect("the first");
    let note = String::from_utf8(fs::read(store.holder_file()).expect("a note")).expect("text");
    assert!(note.contains(r#""socket":"/"#), "{note}");
    fs::remove_file(store.holder_file()).expect("a note");
    let said = store.tell().expect_err("which one is it").to_string();
    assert!(said.contains("which daemon that is"), "{said}");
    // As if a second daemon ran with a key that replaced the first one's.
    fs::write(store.holder_file(), "another").expect("a note");
    drop(held);
    assert!(store.holder_file().exists());
}

/// Three nodes in a row; the first is this host.
fn chain(keys: [Option<PublicKey>; 3], store: &Store) -> NodeKeys {
    let name = |index: usize| ["hill", "valley", "peak"][index].to_owned();
    let node = |index| NodeConfig { name: name(index), key: keys[index], ..NodeConfig::default() };
    let link = |from| RadioLinkConfig {
        between: [name(from), name(from + 1)],
        distance_km: Some(1.0),
        ..RadioLinkConfig::default()
    };
    let scenario = Scenario {
        name: "chain".into(),
        duration_s: 1.0,
        node: (0..3).map(node).collect(),
        link: (0..2).map(link).collect(),
        ..Scenario::default()
    };
    NodeKeys::build(&scenario, &scenario.plan().nodes[0], store.clone())
}

#[test]
fn keys_come_from_the_scenario_and_from_the_folder() {
    let (_dir, store) = folder();
    let own = store.own_or_new().expect("a key").0.public();
    let keys = chain([Some(own), None, Some(key(3))], &store);
    let status = keys.read(own).expect("no key of a neighbour is no error");
    assert_eq!((&*status.missing, status.nodes.len()), (&["valley".to_owned()][..], 1));
    store.trust(key(2), Some("valley"), false).expect("a key");
    store.trust(key(3), Some("peak"), false).expect("as the scenario says");
    store.trust(key(4), Some("moon"), false).expect("a key for another network");
    let status = keys.read(own).expect("all is well");
    assert_eq!((status.missing.len(), &*status.unused), (0, &["moon".to_owned()][..]));
    let numbered: Vec<(u16, PublicKey)> =
        keys.numbered(&status).into_iter().map(|(node, key)| (node.0, key)).collect();
    assert_eq!(numbered, [(2, key(2)), (3, key(3))]);
}

#[test]
fn a_key_that_was_revoked_is_refused_though_the_scenario_names_it() {
    let (_dir, store) = folder();
    let own = store.own_or_new().expect("a key").0.public();
    let keys = chain([None, Some(key(2)), None], &store);
    let known = keys.read(own).expect("all is well").nodes;
    store.revoke("valley", &known).expect("the scenario's key");
    let status = keys.read(own).expect("all is well");
    assert_eq!((status.nodes.len(), &*status.revoked), (0, &["valley".to_owned()][..]));
    assert_eq!(status.missing, ["valley"]);
    store.trust(key(5), Some("valley"), false).expect("its new key");
    let status = keys.read(own).expect("the scenario is out of date, and that is known");
    assert_eq!(status.nodes["valley"], key(5));
}

#[test]
fn a_node_whose_key_of_the_folder_was_revoked_is_told_from_one_that_never_had_one() {
    let (_dir, store) = folder();
    let own = store.own_or_new().expect("a key").0.public();
    let keys = chain([None; 3], &store);
    let revoked = || keys.read(own).expect("all is well").revoked;
    store.trust(key(2), Some("valley"), false).expect("a key");
    assert_eq!(revoked(), [] as [&str; 0]);
    store.revoke("valley", &BTreeMap::new()).expect("it is trusted");
    assert_eq!(revoked(), ["valley"]);
    store.trust(key(5), Some("valley"), false).expect("its new key");
    assert_eq!(revoked(), [] as [&str; 0]);
}

#[test]
fn a_scenario_and_a_folder_that_disagree_are_told_apart() {
    let (_dir, store) = folder();
    let own = store.own_or_new().expect("a key").0.public();
    let said = |keys: [Option<PublicKey>; 3]| {
        chain(keys, &store).read(own).expect_err("they disagree").to_string()
    };
    let text = said([Some(key(9)), None, None]);
    assert!(text.contains("the scenario says that 'hill' has the key"), "{text}");
    let text = said([None, Some(own), None]);
    assert!(text.contains("this node's own"), "{text}");
    store.trust(key(2), Some("valley"), false).expect("a key");
    let text = said([None, Some(key(3)), None]);
    assert!(text.contains("'valley' has the key") && text.contains("/keys/trusted"), "{text}");
    let text = said([None, None, Some(key(2))]);
    assert!(text.contains("two names, 'peak' and 'valley'"), "{text}");
    store.trust(key(4), Some("hill"), false).expect("no scenario is here");
    let text = said([None; 3]);
    assert!(text.contains("trusted as 'hill', which is this node itself"), "{text}");
}

#[test]
fn a_full_disk_is_not_taken_for_a_lack_of_rights() {
    let said = |kind: std::io::ErrorKind| {
        let (dir, error) = ("/etc/farhop".into(), kind.into());
        KeysError::Unwritable { dir, error }.to_string()
    };
    assert!(said(std::io::ErrorKind::StorageFull).contains("make room"));
    assert!(said(std::io::ErrorKind::PermissionDenied).contains("the user who owns it"));
}

#[test]
fn a_file_is_no_folder_of_keys() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("key");
    std::fs::write(&file, "mine").expect("it can be written");
    for wrong in [file.clone(), file.join("deeper")] {
        let said = Store::open(Some(&wrong)).expect_err("no folder").to_string();
        let right = format!("{} is a file: --keys takes the folder", file.display());
        assert!(said.starts_with(&right), "{said}");
    }
    assert!(Store::open(Some(&dir.path().join("new"))).is_ok());
}
