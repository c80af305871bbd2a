import base64, hashlib, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))


class Receiver(BaseHTTPRequestHandler):
    def signed(self, body):
        name, sent = self.headers["Webhook-Id"], self.headers["Webhook-Timestamp"]
        digest = hmac.digest(KEY, f"{name}.{sent}.".encode() + body, hashlib.sha256)
        want = "v1," + base64.b64encode(digest).decode()
        fresh = abs(time.time() - int(sent)) < 300
        return fresh and any(hmac.compare_digest(want, s) for s in self.headers["Webhook-Signature"].split())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.signed(body):
            return self.answer(401)
        row = json.loads(body)["payload"]["input"]
        if not row.get("sku"):
            return self.answer(404)
        self.answer(200, {"title": row["title"], "stock": 3})

    def answer(self, status, result=None):
        text = json.dumps(result).encode() if result else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
