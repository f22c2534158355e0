//! Tests `--local`: a server that the run starts, waits for, uses and ends.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::Project;

/// A `llama-server` that writes down its process id, is busy twice, and answers one request.
const FAKE: &str = r#"#!/usr/bin/env python3
import http.server, json, os, sys
arguments = sys.argv[1:]
port = int(arguments[arguments.index("--port") + 1])
def note(name, what): open(os.environ["HOME"] + "/" + name, "w").write(json.dumps(what))
note("notes.json", {"pid": os.getpid(), "arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)})
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def reply(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        global asked
        asked += 1
        self.reply(503 if asked < 3 else 200, {"status": "?"})
    def do_POST(self):
        note("headers.json", {name.lower(): value for name, value in self.headers.items()})
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.reply(200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "I am " + body["model"]}, "finish_reason": "stop"}]})
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"#;

fn with_program(program: &str) -> Project {
    let project = Project::new().file("model-q4_k_m.gguf", "GGUF");
    let folder = project.beside("bin");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("llama-server"), program).unwrap();
    std::fs::set_permissions(folder.join("llama-server"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    project.env("PATH", &path)
}

/// Reads what the program wrote down.
fn noted(project: &Project, name: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(project.home().join(name)).unwrap()).unwrap()
}

#[test]
fn a_local_model_is_started_used_and_ended() {
    let project = with_program(FAKE);
    let outcome = project.run(&["--local", "model-q4_k_m.gguf", "who are you?"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "I am model-q4_k_m\n");
    let notes = noted(&project, "notes.json");
    let arguments = notes["arguments"].as_array().unwrap();
    assert!(arguments.contains(&"--jinja".into()) && arguments.contains(&"127.0.0.1".into()));
    let process = std::path::PathBuf::from(format!("/proc/{}", notes["pid"]));
    assert!(!process.exists(), "the server is gone before the run ends");
}

/// llama.cpp loads `libggml-*.so` from its working directory.
#[test]
fn a_local_server_gets_nothing_of_the_checkout_and_no_key() {
    let project = with_program(FAKE);
    let inside = |path: &str| project.root().join(path).display().to_string();
    let (bin, lib, link) = (inside("bin"), inside("lib"), project.beside("link"));
    for folder in [&bin, &lib] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&lib, &link).unwrap();
    let settings = serde_json::json!({"model": {"generationConfig": {"customHeaders": {"X-Key": "of-the-settings"}}}});
    std::fs::create_dir(project.home().join(".qwen")).unwrap();
    std::fs::write(project.home().join(".qwen/settings.json"), settings.to_string()).unwrap();
    let path = format!("{bin}:{}:{}", project.beside("bin").display(), std::env::var("PATH").unwrap());
    let project = project
        .env("PATH", &path)
        .env("QWEN_API_KEY", "key-of-a-provider")
        .env("GITHUB_TOKEN", "token-of-the-job")
        .env("PYTHONPATH", &lib)
        .env("LD_LIBRARY_PATH", &format!(":lib:{lib}:{}:/opt/none", link.display()))
        .env("GGML_BACKEND_PATH", &format!("{}/libggml-evil.so", link.display()))
        .env("CUDA_VISIBLE_DEVICES", "0");
    let outcome = project.run(&["--local", "model-q4_k_m.gguf", "who are you?"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "I am model-q4_k_m\n"), "{}", outcome.stderr);
    let notes = noted(&project, "notes.json");
    assert_eq!(notes["cwd"], "/");
    let environment = notes["environment"].as_object().unwrap();
    for name in ["QWEN_API_KEY", "GITHUB_TOKEN", "PYTHONPATH", "GGML_BACKEND_PATH", "GIT_CONFIG_NOSYSTEM"] {
        assert!(!environment.contains_key(name), "{name}: {}", environment[name]);
    }
    assert_eq!(environment["CUDA_VISIBLE_DEVICES"], "0");
    assert_eq!(environment["LD_LIBRARY_PATH"], "/opt/none");
    assert!(!environment["PATH"].as_str().unwrap().split(':').any(|entry| entry == bin), "{}", environment["PATH"]);
    let headers = noted(&project, "headers.json").to_string();
    assert!(!headers.contains("authorization") && !headers.contains("of-the-settings"), "{headers}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_local_server_ends_with_a_run_that_is_killed() {
    use std::io::BufRead as _;
    // It never gets ready, and holds a pipe open for as long as it lives.
    let project = with_program(&FAKE.replace("asked < 3", "True").replace(
        "asked = 0",
        "asked = 0\nlife = open(os.environ['HOME'] + '/life', 'w'); life.write('up\\n'); life.flush()",
    ));
    let life = project.home().join("life");
    let made = std::process::Command::new("mkfifo").arg(&life).status().unwrap();
    assert!(made.success());
    let mut run = project.spawn(&["--local", "model-q4_k_m.gguf", "hi"]);
    let mut lines = std::io::BufReader::new(std::fs::File::open(&life).unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(lines.next().is_none(), "the pipe closes when the server is gone");
}

#[test]
fn a_server_that_does_not_start_is_52_with_its_own_words() {
    let project = with_program("#!/bin/sh\necho 'error: unknown model architecture' >&2\nexit 3\n");
    let outcome = project.run(&["--local", "model-q4_k_m.gguf", "hi"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("unknown model architecture"), "{}", outcome.stderr);
}

#[test]
fn without_the_program_the_error_says_how_to_install_it() {
    let project = Project::new().file("model.gguf", "GGUF").env("PATH", "/nonexistent");
    let outcome = project.run(&["--local", "model.gguf", "hi"]);
    assert_eq!(outcome.code, 52, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("llama-server") && outcome.stderr.contains("brew install llama.cpp"));
    let missing = project.run(&["--local", "nothing.gguf", "hi"]);
    assert!(missing.stderr.contains("nothing.gguf"), "{}", missing.stderr);
}
