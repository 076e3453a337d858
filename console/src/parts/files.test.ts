import { expect, test } from "vitest";
import { previewOf, storedFile } from "./files";

const kind = (mime: string, name = "x", size = 10) => previewOf({ name, mime, size, path: "/files/x" });

test("the type of a file decides how it is previewed", () => {
  expect(kind("image/png")).toBe("image");
  expect(kind("text/markdown; charset=utf-8")).toBe("markdown");
  expect(kind("text/plain", "NOTES.MD")).toBe("markdown");
  expect(kind("application/json")).toBe("json");
  expect(["text/csv", "text/html", "image/svg+xml", "application/xml"].map((mime) => kind(mime))).toEqual(
    Array(4).fill("text"),
  );
  expect(kind("application/pdf")).toBeNull();
});

test("a file too large for a preview can only be downloaded", () => {
  expect(kind("image/png", "x", 9_000_000)).toBeNull();
  expect(kind("text/plain", "x", 2_000_000)).toBeNull();
});

test("a file name cannot change the path", () => {
  expect(storedFile("a/b", "../x&y=1?#.txt", "text/plain").path).toBe("/files/a%2Fb?name=..%2Fx%26y%3D1%3F%23.txt");
});
