//! Tests both jobs: a dry run in one checkout, an artefact, and a second clone that judges it again and pushes all or
//! nothing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::runner::Seen;
use super::{Event, Job};
use crate::interrupted::path_with_signal;
use crate::support::github::{TOKEN, Trouble};
use crate::support::{GitHub, Project, call, program, say};

const POLICY: &str =
    "version: 1\nname: fixer\nextends: builtin:edit\nchanges: dry-run\npaths:\n  write: {allow: [\"**\"]}\n";

/// A project with a bare `origin` next to it, and the artefact of a first job.
struct Proposed {
    project: Project,
    first: Seen,
    artefact: PathBuf,
    second: PathBuf,
}

fn git(project: &Project, folder: &Path, arguments: &[&str]) -> String {
    let folder = folder.display().to_string();
    project.run_git(&[&["-C", folder.as_str()], arguments].concat())
}

impl Proposed {
    /// Runs the first job: the model writes one file.
    fn new(path: &str) -> Proposed {
        let script = [
            call("write_file", json!({"file_path": path, "content": "print('ok')\n"})),
            say("Adds a script. Thanks @octocat, fixes #7."),
        ];
        let project = Project::new().file("README.md", "# x\n").file(".qwen/policy.yaml", POLICY).model(script).git();
        let (origin, second) = (project.beside("origin.git"), project.beside("second"));
        project.run_git(&["clone", "-q", "--bare", ".", &origin.display().to_string()]);
        let before = project.snapshot();
        let (root, home) = (project.root(), project.home());
        let first = Job {
            folder: &root,
            home: &home,
            event: Event::by_hand(),
            inputs: vec![
                ("binary", program().display().to_string()),
                ("api-key", "sk-something-secret".to_owned()),
                ("base-url", project.server().base_url()),
                ("model", "scripted".to_owned()),
                ("prompt", "add a script".to_owned()),
            ],
            environment: Vec::new(),
        }
        .run();
        assert_eq!((first.code, first.outputs["changed"].as_str()), (0, "true"), "{}", first.log);
        assert_eq!(project.snapshot(), before, "the first job writes nothing");
        let page = std::fs::read_to_string(&first.outputs["report-file"]).unwrap();
        assert!(page.contains("<h1>add a script</h1>") && page.contains("scripted"), "the review page");
        let link = "[artifacts of this run](https://github.example/o/r/actions/runs/42#artifacts)";
        let says = |text: &str| first.summary.contains(text);
        assert!(says(link) && says("`qwen apply report.html` applies the change"), "{}", first.summary);
        project.run_git(&["clone", "-q", &origin.display().to_string(), &second.display().to_string()]);
        let artefact = project.beside("artefact");
        std::fs::create_dir(&artefact).unwrap();
        for entry in std::fs::read_dir(&first.outputs["proposal-dir"]).unwrap() {
            let file = entry.unwrap().path();
            std::fs::copy(&file, artefact.join(file.file_name().unwrap())).unwrap();
        }
        Proposed { project, first, artefact, second }
    }

    fn deliver(&self, inputs: Vec<(&'static str, String)>, api: &str) -> Seen {
        self.deliver_in(inputs, vec![("GITHUB_API_URL", api.to_owned())])
    }

    fn deliver_in(&self, inputs: Vec<(&'static str, String)>, environment: Vec<(&'static str, String)>) -> Seen {
        let home = self.project.home();
        let mut all = vec![
            ("job", "deliver".to_owned()),
            ("binary", program().display().to_string()),
            ("proposal-dir", self.artefact.display().to_string()),
            ("proposal-sha256", self.first.outputs["proposal-sha256"].clone()),
            ("branch", "qwen/add-script".to_owned()),
            ("github-token", TOKEN.to_owned()),
        ];
        all.extend(inputs);
        Job { folder: &self.second, home: &home, event: Event::by_hand(), inputs: all, environment }.run()
    }

    fn github(&self) -> GitHub {
        GitHub::start(&self.project.beside("origin.git"))
    }

    fn branches(&self) -> String {
        git(
            &self.project,
            &self.project.beside("origin.git"),
            &["for-each-ref", "--format=%(refname:short)", "refs/heads"],
        )
    }

    fn assert_nothing_pushed(&self, seen: &Seen, code: i32, part: &str) {
        assert_eq!(seen.code, code, "{}", seen.log);
        assert!(seen.log.contains(part), "`{part}` is not in\n{}", seen.log);
        assert!(seen.summary.contains("Nothing was delivered"), "{}", seen.summary);
        assert_eq!(self.branches(), "main\n");
        assert_eq!(
            git(&self.project, &self.second, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]),
            "main\n"
        );
        assert_eq!(git(&self.project, &self.second, &["status", "--porcelain"]), "");
        assert_eq!(seen.outputs["exit-code"], code.to_string());
        assert_eq!(seen.outputs["pull-request"], "");
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_proposal_becomes_a_branch_with_trailers_and_a_pull_request() {
    let proposed = Proposed::new("tools/run.py");
    let api = proposed.github();
    let seen = proposed.deliver(Vec::new(), &api.url);
    assert_eq!(seen.code, 0, "{}", seen.log);
    assert_eq!(seen.outputs["pull-request"], "7");
    assert_eq!(proposed.branches(), "main\nqwen/add-script\n");
    let origin = proposed.project.beside("origin.git");
    let log = git(&proposed.project, &origin, &["log", "-1", "--format=%an <%ae>%n%cn <%ce>%n%B", "qwen/add-script"]);
    let result: Value =
        serde_json::from_slice(&std::fs::read(&proposed.first.outputs["result-file"]).unwrap()).unwrap();
    let run_id = result["run_id"].as_str().unwrap();
    let tree = git(&proposed.project, &origin, &["rev-parse", "qwen/add-script^{tree}"]);
    assert_eq!(
        log.trim_end(),
        format!(
            "ann <583231+ann@users.noreply.github.com>\n\
             github-actions[bot] <41898282+github-actions[bot]@users.noreply.github.com>\n\
             Adds a script. Thanks @ octocat, fixes issue 7.\n\nAdds a script. Thanks @ octocat, fixes issue 7.\n\n\
             Assisted-by: qwen-run:scripted\nQwen-Run-Id: {run_id}\nQwen-Tree: {}",
            tree.trim()
        )
    );
    assert_eq!(git(&proposed.project, &origin, &["show", "qwen/add-script:tools/run.py"]), "print('ok')\n");
    assert_eq!(
        git(&proposed.project, &origin, &["rev-parse", "qwen/add-script^", "main"])
            .lines()
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        1
    );
    let asked = api.asked();
    let (_, body) = asked.iter().find(|(line, _)| line == "POST /repos/o/r/pulls").unwrap();
    assert_eq!(
        (&body["head"], &body["base"], &body["draft"]),
        (&json!("qwen/add-script"), &json!("main"), &json!(true))
    );
    let text = body["body"].as_str().unwrap();
    assert!(text.contains("| `tools/run.py` | added | 1 | 0 |"), "{text}");
    assert!(text.contains("```text\nAdds a script. Thanks @octocat, fixes #7.\n```"), "{text}");
    assert_eq!(git(&proposed.project, &proposed.second, &["status", "--porcelain"]), "");

    // Again: the branch is ours, so it is brought up to date; nobody else's would be.
    let again = proposed.deliver(Vec::new(), &api.url);
    assert_eq!(again.code, 0, "{}", again.log);
    let main = git(&proposed.project, &origin, &["rev-parse", "main"]);
    // Ours amended by a person, and by a bot with the same name; the trailers stay.
    let raw = git(&proposed.project, &origin, &["cat-file", "-p", "qwen/add-script"]);
    let other_tree = git(&proposed.project, &origin, &["rev-parse", "main^{tree}"]);
    let amended = |raw: String| {
        let file = proposed.project.beside("amended");
        std::fs::write(&file, raw).unwrap();
        git(&proposed.project, &origin, &["hash-object", "-t", "commit", "-w", &file.display().to_string()])
    };
    let by_person = amended(raw.replace("committer github-actions[bot]", "committer Ann").replace("41898282+", "ann+"));
    let by_bot = amended(raw.replacen(tree.trim(), other_tree.trim(), 1));
    for foreign in [main, by_person, by_bot] {
        git(&proposed.project, &origin, &["update-ref", "refs/heads/qwen/add-script", foreign.trim()]);
        let refused = proposed.deliver(Vec::new(), &api.url);
        assert_eq!(refused.code, 63, "{}", refused.log);
        assert!(refused.log.contains("has work by") && refused.log.contains("not overwritten"), "{}", refused.log);
        assert_eq!(git(&proposed.project, &origin, &["rev-parse", "qwen/add-script"]), foreign);
    }
}

#[test]
fn what_else_the_checkouts_configuration_says_of_servers_does_not_count() {
    let proposed = Proposed::new("tools/run.py");
    let other = proposed.project.beside("other.git").display().to_string();
    let origin = proposed.project.beside("origin.git").display().to_string();
    let ran = proposed.project.beside("ran");
    let touch = format!("touch {};", ran.display());
    proposed.project.run_git(&["clone", "-q", "--bare", &origin, &other]);
    for (key, value) in [
        (format!("url.{other}.insteadOf"), origin.as_str()),
        (format!("url.{other}.pushInsteadOf"), origin.as_str()),
        ("remote.origin.pushurl".to_owned(), other.as_str()),
        ("remote.origin.uploadpack".to_owned(), touch.as_str()),
        ("remote.origin.receivepack".to_owned(), touch.as_str()),
        ("remote.origin.vcs".to_owned(), "other"),
        ("http.proxy".to_owned(), "http://127.0.0.1:9"),
        ("core.sshCommand".to_owned(), touch.as_str()),
    ] {
        git(&proposed.project, &proposed.second, &["config", &key, value]);
    }
    let seen = proposed.deliver(Vec::new(), &proposed.github().url);
    assert_eq!((seen.code, proposed.branches().as_str()), (0, "main\nqwen/add-script\n"), "{}", seen.log);
    assert!(!ran.exists());
}

#[test]
fn without_a_pull_request_the_branch_stays_and_the_log_says_how_to_open_one() {
    let proposed = Proposed::new("tools/run.py");
    let api = proposed.github();
    let refusal = "GitHub Actions is not permitted to create or approve pull requests.";
    api.trouble("POST /repos/o/r/pulls", Trouble::Status(403, Vec::new(), refusal));
    let seen = proposed.deliver(Vec::new(), &api.url);
    assert_eq!((seen.code, proposed.branches().as_str()), (0, "main\nqwen/add-script\n"), "{}", seen.log);
    assert!(seen.log.contains("compare/main...qwen/add-script"), "{}", seen.log);
    assert_eq!(seen.outputs["pull-request"], "");
}

#[test]
fn a_tampered_artefact_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let api = proposed.github();
    let (patch, file) = (proposed.artefact.join("change.patch"), proposed.artefact.join("proposal.json"));
    let (honest, proposal) = (std::fs::read_to_string(&patch).unwrap(), std::fs::read_to_string(&file).unwrap());
    let evil = honest.replace("print('ok')", "print('no')");
    assert_ne!(evil, honest);
    let refused = |part: &str| proposed.assert_nothing_pushed(&proposed.deliver(Vec::new(), &api.url), 63, part);
    // The patch alone; patch and proposal, each fitting the other; the proposal alone.
    std::fs::write(&patch, &evil).unwrap();
    refused("digest of change.patch");
    propose(&proposed, &evil, "tools/run.py");
    refused("digest of proposal.json");
    std::fs::write(&patch, &honest).unwrap();
    refused("digest of proposal.json");
    // Every field of the proposal, by one byte.
    let parsed: Value = serde_json::from_str(&proposal).unwrap();
    for key in parsed.as_object().unwrap().keys() {
        let at = proposal.find(&format!("\"{key}\": ")).unwrap() + key.len() + 4;
        let mut bytes = proposal.clone().into_bytes();
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        refused("digest of proposal.json");
    }
    std::fs::write(&file, &proposal).unwrap();
    // No digest, a second patch, a link, too much.
    let none = proposed.deliver(vec![("proposal-sha256", String::new())], &api.url);
    proposed.assert_nothing_pushed(&none, 63, "proposal-sha256 is not given");
    let old = proposed.deliver(vec![("patch-sha256", "0".repeat(64))], &api.url);
    proposed.assert_nothing_pushed(&old, 2, "give proposal-sha256 instead");
    std::fs::write(proposed.artefact.join("other.patch"), &evil).unwrap();
    refused("holds `other.patch`");
    std::fs::remove_file(proposed.artefact.join("other.patch")).unwrap();
    std::fs::remove_file(&patch).unwrap();
    refused("change.patch");
    std::os::unix::fs::symlink("/etc/passwd", &patch).unwrap();
    refused("not a regular file");
    std::fs::remove_file(&patch).unwrap();
    std::fs::write(&patch, "x".repeat((4 << 20) + 1)).unwrap();
    refused("change.patch");
    assert!(api.asked().is_empty());
}

#[test]
fn a_proposal_for_something_else_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let api = proposed.github();
    // A run without a recipe is none of this one.
    let seen = proposed.deliver(vec![("recipe", "builtin:fix-lint".to_owned())], &api.url);
    proposed.assert_nothing_pushed(&seen, 63, "is not the one that ran");
    for (key, value, part) in [
        ("repository", json!("o/other"), "another repository"),
        ("number", json!(7), "another pull request or issue"),
        ("on", json!("issue"), "another pull request or issue"),
        ("proposal", json!(2), "another version"),
        ("more", json!(1), "is not a proposal"),
    ] {
        let digest = change(&proposed, |proposal| proposal[key] = value.clone());
        proposed.assert_nothing_pushed(&proposed.deliver(vec![("proposal-sha256", digest)], &api.url), 63, part);
        change(&proposed, |proposal| {
            proposal.as_object_mut().unwrap().remove("more");
            (proposal["repository"], proposal["number"]) = (json!("o/r"), Value::Null);
            (proposal["on"], proposal["proposal"]) = (json!("none"), json!(1));
        });
    }
    let digest = change(&proposed, |proposal| {
        proposal["result"]["recipe"] = json!({"name": "fix-lint", "version": null, "sha256": "0"});
    });
    let seen = proposed.deliver(vec![("proposal-sha256", digest)], &api.url);
    proposed.assert_nothing_pushed(&seen, 63, "is not the one that ran");
    assert!(api.asked().is_empty());
}

#[test]
fn what_is_cut_stays_harmless_and_so_does_the_name_of_the_model() {
    let proposed = Proposed::new("tools/run.py");
    let digest = change(&proposed, |proposal| {
        let (first, last) = ("First\tline\n", " fixes #7");
        let filled = "x".repeat(4_000 - first.len() - last.len());
        proposal["result"]["result"] = format!("{first}{filled}{last}z").into();
        proposal["result"]["model"] = "m [skip ci] fixes #7 @octocat\u{2028}Co-authored-by: x".into();
    });
    let seen = proposed.deliver(vec![("proposal-sha256", digest)], &proposed.github().url);
    assert_eq!(seen.code, 0, "{}", seen.log);
    let origin = proposed.project.beside("origin.git");
    let message = git(&proposed.project, &origin, &["log", "-1", "--format=%B", "qwen/add-script"]);
    assert!(message.starts_with("First line\n") && message.contains("xxx fixes issue 7"), "{message}");
    for part in ["#7", "[skip ci]", "@octocat", "\u{2028}"] {
        assert!(!message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_moved_base_is_not_delivered_to() {
    let proposed = Proposed::new("tools/run.py");
    git(&proposed.project, &proposed.second, &["commit", "-q", "--allow-empty", "-m", "more"]);
    proposed.assert_nothing_pushed(
        &proposed.deliver(Vec::new(), &proposed.github().url),
        63,
        "the change was made for",
    );
}

#[test]
fn a_change_that_its_checks_refused_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let digest = change(&proposed, |proposal| proposal["result"]["exit_code"] = json!(64));
    let seen = proposed.deliver(vec![("proposal-sha256", digest)], &proposed.github().url);
    proposed.assert_nothing_pushed(&seen, 63, "ended with 64");
}

#[test]
fn no_secret_is_in_what_is_published_of_an_answer() {
    let proposed = Proposed::new("tools/run.py");
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let digest = change(&proposed, |proposal| {
        proposal["result"]["result"] = format!("Uses {TOKEN} here\n\nand {token} there").into();
    });
    let api = proposed.github();
    let seen = proposed.deliver(vec![("proposal-sha256", digest)], &api.url);
    assert_eq!(seen.code, 0, "{}", seen.log);
    let origin = proposed.project.beside("origin.git");
    let message = git(&proposed.project, &origin, &["log", "-1", "--format=%B", "qwen/add-script"]);
    assert!(message.starts_with("Uses [redacted:API_KEY] here\n\n"), "{message}");
    let pull = &api.state().pulls[&7];
    for text in [&message, &pull.title, &pull.body, &seen.summary] {
        assert!(!text.contains(TOKEN) && !text.contains(&token), "{text}");
    }
}

#[test]
fn a_new_file_with_a_secret_for_its_name_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let digest = forge(&proposed, &format!("tools/{token}"));
    let seen = proposed.deliver(vec![("proposal-sha256", digest)], &proposed.github().url);
    proposed.assert_nothing_pushed(&seen, 60, "something with the shape of github-token in its name");
    assert!(!seen.log.contains(&token) && !seen.summary.contains(&token), "{}", seen.log);
}

#[test]
fn a_signal_during_the_push_is_told_and_leaves_nothing_behind() {
    let proposed = Proposed::new("tools/run.py");
    let path = path_with_signal(&proposed.project, "TERM", "push");
    let api = proposed.github();
    let seen = proposed.deliver_in(Vec::new(), vec![("GITHUB_API_URL", api.url.clone()), ("PATH", path)]);
    proposed.assert_nothing_pushed(&seen, 143, "interrupted by SIGTERM");
    assert_eq!(proposed.deliver(Vec::new(), &api.url).code, 0);
}

/// Makes an artefact that fits itself for a patch that no run would have made.
fn forge(proposed: &Proposed, path: &str) -> String {
    let patch = std::fs::read_to_string(proposed.artefact.join("change.patch")).unwrap().replace("tools/run.py", path);
    propose(proposed, &patch, path)
}

/// Puts a patch and a proposal that fits it into the artefact, and returns the proposal's digest.
fn propose(proposed: &Proposed, patch: &str, path: &str) -> String {
    std::fs::write(proposed.artefact.join("change.patch"), patch).unwrap();
    change(proposed, |proposal| {
        let changes = &mut proposal["result"]["changes"];
        changes["patch_sha256"] = sha256(patch.as_bytes()).into();
        changes["files"][0]["path"] = path.into();
    })
}

/// Changes the proposal, and returns its digest.
fn change(proposed: &Proposed, change: impl FnOnce(&mut Value)) -> String {
    let file = proposed.artefact.join("proposal.json");
    let mut proposal: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    change(&mut proposal);
    std::fs::write(&file, proposal.to_string()).unwrap();
    sha256(proposal.to_string().as_bytes())
}

#[test]
fn a_protected_path_is_refused_even_with_a_fitting_digest() {
    let proposed = Proposed::new("tools/run.py");
    for path in [".github/workflows/x.yml", ".qwen/policy2.yaml", ".gitattributes", "sub/CODEOWNERS", ".husky/pre-push"]
    {
        let honest = std::fs::read(proposed.artefact.join("change.patch")).unwrap();
        let proposal = std::fs::read(proposed.artefact.join("proposal.json")).unwrap();
        let digest = forge(&proposed, path);
        let seen = proposed.deliver(vec![("proposal-sha256", digest)], &proposed.github().url);
        proposed.assert_nothing_pushed(&seen, 60, path);
        assert_eq!(seen.outputs["conclusion"], "denied");
        std::fs::write(proposed.artefact.join("change.patch"), honest).unwrap();
        std::fs::write(proposed.artefact.join("proposal.json"), proposal).unwrap();
    }
    // What runs by itself needs a policy file that allows it; here a builtin judges.
    let digest = forge(&proposed, "build.rs");
    let seen = proposed
        .deliver(vec![("proposal-sha256", digest), ("policy", "builtin:edit".to_owned())], &proposed.github().url);
    proposed.assert_nothing_pushed(&seen, 60, "build.rs");
}

#[test]
fn branches_that_others_rest_on_are_never_pushed_to() {
    let proposed = Proposed::new("tools/run.py");
    for (branch, code) in [("main", 60), ("MAIN", 60), ("refs/heads/x", 63), ("-x", 63), ("a..b", 63), ("HEAD", 63)] {
        let seen = proposed.deliver(vec![("branch", branch.to_owned())], &proposed.github().url);
        proposed.assert_nothing_pushed(&seen, code, branch);
    }
}

#[test]
fn nothing_is_copied_from_where_nothing_may_be_read() {
    let proposed = Proposed::new("tools/run.py");
    std::fs::create_dir(proposed.second.join("secrets")).unwrap();
    std::fs::write(proposed.second.join("secrets/token.txt"), "x\n").unwrap();
    git(&proposed.project, &proposed.second, &["config", "http.extraheader", "AUTHORIZATION: basic Z2hz"]);
    std::fs::write(proposed.second.join(".git/info/exclude"), "secrets\n").unwrap();
    for source in [".git/config", ".git/HEAD", "secrets/token.txt"] {
        let patch =
            format!("diff --git a/{source} b/pub.txt\nsimilarity index 100%\ncopy from {source}\ncopy to pub.txt\n");
        let digest = propose(&proposed, &patch, "pub.txt");
        let seen = proposed.deliver(vec![("proposal-sha256", digest)], &proposed.github().url);
        proposed.assert_nothing_pushed(&seen, 60, source);
    }
}
