"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");

const { NAME, listening } = require("./service.js");

let server;

before(async () => {
  server = await listening("127.0.0.1", 0);
});

after(() => {
  server.close();
  server.closeAllConnections();
});

const get = (path) => fetch(`http://127.0.0.1:${server.address().port}${path}`);

test("it says who it is", async () => {
  assert.equal((await (await get("/")).json()).service, NAME);
});

test("it is healthy", async () => {
  assert.deepEqual(await (await get("/health")).json(), { status: "ok" });
});

test("requests are counted", async () => {
  await get("/health");
  assert.match(await (await get("/metrics")).text(), /http_requests_total\{path="\/health",status="200"\} \d+/);
});

test("unknown paths are not found", async () => {
  assert.equal((await get("/nowhere")).status, 404);
});
