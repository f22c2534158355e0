//! Tests indirect ways out of the sandbox: shared memory, signals sent by the kernel, the helper itself, setuid
//! programs.

use super::*;
use crate::support::program;

#[test]
fn shared_memory_of_the_machine_is_neither_read_nor_written() {
    let place = Place::new();
    let name = format!("/dev/shm/qwen-test-{}", std::process::id());
    if std::fs::write(&name, "SHARED\n").is_err() {
        aloud("NOT TESTED: there is no /dev/shm here");
        return;
    }
    each_tier(&place, |sandbox, tier| {
        let answer = said(sandbox, &place, &format!("cat {name}; echo x > {name}-new; ls {name}-new"));
        assert!(!answer.contains("SHARED"), "{tier:?}: {answer}");
        assert!(!Path::new(&format!("{name}-new")).exists(), "{tier:?}");
        assert_eq!(std::fs::read_to_string(&name).unwrap(), "SHARED\n", "{tier:?}");
    });
    std::fs::remove_file(name).unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn shared_memory_by_number_is_not_the_machine_s() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        // shmget, semget, msgget of a new key; then the list of what there is.
        let calls = "for my $c ([29, 7, 4096, 0600 | 512], [64, 7, 1, 0600 | 512], [68, 7, 0600 | 512]) { \
                     print syscall(@$c) < 0 ? \"no \" : \"yes \" }";
        let answer = said(sandbox, &place, &format!("perl -e '{calls}'"));
        assert!(tier == Tier::T3 || answer == "no no no ", "{tier:?}: {answer}");
    });
    let tables = ["shm", "sem", "msg"].map(|name| std::fs::read_to_string(format!("/proc/sysvipc/{name}")));
    for table in tables.iter().flatten() {
        let keys: Vec<_> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert!(!keys.contains(&"7"), "it reached the machine's own: {table}");
    }
}

/// The kernel sends a signal of one's choice to a process of one's choice when a pipe becomes readable.
const SIGNAL_BY_PIPE: &str = r#"perl -e '
    my ($pid, $signal) = @ARGV;
    pipe(my $r, my $w) or die;
    fcntl($r, 8, $pid + 0) or print "owner: $!\n";
    fcntl($r, 10, $signal + 0) or print "signal: $!\n";
    fcntl($r, 4, 0x2000) or print "async: $!\n";
    syswrite($w, "x");
    select(undef, undef, undef, 0.05);
    print "tried\n";
' "#;

#[test]
fn no_signal_reaches_a_process_outside_by_way_of_a_pipe() {
    let place = Place::new();
    let null = std::process::Stdio::null;
    each_tier(&place, |sandbox, tier| {
        let mut sleep = std::process::Command::new("sleep");
        let mut bystander = sleep.arg("1000").stdin(null()).stdout(null()).stderr(null()).spawn().unwrap();
        let answer = said(sandbox, &place, &format!("{SIGNAL_BY_PIPE} {} 9", bystander.id()));
        let ended = bystander.try_wait().unwrap().is_some();
        let _reaped = (bystander.kill(), bystander.wait());
        if ended && tier == Tier::T2 && landlock_version() < 6 {
            aloud("NOT GUARDED in T2: signals by way of a pipe, for want of a Landlock that scopes signals");
            return;
        }
        assert!(!ended, "{tier:?}: a process outside was ended: {answer}");
    });
}

/// Returns the version that the doctor finds.
fn landlock_version() -> u32 {
    let output = std::process::Command::new(program()).args(["sandbox", "doctor"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |line: &str| line.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok();
    text.lines().filter(|line| line.contains("Landlock")).find_map(number).unwrap_or(0)
}

#[test]
fn the_helper_inside_can_be_neither_read_nor_changed() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        for attack in [
            "cat /proc/$PPID/environ | grep -q .",
            "cat /proc/$PPID/maps | grep -q .",
            "dd if=/proc/$PPID/mem of=x bs=1 count=1 status=none",
            "echo x > /proc/$PPID/mem",
            "echo x > /proc/$PPID/comm",
            "echo 1000 > /proc/$PPID/oom_score_adj",
            "readlink /proc/$PPID/fd/0",
            "perl -e 'exit(syscall(101, 16, getppid(), 0, 0) != 0)'",
            "perl -e 'exit(syscall(434, getppid(), 0) < 0)' && perl -e 'exit(syscall(438, syscall(434, getppid(), 0), 0, 0) < 0)'",
        ] {
            let output = run(sandbox, &script(attack), place.request());
            assert_ne!(output.exit_code, Some(0), "{tier:?}: `{attack}` worked: {output:?}");
        }
    });
}

#[test]
fn a_setuid_program_gains_nothing_and_none_can_be_made() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        let own = rustix::process::geteuid().as_raw();
        let text_of = "cp /usr/bin/id own-id && { chmod u+s own-id; ./own-id -u; }; [ -u own-id ] && echo MADE; \
                       for su in /usr/bin/su /bin/su /usr/bin/sudo; do [ -u $su ] && $su -c id < /dev/null; done; \
                       perl -e '$> = 1; $< = 1; $> = 0; $< = 0; print \"ids $< $>\\n\"'";
        let answer = said(sandbox, &place, text_of);
        assert!(answer.starts_with(&format!("{own}\n")), "{tier:?}: {answer}");
        assert!(tier == Tier::T3 || !answer.contains("MADE"), "{tier:?}: {answer}");
        let root_by_su = answer.contains("uid=0") && own != 0;
        assert!(!root_by_su, "{tier:?}: {answer}");
        assert!(own == 0 || !answer.contains("ids 0"), "{tier:?}: {answer}");
    });
}

#[test]
fn there_is_no_terminal_to_type_into() {
    let place = Place::new();
    each_tier(&place, |sandbox, tier| {
        let answer = said(sandbox, &place, "exec 3<>/dev/tty && echo terminal; tty; ps -o tty= -p $$ 2>/dev/null");
        assert!(!answer.contains("\nterminal") && !answer.starts_with("terminal"), "{tier:?}: {answer}");
        assert!(answer.contains("not a tty"), "{tier:?}: {answer}");
    });
}
