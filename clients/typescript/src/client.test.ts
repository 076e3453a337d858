import { expect, test } from "vitest";
import { Client } from "./client.js";
import { serving } from "./testing/server.js";

test.each(["/files/%2e%2e/keys", "/files/.%2E", "/files//f"])("the address %s leads elsewhere", async (href) => {
  await expect(new Client({ url: "http://127.0.0.1:9" }).download(href)).rejects.toThrow("is no path of the server");
});

test.each(["", ".", ".."])("the id %o is not sent, as it would be another route", async (id) => {
  const client = new Client({ url: "http://127.0.0.1:9" });
  for (const asked of [client.session(id), client.state(id), client.workflows.get(id), client.deleteFile(id)])
    await expect(asked).rejects.toThrow("is no path of the server");
});

test("the key goes to the server, and to nobody whom an address names", async () => {
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
    await expect(client.download(href)).rejects.toThrow("is no path of the server");
  expect(keys).toEqual([]);
  expect(await (await client.download("/files/f?name=../a.txt")).text()).toBe("bytes");
  expect(keys).toEqual(["Bearer sw_k_s"]);
});

test("a page in the place of an answer is a problem", async () => {
  const url = await serving((_, response) => {
    response.writeHead(200, { "Content-Type": "text/html" });
    response.end("<html>Sign in</html>");
  });
  const detail = "What answered (200, text/html) is no Stellwerk server, or something is in between.";
  await expect(new Client({ url }).me()).rejects.toMatchObject({ code: "foreign_answer", detail });
  await expect(new Client({ url }).workflows.logs("w")).rejects.toMatchObject({ code: "foreign_answer" });
});

test("a signal of the client ends what waits for its answer", async () => {
  const stopping = new AbortController();
  const url = await serving(() => stopping.abort());
  const client = new Client({ url, signal: stopping.signal });
  await expect(client.send("s", { text: "Hello" })).rejects.toMatchObject({ name: "AbortError" });
  const never = new AbortController().signal;
  await expect(client.events("s", { wait: 30 }, never)).rejects.toMatchObject({ name: "AbortError" });
  for await (const envelope of client.follow("s", { signal: never })) expect(envelope).toBeUndefined();
});
