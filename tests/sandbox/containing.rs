//! Tests the sandbox from inside: attacks that must fail, next to honest work that must succeed.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::*;

/// Runs each line by itself; all of them must fail.
fn all_fail(sandbox: &Sandbox, place: &Place, attacks: &[String]) {
    for attack in attacks {
        let output = run(sandbox, &script(attack), place.request());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_ne!(output.exit_code, Some(0), "{:?}: `{attack}` worked: {said}", output.tier);
    }
}

#[test]
fn nothing_outside_is_written() {
    let place = Place::new();
    let outside = place.at("outside");
    symlink(&outside, place.at("tree/link")).unwrap();
    symlink(outside.join("new"), place.at("tree/dangling")).unwrap();
    each_tier(&place, |sandbox, tier| {
        let outside = outside.display();
        let (project, home) = (place.at("project"), place.at("home"));
        all_fail(
            sandbox,
            &place,
            &[
                format!("echo x > {outside}/new"),
                format!("echo x >> {outside}/secret"),
                format!("mkdir {outside}/folder"),
                format!("rm {outside}/secret"),
                format!("truncate -s 0 {outside}/secret"),
                format!("ln {outside}/secret hard"),
                format!("mv a.txt {outside}/"),
                format!("mv {outside}/secret ."),
                "echo x > link/new".to_owned(),
                "echo x > dangling".to_owned(),
                format!("echo x > {}/a.txt", project.display()),
                format!("echo x > {}/.bashrc", home.display()),
                "echo x > /etc/qwen-was-here".to_owned(),
                "echo x > /usr/qwen-was-here".to_owned(),
                "echo x > /qwen-was-here".to_owned(),
                "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern".to_owned(),
                "echo x > /proc/sys/vm/drop_caches".to_owned(),
                "echo h > /proc/sysrq-trigger".to_owned(),
            ],
        );
        // In T3 the directory above may be a private one, as all of /tmp is there.
        said(sandbox, &place, "echo x > ../qwen-was-here");
        assert!(!place.at("qwen-was-here").exists(), "{tier:?}");
        assert_eq!(std::fs::read_to_string(place.at("outside/secret")).unwrap(), "SECRET\n", "{tier:?}");
        assert_eq!(std::fs::read_dir(place.at("outside")).unwrap().count(), 1, "{tier:?}");
        assert_eq!(std::fs::read_to_string(place.at("project/a.txt")).unwrap(), "project\n", "{tier:?}");
        for made in ["/etc/qwen-was-here", "/usr/qwen-was-here", "/qwen-was-here"] {
            assert!(!Path::new(made).exists());
        }
    });
}

#[test]
fn the_command_tree_and_the_private_folders_are_written() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        let text_of = "echo new > b.txt && mv b.txt src/ && ln src/b.txt src/c.txt && rm src/b.txt && cat src/c.txt && \
                       echo x > \"$HOME/x\" && t=$(mktemp) && mv \"$t\" src/t && rm src/t && echo fine > /dev/null && \
                       printf '#!/bin/sh\\necho ran\\n' > run.sh && chmod +x run.sh && ./run.sh && rm run.sh src/c.txt";
        assert_eq!(said(sandbox, &place, text_of), "new\nran\n", "{tier:?}");
    });
}

#[test]
fn nothing_outside_is_read() {
    let place = Place::new();
    symlink(place.at("outside/secret"), place.at("tree/link")).unwrap();
    each_tier(&place, |sandbox, _| {
        let (outside, home, project) = (place.at("outside"), place.at("home"), place.at("project"));
        all_fail(
            sandbox,
            &place,
            &[
                format!("cat {}/secret", outside.display()),
                format!("cp {}/secret .", outside.display()),
                format!("ls {}", outside.display()),
                format!("cat {}/.ssh/id_ed25519", home.display()),
                format!("cat {}/a.txt", project.display()),
                "cat link".to_owned(),
                "cat /etc/shadow".to_owned(),
                "cat /root/.bashrc".to_owned(),
                "ls /sys/kernel".to_owned(),
                "head -c 1 /dev/vda".to_owned(),
                "head -c 1 /dev/mem".to_owned(),
                "head -c 1 /dev/kmsg".to_owned(),
                "cat /proc/kcore | head -c 1 | grep -q .".to_owned(),
            ],
        );
    });
}

#[test]
fn below_namespaces_names_outside_can_be_seen_and_in_them_not_even_that() {
    let mut place = Place::new();
    // A toolchain of the home would be shown, and with it the way to it.
    place.path = "/usr/bin:/bin".into();
    let ask = format!("stat -c %s {}", place.at("outside/secret").display());
    if let Some(sandbox) = place.sandbox(Tier::T3) {
        assert!(said(&sandbox, &place, &ask).contains("No such file"));
        let top = said(&sandbox, &place, "ls /home /root /var/log /run /srv /mnt /boot 2>/dev/null");
        assert!(!top.lines().any(|line| !line.is_empty() && !line.ends_with(':')), "{top}");
    }
    if let Some(sandbox) = place.sandbox(Tier::T2) {
        let mode = "chmod 640";
        let file = place.at("outside/secret");
        said(&sandbox, &place, &format!("{mode} {}", file.display()));
        aloud(&format!("NOT GUARDED in T2: sizes ({}), modes and times outside", said(&sandbox, &place, &ask).trim()));
    }
}

#[test]
fn git_s_own_folder_is_read_and_never_written() {
    let place = Place::new();
    let git = place.at("project/.git");
    std::fs::create_dir(&git).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    each_tier(&place, |sandbox, tier| {
        let mut request = place.request();
        request.read = vec![git.clone()];
        let read = run(sandbox, &script(&format!("cat {}/HEAD", git.display())), request.clone());
        assert_eq!(text(&read.stdout), "ref: refs/heads/main\n", "{tier:?}");
        for attack in ["echo x > {}/HEAD", "echo x > {}/hooks", "rm {}/HEAD", "mv {} ./g", "mkdir {}/hooks"] {
            let attack = attack.replace("{}", git.to_str().unwrap());
            assert_ne!(run(sandbox, &script(&attack), request.clone()).exit_code, Some(0), "{tier:?} {attack}");
        }
        assert_eq!(std::fs::read_dir(&git).unwrap().count(), 1);
    });
    // If commands work in the project itself, only mounts can hold a part of it back; elsewhere that is refused.
    let mut request = place.request();
    request.tree = qwen_run::sandbox::CommandRoot::Folder(place.at("project"));
    request.read_only = vec![".git".into()];
    if let Some(sandbox) = place.sandbox(Tier::T3) {
        let attack = "echo x > .git/HEAD; rm -rf .git; mv .git g; echo fine > b.txt; cat .git/HEAD b.txt";
        let output = run(&sandbox, &script(attack), request.clone());
        assert_eq!(text(&output.stdout), "ref: refs/heads/main\nfine\n");
    }
    if let Some(sandbox) = place.sandbox(Tier::T2) {
        assert!(matches!(wait(sandbox.run(&script("true"), request)), Err(SandboxError::Refused(_))));
    }
}

pub(super) const CONNECT: &str = r#"perl -MSocket -e '
    my ($kind, $type, $where) = @ARGV;
    my $to = $kind eq "inet" ? sockaddr_in($where, inet_aton("127.0.0.1"))
           : $kind eq "abstract" ? pack("S a*", AF_UNIX, "\0$where") : sockaddr_un($where);
    my $family = $kind eq "inet" ? PF_INET : PF_UNIX;
    socket(my $s, $family, $type eq "udp" ? SOCK_DGRAM : SOCK_STREAM, 0) or die "socket: $!\n";
    connect($s, $to) or die "connect: $!\n";
    syswrite($s, "leak") or die "write: $!\n";
    print "reached\n";
' "#;

#[test]
fn no_socket_leads_outside() {
    let place = Place::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let name = format!("qwen-test-{}", std::process::id());
    let by_path = UnixListener::bind(place.at("outside/socket")).unwrap();
    let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    tcp.set_nonblocking(true).unwrap();
    udp.set_nonblocking(true).unwrap();
    by_path.set_nonblocking(true).unwrap();
    by_name.set_nonblocking(true).unwrap();
    let ways = [
        format!("{CONNECT} inet tcp {}", tcp.local_addr().unwrap().port()),
        format!("{CONNECT} inet udp {}", udp.local_addr().unwrap().port()),
        format!("{CONNECT} unix tcp {}", place.at("outside/socket").display()),
        format!("{CONNECT} abstract tcp {name}"),
        "exec 3<>/dev/tcp/127.0.0.1/PORT && echo leak >&3"
            .replace("PORT", &tcp.local_addr().unwrap().port().to_string()),
        // Families that no namespace holds: vsock, the kernel's crypto, packets, netlink other than routes.
        "perl -e 'socket(S, 40, 1, 0) or die'".to_owned(),
        "perl -e 'socket(S, 38, 5, 0) or die'".to_owned(),
        "perl -e 'socket(S, 17, 3, 768) or die'".to_owned(),
        "perl -e 'socket(S, 16, 3, 15) or die'".to_owned(),
    ];
    let reached = || {
        let heard = udp.recv(&mut [0; 8]).is_ok();
        tcp.accept().is_ok() || heard || by_path.accept().is_ok() || by_name.accept().is_ok()
    };
    // The attack itself works where nothing holds it back.
    let open = place.sandbox(Tier::T0).unwrap();
    for way in &ways[..4] {
        assert_eq!(said(&open, &place, way), "reached\n");
        assert!(reached());
    }
    each_tier(&place, |sandbox, tier| {
        for way in &ways {
            let answer = said(sandbox, &place, way);
            // A datagram to nobody is sent without complaint.
            assert!(!answer.contains("reached") || way.contains("inet udp"), "{tier:?} {way}: {answer}");
            assert!(!reached(), "{tier:?} {way}");
        }
    });
}

#[test]
fn an_open_network_opens_the_internet_and_no_local_socket() {
    let mut place = Place::new();
    place.network = Network::Any;
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("qwen-test-any-{}", std::process::id());
    let _by_path = UnixListener::bind(place.at("outside/socket")).unwrap();
    let _by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    each_tier(&place, |sandbox, tier| {
        let way = format!("{CONNECT} inet tcp {}", tcp.local_addr().unwrap().port());
        assert_eq!(said(sandbox, &place, &way), "reached\n", "{tier:?}");
        for way in [format!("unix tcp {}", place.at("outside/socket").display()), format!("abstract tcp {name}")] {
            let answer = said(sandbox, &place, &format!("{CONNECT} {way}"));
            assert!(!answer.contains("reached"), "{tier:?} {way}: {answer}");
        }
        // What cannot be read runs without a network all the same.
        let plan = plan(Start::AsWritten(format!("{CONNECT} inet tcp {}", tcp.local_addr().unwrap().port())));
        assert!(!text(&run(sandbox, &plan, place.request()).stdout).contains("reached"), "{tier:?}");
    });
}

#[test]
fn a_loopback_of_their_own_and_pairs_of_sockets_work() {
    let place = Place::new();
    let pair = "perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die $!; syswrite $a, \"pair\\n\"; \
                sysread $b, my $x, 9; print $x'";
    each_tier(&place, |sandbox, tier| assert_eq!(said(sandbox, &place, pair), "pair\n", "{tier:?}"));
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let server = "perl -MSocket -e 'socket(my $s, PF_INET, SOCK_STREAM, 0); \
                  bind($s, sockaddr_in(8123, inet_aton(\"127.0.0.1\"))) or die $!; listen($s, 1); \
                  if (fork) { accept(my $c, $s); print scalar <$c>; wait } \
                  else { socket(my $c, PF_INET, SOCK_STREAM, 0); \
                  connect($c, sockaddr_in(8123, inet_aton(\"127.0.0.1\"))) or die $!; syswrite $c, \"loop\\n\" }'";
    assert_eq!(said(&sandbox, &place, server), "loop\n");
}

/// System calls by number, as perl's `syscall` takes them; each must be refused by the filter itself.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(&str, &str)] = &[
    ("unshare for users", "272, 0x10000000"),
    ("unshare for mounts", "272, 0x00020000"),
    ("clone with a namespace", "56, 0x10000011, 0, 0, 0, 0"),
    ("setns", "308, 0, 0"),
    ("mount", "165, $s, $s, $s, 0, 0"),
    ("mount by its x32 number", "0x40000000 + 165, $s, $s, $s, 0, 0"),
    ("umount2", "166, $s, 2"),
    ("open_tree", "428, -100, $s, 1"),
    ("fsopen", "430, $s, 0"),
    ("move_mount", "429, 0, $s, 0, $s, 0"),
    ("mount_setattr", "442, -100, $s, 0, 0, 0"),
    ("pivot_root", "155, $s, $s"),
    ("chroot", "161, $s"),
    ("ptrace traceme", "101, 0, 0, 0, 0"),
    ("process_vm_readv", "310, $$, 0, 0, 0, 0, 0"),
    ("io_uring_setup", "425, 8, 0"),
    ("bpf", "321, 0, 0, 0"),
    ("perf_event_open", "298, 0, 0, 0, 0, 0"),
    ("userfaultfd", "323, 0"),
    ("keyctl", "250, 0, 0"),
    ("add_key", "248, $s, $s, $s, 1, -4"),
    ("kexec_load", "246, 0, 0, 0, 0"),
    ("init_module", "175, 0, 0, $s"),
    ("finit_module", "313, 0, $s, 0"),
    ("reboot", "169, 0, 0, 0"),
    ("settimeofday", "164, 0, 0"),
    ("sethostname", "170, $s, 1"),
    ("swapon", "167, $s, 0"),
    ("open_by_handle_at", "304, 0, 0, 0"),
    ("pidfd_getfd", "438, 0, 0, 0"),
    ("type into the terminal", "16, 1, 0x5412, $s"),
    ("mknod of a disk", "133, $s, 0060600, 0xfe00"),
    ("mknod of memory", "133, $s, 0020600, 0x101"),
];

#[cfg(target_arch = "x86_64")]
#[test]
fn system_calls_that_lead_out_are_refused() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        let mut program = String::from("$| = 1; $s = \"disk\";");
        for (name, call) in CALLS {
            program.push_str(&format!("$! = 0; $r = syscall({call}); print \"{name}: $r \" . ($!+0) . \"\\n\";"));
        }
        let answers = said(sandbox, &place, &format!("perl -e '{program}'"));
        let expected: String = CALLS.iter().map(|(name, _)| format!("{name}: -1 1\n")).collect();
        assert_eq!(answers, expected, "{tier:?}");
        // clone3 does not exist, so that its callers use the other one.
        let answer = said(sandbox, &place, "perl -e '$r = syscall(435, 0, 0); print $!+0'");
        assert_eq!(answer, "38", "{tier:?}");
        let tools = ["unshare -U true", "unshare -r true", "mount -t tmpfs none /tmp", "nsenter -t 1 -m true"];
        all_fail(sandbox, &place, &tools.map(str::to_owned));
    });
}

/// Calls that act on processes and objects of the whole machine, by number; `$o` is another process of the same user.
/// Each is chosen so that it would do no harm.
#[cfg(target_arch = "x86_64")]
const ON_OTHERS: &[(&str, &str)] = &[
    ("prlimit64, reading", "302, $o, 7, 0, $s"),
    ("prlimit64, setting", "302, $o, 7, $s, 0"),
    ("setpriority of a process", "141, 0, $o, 0"),
    ("setpriority of the group", "141, 1, 0, 0"),
    ("setpriority of the user", "141, 2, 0, 0"),
    ("ioprio_set of a process", "251, 1, $o, 0"),
    ("ioprio_set of the user", "251, 3, 0, 0"),
    ("sched_setaffinity", "203, $o, 0, $s"),
    ("sched_setscheduler", "144, $o, 0, $s"),
    ("sched_setparam", "142, $o, $s"),
    ("sched_setattr", "314, $o, $s, 0"),
    ("migrate_pages", "256, $o, 0, 0, 0"),
    ("move_pages", "279, $o, 0, 0, 0, 0, 0"),
    ("shmat", "30, $shm, 0, 010000"),
    ("shmctl", "31, $shm, 2, $s"),
    ("semctl", "66, 0, 0, 2, $s"),
    ("semop", "65, 0, $s, 0"),
    ("semtimedop", "220, 0, $s, 0, 0"),
    ("msgsnd", "69, 0, $s, 0, 0"),
    ("msgrcv", "70, 0, $s, 0, 0, 04000"),
    ("msgctl", "71, 0, 2, $s"),
    ("mq_open", "240, $s, 0, 0, 0"),
    ("mq_unlink", "241, $s"),
];

#[cfg(target_arch = "x86_64")]
#[test]
fn what_others_on_the_machine_have_is_neither_set_nor_read_by_number() {
    let place = Place::new();
    let null = std::process::Stdio::null;
    let mut sleep = std::process::Command::new("sleep");
    let bystander = Bystander(sleep.arg("1000").stdin(null()).stdout(null()).stderr(null()).spawn().unwrap());
    let other = bystander.0.id();
    let Some(sandbox) = place.sandbox(Tier::T2) else { return };
    let mut program = format!("$| = 1; $s = \"no such queue\" x 9; $o = {other}; $shm = 0;");
    for (name, call) in ON_OTHERS {
        program.push_str(&format!("$! = 0; $r = syscall({call}); print \"{name}: $r \" . ($!+0) . \"\\n\";"));
    }
    let answers = said(&sandbox, &place, &format!("perl -e '{program}'"));
    let expected: String = ON_OTHERS.iter().map(|(name, _)| format!("{name}: -1 1\n")).collect();
    assert_eq!(answers, expected);
    each_tier(&place, |sandbox, tier| {
        // What a program asks of itself.
        for own in ["ulimit -n 100 && ulimit -n", "nice -n 5 true", "ionice -c 3 true", "taskset -c 0 true || true"] {
            let output = run(sandbox, &script(own), place.request());
            assert_eq!(output.exit_code, Some(0), "{tier:?} {own}: {}", text(&output.stderr));
        }
    });
}

#[test]
fn other_processes_can_be_neither_read_nor_signalled() {
    let place = Place::new();
    let us = std::process::id();
    // A process of the same user that has a secret in its environment and takes a signal as its end.
    let null = std::process::Stdio::null;
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg("1000").env("HIDDEN", "hunter2").stdin(null()).stdout(null()).stderr(null());
    let mut bystander = Bystander(sleep.spawn().unwrap());
    each_tier(&place, |sandbox, tier| {
        let other = bystander.0.id();
        all_fail(
            sandbox,
            &place,
            &[
                format!("cat /proc/{other}/environ"),
                format!("cat /proc/{us}/environ"),
                format!("cat /proc/{us}/maps"),
                format!("cat /proc/{us}/mem"),
                format!("readlink /proc/{us}/fd/0"),
                format!("cat /proc/{us}/fd/1"),
                format!("ls /proc/{us}/root/"),
                format!("cat /proc/{us}/cwd/Cargo.toml"),
                format!("kill -0 {us}"),
                format!("kill -0 {other}"),
                format!("kill -9 {other}"),
                format!("perl -e 'exit(0 > syscall(434, {us}, 0))'"),
                format!("prlimit --pid {us} --cpu=1:1"),
            ],
        );
        // Not with a signal that ends anything: should the sandbox fail, the machine need not.
        let everybody = run(sandbox, &script("kill -0 -1"), place.request());
        assert!(everybody.exit_code != Some(0) || tier == Tier::T3, "{tier:?}: all processes could be signalled");
        assert!(bystander.0.try_wait().unwrap().is_none(), "{tier:?}: a process outside was ended");
        // The helper, inside and outside of the sandbox, lives on as well.
        let leader_and_keeper =
            "kill -9 $PPID; kill -9 -- -$PPID; kill -9 $(ps -o ppid= $PPID); sleep 0.02; echo alive";
        let text_of = if tier == Tier::T3 { "kill -9 $PPID; sleep 0.02; echo alive" } else { leader_and_keeper };
        let keeper = run(sandbox, &script(text_of), place.request());
        assert_eq!((text(&keeper.stdout).as_str(), keeper.exit_code), ("alive\n", Some(0)), "{tier:?} {keeper:?}");
        let own = said(sandbox, &place, "sleep 1000 & kill $! && wait $!; echo own $?");
        assert!(own.ends_with("own 143\n"), "{tier:?}: its own processes it may end: {own}");
    });
}

/// A process that ends with the test, however that ends.
struct Bystander(std::process::Child);

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn only_its_own_processes_are_seen_in_namespaces() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let seen = said(&sandbox, &place, "echo /proc/[0-9]*");
    assert!(seen.split_whitespace().count() <= 3, "{seen}");
}

#[test]
fn even_root_has_no_power_inside() {
    let place = Place::new();
    let mut sets = vec!["CapInh", "CapPrm", "CapEff", "CapAmb"];
    if rustix::process::geteuid().is_root() {
        // What could be gained; who is not root gains nothing anyhow, for want of new privileges.
        sets.push("CapBnd");
    } else {
        aloud("NOT TESTED: this test says something only when root runs it");
    }
    each_tier(&place, |sandbox, tier| {
        let status = said(sandbox, &place, "cat /proc/self/status");
        let value = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).unwrap().trim().to_owned()
        };
        for name in &sets {
            assert_eq!(value(name).trim_start_matches('0'), "", "{tier:?} {name}");
        }
        assert_eq!((value("NoNewPrivs").as_str(), value("Seccomp").as_str()), ("1", "2"), "{tier:?}");
        let id = rustix::process::geteuid().as_raw().to_string();
        assert_eq!(said(sandbox, &place, "id -u").trim(), id, "{tier:?}");
    });
}

#[test]
fn an_overlay_takes_what_is_written_and_the_project_stays_as_it_is() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    if !sandbox.confinement().has_overlay() {
        aloud("NOT TESTED: this machine mounts no overlay");
        return;
    }
    std::fs::create_dir(place.at("project/.git")).unwrap();
    std::fs::write(place.at("project/.git/HEAD"), "main\n").unwrap();
    let (upper, work) = (place.at("private/up,p:er"), place.at("private/work"));
    std::fs::create_dir(&upper).unwrap();
    std::fs::create_dir(&work).unwrap();
    std::fs::write(upper.join("staged.txt"), "staged\n").unwrap();
    let mut request = place.request();
    request.tree = qwen_run::sandbox::CommandRoot::Overlay { project: place.at("project"), upper: upper.clone(), work };
    request.read_only = vec![".git".into()];
    let text_of =
        "pwd; cat a.txt staged.txt; echo changed > a.txt; echo b > src/b; echo x > .git/HEAD; cat .git/HEAD a.txt";
    let output = run(&sandbox, &script(text_of), request.clone());
    let expected = format!("{}\nproject\nstaged\nmain\nchanged\n", place.at("project").display());
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(place.at("project/a.txt")).unwrap(), "project\n");
    assert!(!place.at("project/src/b").exists());
    assert_eq!(std::fs::read_to_string(upper.join("a.txt")).unwrap(), "changed\n");
    // The next command finds what this one did.
    let output = run(&sandbox, &script("cat a.txt src/b; rm a.txt"), request.clone());
    assert_eq!(text(&output.stdout), "changed\nb\n");
    let output = run(&sandbox, &script("ls"), request);
    assert_eq!(text(&output.stdout), "src\nstaged.txt\n");
    assert!(place.at("project/a.txt").exists());
}

#[test]
fn files_that_nobody_may_read_look_empty_in_a_command_tree() {
    let place = Place::new();
    std::fs::write(place.at("tree/.env"), "KEY=1\n").unwrap();
    std::fs::create_dir(place.at("tree/secrets")).unwrap();
    std::fs::write(place.at("tree/secrets/key"), "KEY=2\n").unwrap();
    let mut request = place.request();
    request.hidden = vec![".env".into(), "secrets".into(), "not-there".into()];
    if let Some(sandbox) = place.sandbox(Tier::T2) {
        assert!(matches!(wait(sandbox.run(&script("true"), request.clone())), Err(SandboxError::Refused(_))));
    }
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let text_of = "cat .env secrets/*; ls -A secrets; echo x > .env; rm -f .env; mv secrets s; ln .env e; cat e; true";
    let output = run(&sandbox, &script(text_of), request);
    assert!(!(text(&output.stdout) + &text(&output.stderr)).contains("KEY"), "{}", text(&output.stdout));
    assert_eq!(std::fs::read_to_string(place.at("tree/.env")).unwrap(), "KEY=1\n");
    assert!(place.at("tree/secrets/key").exists());
}

#[test]
fn a_link_in_the_command_tree_cannot_have_us_make_files_elsewhere() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    symlink(place.at("outside"), place.at("tree/sub")).unwrap();
    symlink(place.at("outside/file"), place.at("tree/file")).unwrap();
    let mut request = place.request();
    request.read = vec![place.at("tree/sub/made"), place.at("tree/file")];
    request.hidden = vec!["sub/secret".into(), "sub/hidden".into()];
    std::fs::create_dir(place.at("project/made")).unwrap();
    request.seen_at = Some(place.at("project"));
    request.read.push(place.at("project/made"));
    symlink(place.at("outside"), place.at("tree/made")).unwrap();
    run(&sandbox, &script("true"), request.clone());
    assert_eq!(std::fs::read_dir(place.at("outside")).unwrap().count(), 1);
    request.write = vec![place.at("project/made")];
    assert!(matches!(wait(sandbox.run(&script("true"), request)), Err(SandboxError::NotStarted(_))));
    assert_eq!(std::fs::read_dir(place.at("outside")).unwrap().count(), 1);
}

#[test]
fn a_copy_can_be_seen_at_the_project_s_place() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T3) else { return };
    let mut request = place.request();
    request.seen_at = Some(place.at("project"));
    assert_eq!(sandbox.seen_root(&request), place.at("project"));
    let output = run(&sandbox, &script("pwd; cat \"$PWD/a.txt\"; echo x > new"), request);
    assert_eq!(text(&output.stdout), format!("{}\ntree\n", place.at("project").display()));
    assert!(place.at("tree/new").exists() && !place.at("project/new").exists());
}

#[test]
fn without_landlock_system_calls_are_filtered_and_it_is_said_that_files_are_not_guarded() {
    let place = Place::new();
    let Some(sandbox) = place.sandbox(Tier::T1) else { return };
    assert!(sandbox.confinement().describe().starts_with("T1: not isolated"), "{}", sandbox.confinement().describe());
    assert!(said(&sandbox, &place, "perl -e 'socket(S, 2, 1, 0) or print $!'").contains("not permitted"));
    assert!(said(&sandbox, &place, "unshare -U true").contains("not permitted"));
    let off = place.sandbox(Tier::T0).unwrap();
    for (isolation, here, by_word) in
        [(Isolation::None, true, true), (Isolation::Waivable, false, true), (Isolation::Required, false, false)]
    {
        let plan = CommandPlan { isolation, ..script("true") };
        assert_eq!(
            (sandbox.confinement().may_run(&plan).is_ok(), off.confinement().may_run(&plan).is_ok()),
            (here, by_word),
            "{isolation:?}"
        );
    }
}

#[test]
fn what_is_required_and_cannot_be_had_is_an_error_and_off_says_so() {
    let place = Place::new();
    let off = place.sandbox_with(Demand::Off).unwrap();
    assert!(off.confinement().describe().starts_with("not isolated"), "{}", off.confinement().describe());
    let mut secret = String::new();
    std::fs::File::open(place.at("outside/secret")).unwrap().read_to_string(&mut secret).unwrap();
    let output = run(&off, &script(&format!("cat {}", place.at("outside/secret").display())), place.request());
    assert_eq!((text(&output.stdout), output.sandboxed()), (secret, false));
    // Without a helper that works nothing can be had.
    let broken = Confinement::detect(Demand::Require, Network::None, Path::new("/bin/false"), &place.at("private"));
    assert!(matches!(broken, Err(SandboxError::Unmet { tier: "T0", .. })));
    let unreadable = CommandPlan { isolation: Isolation::Required, ..plan(Start::AsWritten("true".to_owned())) };
    assert!(matches!(wait(off.run(&unreadable, place.request())), Err(SandboxError::Refused(_))));
}
