"""Sends runs to Arize Phoenix and compares what it shows of them. Called by .ci/otel."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROGRAM, BROWSER, PICTURE = sys.argv[1:4]

TREE = """\
nightly: ok
  invoke_agent qwen: ok
    chat scripted: ok
    execute_tool read_file: ok
    execute_tool read_file: ok
    chat scripted: ok
    execute_tool run_shell_command: error
    execute_tool edit: ok
    chat scripted: ok
    check sh: error
    chat scripted: ok
    execute_tool task: ok
      invoke_agent reader: ok
        chat scripted: ok
    chat scripted: ok
    execute_tool write_file: ok
    chat scripted: ok
    check sh: ok
    deliver commit: ok
"""

BATCH_TREE = """\
nightly batch: ok
  batch qwen: ok
    invoke_workflow prompt: ok
      chat scripted: ok
      deliver dry-run: ok
    invoke_workflow prompt: ok
      chat scripted: ok
      deliver dry-run: ok
    invoke_workflow prompt: ok
      chat scripted: ok
      deliver dry-run: ok
"""

POLICY = """\
version: 1
extends: builtin:edit
shell: {default: deny, allow: [{cmd: [sh, check.sh]}]}
changes: {default: dry-run, allow: [dry-run, apply, commit]}
"""

REPLIES = [
    [("read_file", {"file_path": "a.txt"}), ("read_file", {"file_path": "b.txt"})],
    [("run_shell_command", {"command": "curl https://example.com"}),
     ("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})],
    "done",
    [("task", {"subagent_type": "reader", "description": "look", "prompt": "look around"})],
    "nothing else",
    [("write_file", {"file_path": "new.txt", "content": "new\n"})],
    "done",
]


class Model(http.server.BaseHTTPRequestHandler):
    """Answers with the replies in their order, then always with `seen`."""

    answered = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        reply = REPLIES[Model.answered] if Model.answered < len(REPLIES) else "seen"
        Model.answered += 1
        if isinstance(reply, str):
            delta, reason = {"content": reply}, "stop"
        else:
            calls = [{"index": at, "id": f"call-{Model.answered}-{at}", "type": "function",
                      "function": {"name": name, "arguments": json.dumps(arguments)}}
                     for at, (name, arguments) in enumerate(reply)]
            delta, reason = {"tool_calls": calls}, "tool_calls"
        pieces = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                  {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
                   "usage": {"prompt_tokens": 1200, "completion_tokens": 30, "total_tokens": 1230}}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(f"data: {json.dumps({'id': 'x', 'model': 'scripted', **piece})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetched(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def wait_for(what, ask):
    """Asks until there is an answer, at most two minutes."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            if (answer := ask()) is not None:
                return answer
        time.sleep(0.5)
    sys.exit(f"FAILED: {what} within two minutes")


@contextlib.contextmanager
def phoenix(directory, port):
    environment = os.environ | {
        "PHOENIX_WORKING_DIR": directory, "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    program = pathlib.Path(sys.executable).with_name("phoenix")
    server = subprocess.Popen([program, "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("Phoenix did not start", lambda: fetched(f"http://127.0.0.1:{port}/v1/projects"))
        yield
    finally:
        server.terminate()
        server.wait()


def environment(directory, model_port, port, trace, parent):
    """Returns the variables of a run that reports to Phoenix, below a span that has begun."""
    return {
        "PATH": os.environ["PATH"], "HOME": f"{directory}/home", "QWEN_BASE_URL": f"http://127.0.0.1:{model_port}/v1",
        "QWEN_MODEL": "scripted", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        # Phoenix takes no metrics.
        "OTEL_METRICS_EXPORTER": "none", "OTEL_RESOURCE_ATTRIBUTES": "openinference.project.name=qwen",
        "TRACEPARENT": f"00-{trace}-{parent}-01",
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.com",
    }


def result_of(arguments, project, variables):
    """Calls the program and returns its result object."""
    ended = subprocess.run([PROGRAM, *arguments], cwd=project, env=variables, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"FAILED: qwen {arguments[0]} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)


def run(directory, variables, trace):
    """Runs the program once in a repository of its own."""
    home, project = pathlib.Path(directory, "home"), pathlib.Path(directory, "project")
    (home / ".qwen/agents").mkdir(parents=True)
    (home / ".qwen/agents/reader.md").write_text("---\nname: reader\ndescription: reads\n---\nYou read.\n")
    policy = pathlib.Path(directory, "policy.yaml")
    policy.write_text(POLICY)
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    (project / "b.txt").write_text("b\n")
    (project / "check.sh").write_text("test -e new.txt\n")
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-C", str(project)]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(git + arguments, check=True)
    result = result_of(["run", "-o", "result", "--commit", "--policy", str(policy), "--on-deny", "continue",
                        "--verify", "sh check.sh", "Correct a.txt and add new.txt"], project, variables)
    if result["trace_id"] != trace or result["warnings"]:
        sys.exit(f"FAILED: the result says {result['trace_id']}, {result['warnings']}")


def run_batch(directory, variables):
    """Runs a batch of three items."""
    project = pathlib.Path(directory, "batch")
    project.mkdir()
    (project / "list.txt").write_text("one\ntwo\nthree\n")
    result = result_of(["batch", "-o", "result", "--lines", "list.txt", "-p", "Say what this is: {{ item.line }}", "--out", "out"],
                       project, variables)
    if result["items"]["ok"] != 3:
        sys.exit(f"FAILED: the batch says {result['items']}")


def tree(spans):
    """Draws the spans below each other, in the order of their beginning."""
    def below(parent, depth):
        children = sorted((span for span in spans if span["parent_id"] == parent), key=lambda span: span["start_time"])
        for span in children:
            status = "error" if span["status_code"] == "ERROR" else "ok"
            yield f"{'  ' * depth}{span['name']}: {status}\n"
            yield from below(span["context"]["span_id"], depth + 1)
    return "".join(below(None, 0))


def in_base64(digits):
    return base64.b64encode(bytes.fromhex(digits)).decode()


def parent_span(port, trace, span, name, began):
    """Sends the span of whatever starts the run, as its exporter would."""
    sent = {"resourceSpans": [{
        "resource": {"attributes": [{"key": "openinference.project.name", "value": {"stringValue": "qwen"}}]},
        "scopeSpans": [{"spans": [{"traceId": in_base64(trace), "spanId": in_base64(span), "name": name, "kind": 1,
                                   "startTimeUnixNano": str(began), "endTimeUnixNano": str(time.time_ns())}]}],
    }]}
    body = json_format.ParseDict(sent, ExportTraceServiceRequest()).SerializeToString()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body,
                                     {"content-type": "application/x-protobuf"})
    urllib.request.urlopen(request, timeout=10).close()


def shown_as(expected, port, trace):
    """Returns the spans of a trace, which have to be the expected ones."""
    count = expected.count("\n")

    def all_spans():
        spans = fetched(f"http://127.0.0.1:{port}/v1/projects/qwen/spans?limit=100&trace_id={trace}")["data"]
        return spans if len(spans) >= count else None
    spans = wait_for(f"{count} spans did not arrive", all_spans)
    if (shown := tree(spans)) != expected:
        sys.exit(f"FAILED: Phoenix shows\n{shown}where this was expected:\n{expected}")
    return spans


def photograph(port, trace, span):
    """Takes the picture of a trace with one of its spans selected."""
    projects = fetched(f"http://127.0.0.1:{port}/v1/projects")["data"]
    project = next(one for one in projects if one["name"] == "qwen")
    subprocess.run([BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    "--window-size=1440,900", "--virtual-time-budget=20000", f"--screenshot={PICTURE}",
                    f"http://127.0.0.1:{port}/projects/{project['id']}/traces/{trace}?selectedSpanNodeId={span}"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    port = free_port()
    with tempfile.TemporaryDirectory() as directory, phoenix(directory, port):
        trace, parent, began = os.urandom(16).hex(), os.urandom(8).hex(), time.time_ns()
        run(directory, environment(directory, model.server_port, port, trace, parent), trace)
        parent_span(port, trace, parent, "nightly", began)
        spans = shown_as(TREE, port, trace)
        photograph(port, trace, next(span for span in spans if span["name"] == "invoke_agent qwen")["id"])

        trace, parent, began = os.urandom(16).hex(), os.urandom(8).hex(), time.time_ns()
        run_batch(directory, environment(directory, model.server_port, port, trace, parent))
        parent_span(port, trace, parent, "nightly batch", began)
        shown_as(BATCH_TREE, port, trace)
    print(f"{TREE.count(chr(10)) + BATCH_TREE.count(chr(10))} spans are shown as they were sent; picture: {PICTURE}")


main()
