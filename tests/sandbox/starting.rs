//! Tests how a command is started, and how its end is reported.

use super::*;

#[test]
fn a_pipeline_runs_without_a_shell_and_its_last_program_counts() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let output = run(&sandbox, &pipeline(&[&["printf", "b\\na\\n$HOME;x\\n"], &["sort"]]), place.request());
    assert_eq!((text(&output.stdout).as_str(), output.exit_code), ("$HOME;x\na\nb\n", Some(0)));
    let output = run(&sandbox, &pipeline(&[&["false"], &["true"]]), place.request());
    assert_eq!(output.exit_code, Some(0));
    let output = run(&sandbox, &pipeline(&[&["true"], &["false"]]), place.request());
    assert_eq!(output.exit_code, Some(1));
}

#[test]
fn a_script_starts_in_its_folder_with_no_startup_files_and_no_input() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut plan = script("pwd; cat; echo to-err >&2; tty; exit 7");
    plan.directory = RelPath::new("src").unwrap();
    let output = run(&sandbox, &plan, place.request());
    assert_eq!(text(&output.stdout), format!("{}\nnot a tty\n", place.at("tree/src").display()));
    assert_eq!((text(&output.stderr).as_str(), output.exit_code, output.signal), ("to-err\n", Some(7), None));
}

#[test]
fn a_missing_program_is_an_error_of_execution_like_in_a_shell() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let output = run(&sandbox, &pipeline(&[&["no-such-program-here"]]), place.request());
    assert_eq!(output.exit_code, Some(127));
    assert_eq!(text(&output.stderr), "no-such-program-here: command not found\n");
    let output = run(&sandbox, &pipeline(&[&["no-such-program-here"], &["wc", "-c"]]), place.request());
    assert_eq!((text(&output.stdout).trim(), output.exit_code), ("0", Some(0)));
    let output = run(&sandbox, &pipeline(&[&["./a.txt"]]), place.request());
    assert_eq!(output.exit_code, Some(126));
}

#[test]
fn a_program_of_the_workspace_is_not_found_through_path() {
    let mut place = Place::new();
    std::fs::write(place.at("project/git"), "#!/bin/sh\necho owned\n").unwrap();
    std::fs::set_permissions(
        place.at("project/git"),
        <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755),
    )
    .unwrap();
    place.path = format!(".:{}:{}", place.at("project").display(), place.path.display()).into();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let output = run(&sandbox, &pipeline(&[&["git", "--version"]]), place.request());
    assert!(text(&output.stdout).starts_with("git version"));
    let output = run(&sandbox, &script("type -P git; git --version"), place.request());
    assert!(!text(&output.stdout).contains("owned") && !text(&output.stdout).contains("project"));
}

#[test]
fn the_environment_is_built_from_nothing() {
    let mut place = Place::new();
    place.env_set = vec![("OPERATOR".to_owned(), "said".to_owned())];
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut request = place.request();
    request.variables = vec![("GIT_CONFIG_COUNT".to_owned(), "0".to_owned())];
    let output = run(&sandbox, &pipeline(&[&["env"]]), request);
    let seen = text(&output.stdout);
    let value = |name: &str| seen.lines().find_map(|line| line.strip_prefix(&format!("{name}=")).map(str::to_owned));
    assert_eq!(value("SECRET_TOKEN"), None);
    assert_eq!(value("HOME").as_deref(), place.at("private/home").to_str());
    assert_eq!(value("TMPDIR").as_deref(), place.at("private/tmp").to_str());
    assert_eq!(value("PAGER").as_deref(), Some("cat"));
    assert_eq!(value("QWEN_CODE").as_deref(), Some("1"));
    assert_eq!(value("OPERATOR").as_deref(), Some("said"));
    assert_eq!(value("GIT_CONFIG_COUNT").as_deref(), Some("0"));
}

#[test]
fn a_long_output_is_bounded_in_memory_and_whole_in_a_file() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let mut request = place.request();
    let full = place.at("private/full");
    request.stdout.head = 1000;
    request.stdout.tail = 1000;
    request.stdout.spill = Some(full.clone());
    let output = run(&sandbox, &pipeline(&[&["seq", "200000"]]), request);
    assert_eq!((output.stdout.lines, output.stdout.head.len(), output.stdout.tail.len()), (200_000, 1000, 1000));
    assert_eq!(std::fs::read(full).unwrap().len() as u64, output.stdout.bytes);
    assert!(output.stdout.tail.ends_with(b"200000\n"));
}

#[test]
fn descriptors_that_we_inherited_are_closed() {
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    let leak = std::fs::File::open(place.at("outside/secret")).unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let output = run(&sandbox, &script("ls -l /proc/self/fd"), place.request());
    assert!(!text(&output.stdout).contains("secret"), "{}", text(&output.stdout));
    let open = text(&output.stdout).lines().filter(|line| line.contains("->")).count();
    assert_eq!(open, 4, "0, 1, 2 and the listing's own: {}", text(&output.stdout));
}

#[test]
fn a_program_that_is_spoken_to_answers_and_ends_with_us() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let place = Place::new();
    let sandbox = place.sandbox(Tier::T0).unwrap();
    wait(async {
        let plan = script("echo $$ > pid; exec cat");
        let mut piped = sandbox.pipe(&plan, place.request()).await.unwrap();
        piped.stdin.write_all(b"ping").await.unwrap();
        let mut answer = [0; 4];
        piped.stdout.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ping");
        drop(piped.stdin);
        assert_eq!(piped.lifeline.ended().await, Some(0));
    });
}
