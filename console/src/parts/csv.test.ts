import { expect, test } from "vitest";
import { csvOf } from "./csv";

test("delimiters and line breaks are quoted", () => {
  const rows = [
    ["Ulm", 'a "b"'],
    ["Bad Ems, Lahn", "two\nlines"],
    ["", null],
  ];
  expect(csvOf(["town", "note"], rows)).toBe('town,note\r\nUlm,"a ""b"""\r\n"Bad Ems, Lahn","two\nlines"\r\n,\r\n');
});

test("objects and lists become JSON; numbers and booleans stay", () => {
  expect(csvOf(["a"], [[{ b: [1] }], [1.5], [true], [undefined]])).toBe('a\r\n"{""b"":[1]}"\r\n1.5\r\ntrue\r\n\r\n');
});

test("no text becomes a formula in a spreadsheet, and a number stays a number", () => {
  const evil = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", " =1", "＝1"];
  for (const text of evil) expect(csvOf([text], [])).toBe(`'${text}\r\n`);
  expect(csvOf(["=a,b"], [])).toBe('"\'=a,b"\r\n');
  expect(csvOf(["n"], [[-5], ["-5"], ["+1.5"], ["-3,4"], ["1e-9"]])).toBe(
    'n\r\n-5\r\n-5\r\n+1.5\r\n"-3,4"\r\n1e-9\r\n',
  );
});
