import { expect, test } from "vitest";
import { Client } from "./client.js";
import { serving } from "./testing/server.js";

test.each(["/files/%2e%2e/keys", "/files/.%2E", "/files//f"])("the address %s is rejected", async (href) => {
  await expect(new Client({ url: "http://127.0.0.1:9" }).download(href)).rejects.toThrow("is not a path of the server");
});

test.each(["", ".", ".."])("the id %o is rejected, as it would reach another route", async (id) => {
  const client = new Client({ url: "http://127.0.0.1:9" });
  for (const asked of [client.session(id), client.state(id), client.workflows.get(id), client.deleteFile(id)])
    await expect(asked).rejects.toThrow("is not a path of the server");
});

test("the key is sent to the server and to no other host", async () => {
  const keys: (string | undefined)[] = [];
  const other = await serving((request, response) => {
    keys.push(request.headers.authorization);
    response.end("bytes");
  });
  const client = new Client({ url: other, key: "sw_k_s" });
  for (const href of [
    `${other}/files/f`,
    `//${new URL(other).host}/f`,
    "/\\elsewhere.example/f",
    "/\t/elsewhere.example/f",
    "f",
  ])
    await expect(client.download(href)).rejects.toThrow("is not a path of the server");
  expect(keys).toEqual([]);
  expect(await (await client.download("/files/f?name=../a.txt")).text()).toBe("bytes");
  expect(keys).toEqual(["Bearer sw_k_s"]);
});

test("an HTML page instead of JSON is a problem", async () => {
  const url = await serving((_, response) => {
    response.writeHead(200, { "Content-Type": "text/html" });
    response.end("<html>Sign in</html>");
  });
  const detail = "The response (200, text/html) is not from a Stellwerk server; a proxy may be in between.";
  await expect(new Client({ url }).me()).rejects.toMatchObject({ code: "foreign_answer", detail });
  await expect(new Client({ url }).workflows.logs("w")).rejects.toMatchObject({ code: "foreign_answer" });
});

test("the client's signal aborts pending requests", async () => {
  const stopping = new AbortController();
  const url = await serving(() => stopping.abort());
  const client = new Client({ url, signal: stopping.signal });
  await expect(client.send("s", { text: "Hello" })).rejects.toMatchObject({ name: "AbortError" });
  const never = new AbortController().signal;
  await expect(client.events("s", { wait: 30 }, never)).rejects.toMatchObject({ name: "AbortError" });
  for await (const envelope of client.follow("s", { signal: never })) expect(envelope).toBeUndefined();
});

test("a session is begun and changed with values for its messages", async () => {
  const sent: unknown[] = [];
  const url = await serving(async (request, response) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk as Uint8Array);
    sent.push([request.method, request.url, JSON.parse(Buffer.concat(chunks).toString())]);
    response.writeHead(200, { "Content-Type": "application/json" });
    response.end("{}");
  });
  const client = new Client({ url });
  await client.createSession("desk", "ann", { context: { language: "German" } });
  await client.changeSession("s", { config: null });
  expect(sent).toEqual([
    ["POST", "/sessions", { agent_system_id: "desk", user_id: "ann", context: { language: "German" } }],
    ["PATCH", "/sessions/s", { config: null }],
  ]);
});
