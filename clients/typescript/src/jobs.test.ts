import { expect, test } from "vitest";
import { Client } from "./client.js";
import { serving } from "./testing/server.js";

/** A server that answers each request with the next of these, and what it was asked. */
async function answering(...answers: readonly unknown[]): Promise<{ client: Client; asked: unknown[] }> {
  const asked: unknown[] = [];
  const left = [...answers];
  const url = await serving(async (request, response) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk as Uint8Array);
    const body = Buffer.concat(chunks).toString();
    asked.push([request.method, request.url, ...(body ? [JSON.parse(body)] : [])]);
    const answer = left.shift();
    response.writeHead(answer === undefined ? 204 : 200, { "Content-Type": "application/json" });
    response.end(answer === undefined ? undefined : JSON.stringify(answer));
  });
  return { client: new Client({ url }), asked };
}

test("crons are created, changed, listed across pages, and deleted", async () => {
  const cron = { schedule: "0 7 * * *", agent_system_id: "demo", message: { text: "weather" } };
  const { client, asked } = await answering(
    { id: "c" },
    { id: "c" },
    { crons: [{ id: "a" }], next: "a" },
    { crons: [{ id: "b" }], next: null },
  );
  await client.jobs.createCron(cron);
  await client.jobs.changeCron("c", { ...cron, enabled: false });
  expect(await client.jobs.crons()).toEqual([{ id: "a" }, { id: "b" }]);
  await client.jobs.deleteCron("c");
  expect(asked).toEqual([
    ["POST", "/crons", cron],
    ["PUT", "/crons/c", { ...cron, enabled: false }],
    ["GET", "/crons?limit=100"],
    ["GET", "/crons?limit=100&after=a"],
    ["DELETE", "/crons/c"],
  ]);
});

test("a message has a time and a webhook", async () => {
  const { client, asked } = await answering({ start_at: 5 }, { runs: [{ run_id: "r" }] });
  const accepted = await client.send("s", { text: "hi", after_seconds: 5, webhook: "https://example.com/" });
  expect(accepted.start_at).toBe(5);
  expect(await client.jobs.delayedRuns(10)).toEqual([{ run_id: "r" }]);
  expect(asked).toEqual([
    ["POST", "/sessions/s/messages", { text: "hi", after_seconds: 5, webhook: "https://example.com/" }],
    ["GET", "/delayed-runs?limit=10"],
  ]);
});

test("deliveries are filtered and retried, and the default webhook is set and removed", async () => {
  const { client, asked } = await answering(
    { deliveries: [], next: null },
    undefined,
    { webhook: "https://example.com/" },
    { webhook: null },
  );
  await client.jobs.webhookDeliveries({ state: "failed", session_id: "s" });
  await client.jobs.retryDelivery("d");
  await client.jobs.setDefaultWebhook("https://example.com/");
  expect(await client.jobs.defaultWebhook()).toBeNull();
  await client.jobs.setDefaultWebhook(null);
  expect(asked).toEqual([
    ["GET", "/webhook-deliveries?state=failed&session_id=s&limit=100"],
    ["POST", "/webhook-deliveries/d/retry"],
    ["PUT", "/default-webhook", { webhook: "https://example.com/" }],
    ["GET", "/default-webhook"],
    ["DELETE", "/default-webhook"],
  ]);
});
