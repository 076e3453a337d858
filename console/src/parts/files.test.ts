import { expect, test } from "vitest";
import { previewOf, storedFile } from "./files";

const kind = (mime: string, name = "x", size = 10) => previewOf({ name, mime, size, path: "/files/x" });

test("what a file is says how it is looked at", () => {
  expect(kind("image/png")).toBe("image");
  expect(kind("text/markdown; charset=utf-8")).toBe("markdown");
  expect(kind("text/plain", "NOTES.MD")).toBe("markdown");
  expect(kind("application/json")).toBe("json");
  expect(["text/csv", "text/html", "image/svg+xml", "application/xml"].map((mime) => kind(mime))).toEqual(
    Array(4).fill("text"),
  );
  expect(kind("application/pdf")).toBeNull();
});

test("a file that is too large to be looked at can only be downloaded", () => {
  expect(kind("image/png", "x", 9_000_000)).toBeNull();
  expect(kind("text/plain", "x", 2_000_000)).toBeNull();
});

test("a name cannot lead anywhere else", () => {
  expect(storedFile("a/b", "../x&y=1?#.txt", "text/plain").path).toBe("/files/a%2Fb?name=..%2Fx%26y%3D1%3F%23.txt");
});
