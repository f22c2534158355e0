//! Tests both jobs: a dry run in one checkout, an artefact, and a second clone that judges it again and pushes all or
//! nothing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::runner::{Api, Seen};
use super::{Event, Job};
use crate::support::{Project, call, program, say};

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
        for output in ["patch-file", "result-file"] {
            let file = PathBuf::from(&first.outputs[output]);
            std::fs::copy(&file, artefact.join(file.file_name().unwrap())).unwrap();
        }
        Proposed { project, first, artefact, second }
    }

    fn deliver(&self, inputs: Vec<(&'static str, String)>, api: &str) -> Seen {
        let home = self.project.home();
        let mut all = vec![
            ("job", "apply".to_owned()),
            ("binary", program().display().to_string()),
            ("directory", self.artefact.display().to_string()),
            ("patch-sha256", self.first.outputs["patch-sha256"].clone()),
            ("branch", "qwen/add-script".to_owned()),
            ("github-token", "ghs_0123456789abcdef".to_owned()),
        ];
        all.extend(inputs);
        Job {
            folder: &self.second,
            home: &home,
            event: Event::by_hand(),
            inputs: all,
            environment: vec![("GITHUB_API_URL", api.to_owned())],
        }
        .run()
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
        assert!(seen.summary.contains("Nothing was pushed"), "{}", seen.summary);
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

fn github() -> Api {
    Api::start(vec![
        ("GET /repos/o/r/pulls?", 200, json!([])),
        ("POST /repos/o/r/pulls", 201, json!({"number": 7, "html_url": "https://github.example/o/r/pull/7"})),
        ("POST /repos/o/r/issues/7/labels", 200, json!([])),
    ])
}

#[test]
fn a_proposal_becomes_a_branch_with_trailers_and_a_pull_request() {
    let proposed = Proposed::new("tools/run.py");
    let api = github();
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
             Adds a script. Thanks @ octocat, fixes # 7.\n\nAdds a script. Thanks @ octocat, fixes # 7.\n\n\
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
    let seen = proposed.deliver(Vec::new(), &github().url);
    assert_eq!((seen.code, proposed.branches().as_str()), (0, "main\nqwen/add-script\n"), "{}", seen.log);
    assert!(!ran.exists());
}

#[test]
fn without_a_pull_request_the_branch_stays_and_the_log_says_how_to_open_one() {
    let proposed = Proposed::new("tools/run.py");
    let api = Api::start(vec![
        ("GET /repos/o/r/pulls?", 200, json!([])),
        ("POST /repos/o/r/pulls", 403, json!({"message": "GitHub Actions is not permitted to create pull requests"})),
    ]);
    let seen = proposed.deliver(Vec::new(), &api.url);
    assert_eq!((seen.code, proposed.branches().as_str()), (0, "main\nqwen/add-script\n"), "{}", seen.log);
    assert!(seen.log.contains("compare/main...qwen/add-script"), "{}", seen.log);
    assert_eq!(seen.outputs["pull-request"], "");
}

#[test]
fn a_tampered_artefact_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let api = github();
    let patch = proposed.artefact.join("change.patch");
    let honest = std::fs::read_to_string(&patch).unwrap();
    let evil = honest.replace("print('ok')", "print('no')");
    assert_ne!(evil, honest);
    // The patch alone.
    std::fs::write(&patch, &evil).unwrap();
    proposed.assert_nothing_pushed(
        &proposed.deliver(Vec::new(), &api.url),
        63,
        "digest of the patch is not the given one",
    );
    // Patch and result, each fitting the other.
    let file = proposed.artefact.join("result.json");
    let result = std::fs::read_to_string(&file).unwrap();
    let mut both: Value = serde_json::from_str(&result).unwrap();
    both["changes"]["patch"] = evil.clone().into();
    both["changes"]["patch_sha256"] = sha256(evil.as_bytes()).into();
    std::fs::write(&file, both.to_string()).unwrap();
    proposed.assert_nothing_pushed(
        &proposed.deliver(Vec::new(), &api.url),
        63,
        "digest of the patch is not the given one",
    );
    // The result alone.
    std::fs::write(&patch, &honest).unwrap();
    proposed.assert_nothing_pushed(
        &proposed.deliver(Vec::new(), &api.url),
        63,
        "digest of the patch is not the given one",
    );
    std::fs::write(&file, &result).unwrap();
    // No digest, or a second patch.
    let none = proposed.deliver(vec![("patch-sha256", String::new())], &api.url);
    proposed.assert_nothing_pushed(&none, 63, "patch-sha256 is not given");
    std::fs::write(proposed.artefact.join("other.patch"), &evil).unwrap();
    proposed.assert_nothing_pushed(&proposed.deliver(Vec::new(), &api.url), 63, "holds 2 patches");
    assert!(api.asked().is_empty());
}

#[test]
fn a_moved_base_is_not_delivered_to() {
    let proposed = Proposed::new("tools/run.py");
    git(&proposed.project, &proposed.second, &["commit", "-q", "--allow-empty", "-m", "more"]);
    proposed.assert_nothing_pushed(&proposed.deliver(Vec::new(), &github().url), 63, "the change was made for");
}

#[test]
fn a_change_that_its_checks_refused_is_not_delivered() {
    let proposed = Proposed::new("tools/run.py");
    let file = proposed.artefact.join("result.json");
    let mut result: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    result["exit_code"] = json!(64);
    std::fs::write(&file, result.to_string()).unwrap();
    proposed.assert_nothing_pushed(&proposed.deliver(Vec::new(), &github().url), 63, "ended with 64");
}

/// Makes an artefact that fits itself for a patch that no run would have made.
fn forge(proposed: &Proposed, path: &str) -> String {
    let patch = std::fs::read_to_string(proposed.artefact.join("change.patch")).unwrap().replace("tools/run.py", path);
    propose(proposed, &patch, path)
}

/// Puts a patch and a result that fits it into the artefact, and returns the patch's digest.
fn propose(proposed: &Proposed, patch: &str, path: &str) -> String {
    std::fs::write(proposed.artefact.join("change.patch"), patch).unwrap();
    let file = proposed.artefact.join("result.json");
    let mut result: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    result["changes"]["patch"] = patch.into();
    result["changes"]["patch_sha256"] = sha256(patch.as_bytes()).into();
    result["changes"]["files"][0]["path"] = path.into();
    std::fs::write(&file, result.to_string()).unwrap();
    sha256(patch.as_bytes())
}

#[test]
fn a_protected_path_is_refused_even_with_a_fitting_digest() {
    let proposed = Proposed::new("tools/run.py");
    for path in [".github/workflows/x.yml", ".qwen/policy2.yaml", ".gitattributes", "sub/CODEOWNERS", ".husky/pre-push"]
    {
        let honest = std::fs::read(proposed.artefact.join("change.patch")).unwrap();
        let result = std::fs::read(proposed.artefact.join("result.json")).unwrap();
        let digest = forge(&proposed, path);
        let seen = proposed.deliver(vec![("patch-sha256", digest)], &github().url);
        proposed.assert_nothing_pushed(&seen, 60, path);
        assert_eq!(seen.outputs["conclusion"], "denied");
        std::fs::write(proposed.artefact.join("change.patch"), honest).unwrap();
        std::fs::write(proposed.artefact.join("result.json"), result).unwrap();
    }
    // What runs by itself needs a policy file that allows it; here a builtin judges.
    let digest = forge(&proposed, "build.rs");
    let seen = proposed.deliver(vec![("patch-sha256", digest), ("policy", "builtin:edit".to_owned())], &github().url);
    proposed.assert_nothing_pushed(&seen, 60, "build.rs");
}

#[test]
fn branches_that_others_rest_on_are_never_pushed_to() {
    let proposed = Proposed::new("tools/run.py");
    for (branch, code) in [("main", 60), ("MAIN", 60), ("refs/heads/x", 63), ("-x", 63), ("a..b", 63), ("HEAD", 63)] {
        let seen = proposed.deliver(vec![("branch", branch.to_owned())], &github().url);
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
        let seen = proposed.deliver(vec![("patch-sha256", digest)], &github().url);
        proposed.assert_nothing_pushed(&seen, 60, source);
    }
}
