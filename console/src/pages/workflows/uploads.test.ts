import type { StoredFile } from "@stellwerk/client";
import { expect, test } from "vitest";
import { isUnderWay, type Sending, type Step, uploads } from "./uploads";

const sending = (key: number): Sending => ({ key, name: `${key}.txt`, size: 3, part: 0 });
const stored = (id: string): StoredFile => ({
  ...{ id, fileId: 7, filename: "a.txt", mime: "text/plain", size: 3, created_at: 0, href: `/files/${id}` },
});
const after = (...steps: Step[]) => steps.reduce(uploads, []);
const both: Step = { what: "added", files: [sending(1), sending(2)] };

test("files are uploading until they are stored or rejected", () => {
  const files = after(
    both,
    { what: "sent", key: 1, part: 0.5 },
    { what: "stored", key: 2, stored: stored("x") },
    { what: "refused", key: 1, why: "too large" },
  );
  expect(files.map(isUnderWay)).toEqual([false, false]);
  expect(files).toMatchObject([{ refused: "too large" }, { stored: { id: "x" }, part: 1 }]);
  expect(after(both, { what: "sent", key: 1, part: 0.5 }).map(isUnderWay)).toEqual([true, true]);
});

test("identical files are one file", () => {
  const twice = after(
    both,
    { what: "stored", key: 1, stored: stored("x") },
    { what: "stored", key: 2, stored: stored("x") },
  );
  expect(twice.map(({ key }) => key)).toEqual([1]);
});

test("the result of a removed upload is ignored", () => {
  const steps: Step[] = [both, { what: "removed", key: 1 }, { what: "stored", key: 1, stored: stored("x") }];
  expect(after(...steps)).toEqual([sending(2)]);
});
