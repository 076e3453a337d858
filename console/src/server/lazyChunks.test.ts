// @vitest-environment happy-dom
import { Problem } from "@stellwerk/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { chunk, Outdated, patient } from "./lazyChunks";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const missing = new TypeError("Failed to fetch dynamically imported module");
const answers = (...all: (Response | Error)[]) =>
  vi.stubGlobal("fetch", async () => {
    const answer = all.shift();
    if (answer instanceof Response) return answer;
    throw answer;
  });

test("a chunk that fails to load is outdated if the server responds, else the server is away", async () => {
  answers(new Response("<!doctype html>"), new TypeError("away"), new Response("", { status: 502 }));
  const page = chunk(() => Promise.reject(missing));
  await expect(page()).rejects.toBeInstanceOf(Outdated);
  await expect(page()).rejects.toMatchObject({ status: 0 });
  await expect(page()).rejects.toBeInstanceOf(Problem);
});

test("a part of a page loads when the server is back", async () => {
  answers(new TypeError("away"), new TypeError("away"));
  const load = vi.fn().mockRejectedValueOnce(missing).mockRejectedValueOnce(missing).mockResolvedValue("it");
  const part = patient(load)();
  await vi.runAllTimersAsync();
  expect(await part).toBe("it");
  expect(load).toHaveBeenCalledTimes(3);
});
