// {{name}}: an HTTP service that needs nothing but Node's own modules.
//
//     node service.js --port 8080
"use strict";

const http = require("node:http");
const { parseArgs } = require("node:util");

const NAME = "{{name}}";

/** Counts what was answered, by path and status, and how long it took. */
class Meter {
  #requests = new Map();
  #seconds = 0;
  #answered = 0;

  count(path, status, seconds) {
    const key = `http_requests_total{path="${path}",status="${status}"}`;
    this.#requests.set(key, (this.#requests.get(key) ?? 0) + 1);
    this.#seconds += seconds;
    this.#answered += 1;
  }

  text() {
    return [
      "# HELP http_requests_total Requests that were answered.",
      "# TYPE http_requests_total counter",
      ...[...this.#requests].map(([key, n]) => `${key} ${n}`),
      "# HELP http_request_duration_seconds Time that answering took.",
      "# TYPE http_request_duration_seconds summary",
      `http_request_duration_seconds_sum ${this.#seconds.toFixed(6)}`,
      `http_request_duration_seconds_count ${this.#answered}`,
      "",
    ].join("\n");
  }
}

const meter = new Meter();

const json = (value) => ["application/json", JSON.stringify(value)];
const routes = new Map([
  ["/", () => json({ service: NAME, message: `Hello from ${NAME}` })],
  ["/health", () => json({ status: "ok" })],
  ["/metrics", () => ["text/plain; version=0.0.4; charset=utf-8", meter.text()]],
]);

function answer(request, response) {
  const begin = performance.now();
  const path = request.url.split("?")[0];
  const route = request.method === "GET" ? routes.get(path) : undefined;
  const [kind, text] = route ? route() : json({ error: "not found" });
  const status = route ? 200 : 404;
  // Counted before it is sent: whoever has his answer finds it in the metrics.
  meter.count(route ? path : "other", status, (performance.now() - begin) / 1000);
  response.writeHead(status, { "Content-Type": kind, "Content-Length": Buffer.byteLength(text) });
  response.end(text);
}

/** A server that is bound when the promise is kept; port 0 takes a free one. */
function listening(host, port) {
  return new Promise((resolve, reject) => {
    const server = http.createServer(answer);
    server.once("error", reject);
    server.listen(port, host, () => resolve(server));
  });
}

async function main() {
  const options = { host: { type: "string", default: "127.0.0.1" }, port: { type: "string", default: "8080" } };
  const { host, port } = parseArgs({ options }).values;
  const server = await listening(host, Number(port));
  process.on("SIGTERM", () => process.exit(0));
  console.log(`listening on http://${host}:${server.address().port}`);
}

module.exports = { NAME, listening };

if (require.main === module) {
  main().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
