"""A model for .ci/slurm: answers every request with one word, slowly while REQUESTS.slow exists, and notes each request."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT_FILE, REQUESTS = sys.argv[1:3]


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with open(REQUESTS, "a") as requests:
            requests.write("request\n")
        if os.path.exists(REQUESTS + ".slow"):
            time.sleep(2)
        delta = {"choices": [{"index": 0, "delta": {"content": "bug"}, "finish_reason": "stop"}]}
        usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in (delta, usage)) + "data: [DONE]\n\n"
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())
        except BrokenPipeError:
            pass  # the task was ended meanwhile

    def log_message(self, *_):
        pass


open(REQUESTS, "a").close()
server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open(PORT_FILE, "w") as port:
    port.write(str(server.server_address[1]))
server.serve_forever()
