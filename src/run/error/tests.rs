use super::*;
use crate::base::error::samples::{io, listed, text};
use crate::base::{Code, Diagnostic, Location, Span};
use crate::deliver::DeliverError;
use crate::deliver::message::MessageError;
use crate::exit::Exit;
use crate::git::repository::RepositoryError;
use crate::git::trusted::TrustedError;
use crate::model::local::LocalError;
use crate::model::{ErrorClass, ModelError};
use crate::policy::layers::LayerError;
use crate::policy::lists::ToolEntryError;
use crate::policy::redact::SecretPatternError;
use crate::sandbox::SandboxError;
use crate::settings::Origin;
use crate::settings::SettingsError;
use crate::settings::keys::KeyError;
use crate::tools::mcp::command_line::CommandLineError;
use crate::tools::mcp::oauth::SignInError;
use crate::workspace::WorkspaceError;

fn layer() -> Box<LayerError> {
    Box::new(LayerError::Tests(vec![text("the test is wrong")]))
}

fn diagnostic(code: Code) -> Diagnostic {
    let location = Location { file: "r.yaml".into(), span: Span { line: 2, column: 3 } };
    Diagnostic::new(code, location, "wrong").help("correct it")
}

#[test]
fn what_a_command_works_with_is_missing_with_these_words() {
    let settings = SettingsError { origin: Origin::Flag(text("FILE:1:2")), message: text("wrong") };
    insta::assert_snapshot!(listed(&[
        &SetupError::TemporaryFolder(io()),
        &SetupError::Settings(settings),
        &SetupError::SecretPatterns(SecretPatternError::MatchesEverywhere(text("x*"))),
        &SetupError::Local(LocalError::NoProgram),
        &SetupError::Sandbox(SandboxError::Unmet { tier: "T0", reason: text("why") }),
        &SetupError::Sandbox(SandboxError::Refused(text("why"))),
        &SetupError::Sandbox(SandboxError::NotStarted(text("why"))),
        &SetupError::Strict(vec![text("one"), text("two")]),
        &SetupError::Hooks { event: text("Stop"), problem: text("why") },
        &SetupError::Blocked(text("why")),
        &SetupError::NoPrice(text("m")),
        &SetupError::Bug(text("why")),
        &SetupError::Output(io()),
    ]), @r#"
    63 conflict: cannot make a temporary directory: not found
      set TMPDIR to a writable directory
    52 config: FILE:1:2: wrong
      correct the file; `qwen doctor` shows the settings in effect
    52 config: `x*` matches the empty text, so it would match everywhere
      correct `secrets.patterns` in the policy
    52 config: --local needs `llama-server`, which is not in PATH
      install llama.cpp: `brew install llama.cpp`, `winget install llama.cpp`, `nix profile install nixpkgs#llama-cpp`, or a release from github.com/ggml-org/llama.cpp/releases
    44 sandbox: required isolation is unavailable; this machine provides only T0: why
      run `qwen sandbox doctor` to see which isolation is available
    52 config: why
      run `qwen sandbox doctor` to see which isolation is available
    44 sandbox: the command was not started: why
      run `qwen sandbox doctor` to see which isolation is available
    52 config: one; two
      correct it, or leave out --strict to get a warning instead
    52 config: hooks.Stop: why
      write [{"matcher": "edit|write_file", "hooks": [{"type": "command", "command": "…"}]}]
    60 hook: a SessionStart hook blocked the run: why
      check `hooks` in the settings; `qwen doctor` shows which file
    52 config: --max-cost-usd needs a price, and the price of m is unknown
      use --max-total-tokens instead
    1 internal: a bug in qwen: why
      report this bug with the command line
    1 failed: cannot write standard output: not found
    "#);
}

#[test]
fn a_directory_is_missing_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &PlaceError::LinkOut { path: text("/w"), cause: io() },
        &PlaceError::Temporary { path: text("/t"), cause: io() },
        &PlaceError::Workspace(WorkspaceError::NotFound("/w".into())),
        &PlaceError::Repository(RepositoryError::Io { path: "/w".into(), cause: io() }),
        &PlaceError::NoState,
        &PlaceError::Included { path: text("/i"), cause: io() },
        &PlaceError::IncludedBySettings {
            origin: Origin::File { path: text("s.json"), line: 2, column: 3 },
            path: text("/i"),
            cause: io(),
        },
    ]), @r"
    52 config: the workspace /w: not found
      change to that directory, or give it with -C
    52 config: the temporary directory /t: not found
      set TMPDIR to a directory outside the checkout
    2 usage: the workspace file not found: /w
      give a directory with -C
    63 conflict: the repository cannot be read: /w: not found
      run `git status` there and correct what it reports
    63 conflict: no home directory for the undo record
      set HOME or XDG_STATE_HOME, or give --no-undo
    2 usage: --include-directories /i: not found
      name a directory that exists
    52 config: s.json:2:3: context.includeDirectories: /i: not found
      name a directory that exists
    ");
}

#[test]
fn a_policy_is_missing_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &PolicyError::Untrusted { named: text("p.yaml"), why: text("why") },
        &PolicyError::NotCommitted(text("p.yaml")),
        &PolicyError::Unreadable { named: text("p.yaml"), cause: io() },
        &PolicyError::NotBuiltin(text("strictest")),
        &PolicyError::Checkout { path: text(".qwen/policy.yaml"), cause: io() },
        &PolicyError::Machine { path: text("/etc/qwen/policy.yaml"), cause: io() },
        &PolicyError::MachineOwner(text("/etc/qwen/policy.yaml")),
        &PolicyError::ToolList { origin: text("FILE:1:2"), text: text("x"), problem: ToolEntryError::NoName },
        &PolicyError::Layers(layer()),
        &PolicyError::Alone(layer()),
        &PolicyError::Tests(layer()),
    ]), @r"
    52 config: policy p.yaml: why
      name a trusted policy or a file outside the checkout, or trust the checkout's own with --trust-checkout
    52 config: policy p.yaml: it is not a file in the trusted commit
      name another one
    52 config: policy p.yaml: not found
      name a file that exists, or builtin:NAME (see `qwen policy builtin`)
    52 config: unknown built-in policy `strictest`
      the built-in policies are read-only, default, edit, ci-dev, open
    52 config: .qwen/policy.yaml: not found
      make it a readable file, or remove it
    52 config: /etc/qwen/policy.yaml: not found
      make it readable, or remove it
    52 config: /etc/qwen/policy.yaml can be written by others than root, and it restricts every run on this machine
      chown root and chmod go-w, or remove it
    52 config: FILE:1:2: `x` in a list of tools: the name is missing
      write a tool's name, or run_shell_command(COMMAND), WebFetch(domain:HOST), Read(GLOB), Edit(GLOB), mcp__SERVER(TOOL)
    52 config: the test is wrong
      correct the file; test it with `qwen policy check --policy FILE -- 'COMMAND'`
    52 config: the test is wrong
      correct the file
    52 config: the test is wrong
      correct the rules or the test; run `qwen policy explain` to see why
    ");
}

#[test]
fn a_prompt_is_missing_with_these_words() {
    let (file, command) = (text(".qwen/commands/c.toml"), text("ls"));
    let denied = |hint: Option<&str>| PromptError::CommandDenied {
        file: file.clone(),
        command: command.clone(),
        reason: text("why"),
        hint: hint.map(text),
    };
    insta::assert_snapshot!(listed(&[
        &PromptError::StandardInputTwice { readers: text("A and B") },
        &PromptError::StandardInput(io()),
        &PromptError::File { path: text("p.txt"), why: text("why") },
        &PromptError::Missing,
        &PromptError::NoPath(text("@p")),
        &PromptError::Attached { named: text("p:1-2"), why: text("why") },
        &PromptError::Resource { path: text("server:uri"), why: text("why") },
        &PromptError::Image { path: text("p"), problem: text("why") },
        &PromptError::Denied { path: text("p"), why: text("why") },
        &PromptError::UnknownCommand { name: text("c"), hint: text("did you mean /d?") },
        &PromptError::OtherCommand { name: text("c"), instead: "use the shell" },
        &PromptError::CommandFile(Diagnostic::at("c.toml", Span { line: 1, column: 2 }, "wrong").into()),
        &PromptError::CommandInclude { file: file.clone(), path: text("p") },
        &denied(None),
        &denied(Some("allow it")),
        &PromptError::CommandBlocked { file: file.clone(), command: command.clone(), reason: text("why") },
        &PromptError::CommandFailed { file: file.clone(), command: command.clone(), why: text("why") },
    ]), @r#"
    2 usage: only one of A and B can read standard input
      give a file to the others
    42 input: standard input: not found
      leave it out with --no-stdin
    42 input: --prompt-file p.txt: why
      name a text file
    42 input: no prompt: none was given and standard input is empty
      give one: qwen run "what to do", or use -p, --prompt-file or a pipe
    42 input: @p in the prompt is not a file, directory or pattern in the workspace
      correct it, or write \@ for a literal @
    42 input: --file p:1-2: why
      name a file of the workspace that the policy allows to read
    42 input: @server:uri: why
      run `qwen mcp list -v` to see what the server offers
    42 input: --image p: why
      name a PNG, JPEG, GIF, WebP or BMP file
    60 denied: @p in the prompt: why
      allow it under `tools`, `paths.read` or `mcp` in the policy
    42 input: unknown command /c
      did you mean /d?
    42 input: /c is a command of Qwen Code that does not exist here
      use the shell
    42 input: c.toml:1:2: wrong
      correct the file; `qwen help from-qwen-code` describes command files
    42 input: .qwen/commands/c.toml includes @{p}, which is not a file, directory or pattern in the workspace
      correct the command
    60 denied: .qwen/commands/c.toml wants to run `ls`: why
      allow it in the policy, or with --allowed-tools 'run_shell_command(…)'
    60 denied: .qwen/commands/c.toml wants to run `ls`: why
      allow it
    60 hook: .qwen/commands/c.toml wants to run `ls`: a hook blocks it: why
      check `hooks` in the settings
    42 input: .qwen/commands/c.toml: `ls`: why
      correct the command
    "#);
}

#[test]
fn a_recipe_does_not_run_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &RecipeError::Wrong(vec![diagnostic(Code::R005), diagnostic(Code::P001)]),
        &RecipeError::Wrong(vec![diagnostic(Code::P001)]),
        &RecipeError::NotGranted(vec![diagnostic(Code::N001)]),
        &RecipeError::ParamsAlone,
        &RecipeError::StandardInputTwice,
        &RecipeError::StandardInput(io()),
        &RecipeError::ParamsFile { path: text("p.yaml"), why: text("why") },
        &RecipeError::Params(text("p.yaml:1:2: wrong")),
        &RecipeError::Needs { file: text("r.yaml"), cause: layer() },
        &RecipeError::Head(TrustedError::Missing { revision: text("HEAD") }),
        &RecipeError::NoBranch,
        &RecipeError::Random(getrandom::Error::UNEXPECTED),
    ]), @r"
    42 input: r.yaml:2:3: R005: wrong
      help: correct it
    r.yaml:2:3: P001: wrong
      help: correct it
      see `qwen help recipes` for each code
    42 input: r.yaml:2:3: P001: wrong
      help: correct it
      run `qwen recipe show NAME` to see the parameters
    60 input: r.yaml:2:3: N001: wrong
      help: correct it
      see `qwen help recipes` for each code
    2 usage: --param without --recipe
      name the recipe with --recipe
    2 usage: only one parameter can read standard input
      give a file to the others
    42 input: standard input: not found
    42 input: --params-file p.yaml: why
      name a file of JSON or YAML
    42 input: p.yaml:1:2: wrong
      write one key for each parameter
    42 input: R005: r.yaml: `needs`: the test is wrong
      correct the globs
    52 config: the trusted ref HEAD is not in this clone
      run `git status` there and correct what it reports
    42 input: R005: `git.changes: branch` needs `git.branch`
      name the branch in the recipe, or with --branch
    1 failed: cannot get random numbers from the system: unexpected situation
    ");
}

#[test]
fn a_session_is_missing_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &SessionError::Flags(text("two flags exclude each other")),
        &SessionError::Ci,
        &SessionError::NoDirectory(text("/s: why")),
        &SessionError::Busy(text("/s/1.jsonl")),
        &SessionError::NoneHere,
        &SessionError::Unknown { id: text("1"), last: None },
        &SessionError::Unknown { id: text("1"), last: Some(text("2")) },
        &SessionError::Unreadable { path: text("/s/1.jsonl"), why: text("why") },
    ]), @r"
    2 usage: two flags exclude each other
      see the options under Session in `qwen run --help`
    42 input: no session to resume: sessions are off in CI
      leave out --continue and --resume
    42 input: sessions are unavailable: /s: why
      set HOME or XDG_STATE_HOME to a writable directory
    42 input: the session /s/1.jsonl is in use by another run
      wait for it, or resume a copy with --fork-session
    42 input: no session to resume in this directory
      leave out --continue
    42 input: session 1 not found
      start a new one with this id with --session-id
    42 input: session 1 not found
      resume the last session of this directory: 2
    42 input: the session /s/1.jsonl: why
      start a new session, or repair the file (one line of JSON for each message)
    ");
}

#[test]
fn mode_flags_and_policy_do_not_go_together_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &ModeError::Unknown { origin: Origin::Flag(text("FILE:1:2")), name: text("fast") },
        &ModeError::Isolation(text("p.yaml")),
        &ModeError::Delivery { mode: "apply", refusal: text("the policy p.yaml does not allow it") },
        &ModeError::NoBranch,
        &ModeError::Plan,
        &ModeError::InPlace,
    ]), @r"
    52 config: FILE:1:2: unknown approval mode `fast`
      write plan, default, auto-edit or yolo
    52 config: `--sandbox off` conflicts with policy `p.yaml`, which requires isolation
      leave the flag out; run `qwen sandbox doctor` to see which isolation is available
    52 config: --apply is not allowed: the policy p.yaml does not allow it
      write `changes: apply` there, or leave the flag out
    52 config: the policy requires a branch
      add `--branch NAME`
    52 config: `--approval-mode plan` is read-only and cannot be combined with a delivery
      leave out --approval-mode plan, or the delivery flag
    52 config: `sandbox.workspace: in-place` changes the work tree, so --branch cannot be used with it
      use --apply or --commit, or `workspace: staged`
    ");
}

#[test]
fn servers_do_not_start_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &ServerError::Command { origin: Origin::Flag(text("FILE:1:2")), why: CommandLineError::OpenQuote },
        &ServerError::Flag(text("why")),
        &ServerError::Required { name: text("s"), why: text("why") },
        &ServerError::Pins { path: text("pins.json"), name: text("s"), why: text("why") },
        &ServerError::NoTree(text("no tree")),
        &ServerError::Prompt(text("no prompt")),
        &ServerError::Unknown(text("s")),
        &ServerError::NoToken(text("s")),
        &ServerError::SignIn(SignInError::Token(text("refused"))),
    ]), @r#"
    52 config: FILE:1:2: mcp.serverCommand: a quote is not closed
      correct it
    52 config: --mcp-config: why
      give '{"mcpServers": {…}}' or a file that contains it
    52 config: required MCP server `s` is unavailable: why
      run `qwen mcp list -v` to see its output, or set `"required": false` to continue without it
    52 config: the pins pins.json of the MCP server s: why
      run `qwen mcp list --pins` to print the current pins
    63 conflict: no tree
      set TMPDIR to a directory with free space
    42 input: no prompt
      run `qwen mcp list -v` to see the prompts
    52 config: MCP server `s` not found in the settings
      run `qwen mcp list` to see them
    52 config: s is a local program and needs no token
      give it one in its `env`
    41 auth: refused
      try again, or put a token into `headers`
    "#);
}

#[test]
fn a_model_is_missing_with_these_words() {
    let key = KeyError { exit: Exit::Auth, message: text("no key"), hint: text("set one") };
    let failed = |class: ErrorClass, hint: Option<&str>| ModelError {
        class,
        message: text("refused"),
        hint: hint.map(text),
        status: None,
        request_id: None,
        requests: 1,
        usage: Box::default(),
    };
    insta::assert_snapshot!(listed(&[
        &ConnectError::Key(key),
        &ConnectError::KeyFile { path: text("key"), cause: io() },
        &ConnectError::CaFile { path: text("ca.pem"), why: text("it contains no certificate") },
        &ConnectError::Script { path: text("s.json"), why: text("why") },
        &ConnectError::Replay { path: text("c.jsonl"), cause: io() },
        &ConnectError::Recording { path: text("c.jsonl"), why: text("why") },
        &ConnectError::Unnamed(failed(ErrorClass::Network, None)),
        &ConnectError::Unnamed(failed(ErrorClass::ModelNotFound, Some("do this"))),
        &ConnectError::Options(failed(ErrorClass::Auth, Some("do this"))),
        &ConnectError::Options(failed(ErrorClass::ModelNotFound, None)),
    ]), @r"
    41 auth: no key
      set one
    41 auth: --api-key-file key: not found
      write the key into it
    52 config: --ca-file ca.pem: it contains no certificate
      name a file of certificates in PEM form
    42 input: s.json: why
      correct the script
    42 input: --replay c.jsonl: not found
      name a file that --record wrote
    42 input: --replay c.jsonl: why
      record it again with --record
    75 unavailable: refused
      name a model with --model or QWEN_MODEL
    52 config: refused
      do this
    41 auth: refused
      do this
    52 config: refused
    ");
}

#[test]
fn an_answer_or_a_check_is_missing_with_these_words() {
    let flag =
        |hint: Option<&str>| VerifyError::Flag { command: text("make"), reason: text("why"), hint: hint.map(text) };
    let words = |help: Option<&str>| VerifyError::Words { name: text("c"), problem: text("why"), help: help.map(text) };
    let fails = |same, violation: Option<&str>| VerifyError::StillFails {
        name: text("the check `c`"),
        same,
        attempt: 2,
        attempts: 3,
        violation: violation.map(text),
    };
    insta::assert_snapshot!(listed(&[
        &AnswerError::Schema(text("why")),
        &AnswerError::Flag(text("why")),
        &AnswerError::Unfit(text("at /: why")),
        &words(None),
        &words(Some("do this")),
        &flag(None),
        &flag(Some("do this")),
        &VerifyError::BrokenBase(text("c")),
        &VerifyError::NothingFails,
        &fails(false, None),
        &fails(true, Some("too many files")),
    ]), @r"
    42 input: the schema of the answer: why
      correct the schema
    42 input: --json-schema: why
      give a JSON Schema of an object, or @FILE
    62 schema: the answer does not fit the schema: at /: why
      use a stronger model or a simpler schema
    42 input: verify.checks.c: why
      correct the parameter
    42 input: verify.checks.c: why
      do this
    2 usage: --verify 'make': why
      write a simpler command, or put it into a script
    2 usage: --verify 'make': why
      do this
    64 verify: check `c` already fails on the unchanged tree
      repair it first; its output is under verify in the result
    64 verify: the checks already pass on the unchanged tree, and the recipe expects a failure
      correct the check, or leave the run out
    64 verify: the check `c` still fails after attempt 2 of 3
      see verify in the result for the checks; nothing was delivered, and the result has the patch unless it was discarded
    64 verify: the check `c` failed in the same way again after attempt 2 of 3: too many files
      see verify in the result for the checks; nothing was delivered, and the result has the patch unless it was discarded
    ");
}

#[test]
fn a_change_is_not_delivered_with_these_words() {
    let delivered = DeliverError::Denied { message: text("why"), hint: text("do this") };
    insta::assert_snapshot!(listed(&[
        &DeliveryError::Message(MessageError::Subject),
        &DeliveryError::Ignored(text("why")),
        &DeliveryError::CutOff(text("why")),
        &DeliveryError::NotRolledBack(io()),
        &DeliveryError::Repository(RepositoryError::Io { path: "/w".into(), cause: io() }),
        &DeliveryError::Files(WorkspaceError::NotFound("/w".into())),
        &delivered,
    ]), @r"
    42 input: the commit's message: the subject must be one line of text
      give one with --message
    63 conflict: cannot read the output of commands in ignored directories: why
      nothing was delivered; run again
    63 conflict: why
      run again
    63 conflict: an earlier delivery or undo was interrupted and cannot be finished: not found
      run `qwen undo` in that directory: it tries again and names the file
    63 conflict: /w: not found
      run `git status` there
    63 conflict: file not found: /w
      make the directory readable
    60 denied: why
      do this
    ");
}

#[test]
fn the_files_of_a_checkout_do_not_count_with_these_words() {
    insta::assert_snapshot!(listed(&[
        &TrustError::NoRepository(text("main")),
        &TrustError::Unreadable { path: text(".qwen/settings.json"), cause: io() },
        &TrustError::Undetermined { name: text("a hook"), what: text("`x`"), not_trusted: text("why") },
        &TrustError::TooMany { name: text("a hook"), word: text("src"), most: 500 },
        &TrustError::Changed { name: text("a hook"), file: text("x"), why: text("why") },
        &TrustedError::Missing { revision: text("main") },
        &TrustedError::Unfit { path: text("p"), reason: text("is a link") },
    ]), @r"
    52 config: `--trusted-ref main` requires a git repository
      run in a clone, or leave the flag out
    52 config: .qwen/settings.json: not found
      make it readable, or remove it
    52 config: a hook is not started: `x` may name a file of the checkout, why
      name a program by an absolute path or ~/ that does not point into the checkout through a link, or give --trust-checkout if the change is your own
    52 config: a hook names src, a directory of more than 500 files of the checkout
      name the file that it starts, or keep its program outside the checkout
    52 config: a hook starts x, why
      keep its program, and the targets of links to it, outside the checkout, or give --trust-checkout if the change is your own
    52 config: the trusted ref main is not in this clone
      fetch it (`fetch-depth: 0` in actions/checkout, or `git fetch origin`), or name another with --trusted-ref
    52 config: p in the trusted commit is a link
      put a regular file there, in the trusted commit
    ");
}

#[test]
fn an_input_of_a_recipe_is_missing_with_these_words() {
    let wrong = |problem| ContextError { name: text("c"), problem };
    insta::assert_snapshot!(listed(&[
        &wrong(InputProblem::Empty),
        &wrong(InputProblem::TooLarge(text("it has 9 bytes"))),
        &wrong(InputProblem::TooMuch(9)),
        &wrong(InputProblem::Template { problem: text("why"), help: text("do this") }),
        &wrong(InputProblem::Outside(text("../p"))),
        &wrong(InputProblem::Command { command: text("ls"), how: text("ended with 1"), tail: text("no") }),
        &wrong(InputProblem::Link(text("p"))),
        &wrong(InputProblem::Unreadable(WorkspaceError::NotFound("/w".into()))),
        &wrong(InputProblem::NoRepository),
        &wrong(InputProblem::Diff(text("why"))),
    ]), @r"
    42 input: context.c: it is empty
      remove `on_empty: fail`, or provide the input
    42 too_large: context.c: it has 9 bytes
      raise `max_bytes`, or narrow the input
    42 input: context.c: the inputs have more than 9 bytes
      raise `limits.context_bytes`
    42 input: context.c: why
      do this
    42 input: context.c: `../p` is not inside the workspace
    42 input: context.c: `ls` ended with 1: no
      `ok_exit` lists the codes that count as success
    42 input: context.c: p is a link
      name the file itself
    42 input: context.c: file not found: /w
      name a file that can be read
    42 input: context.c: not in a git repository
      run it inside one
    42 input: context.c: why
      name a range that exists in this clone; in CI fetch more history
    ");
}
