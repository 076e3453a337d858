import { expect, test } from "vitest";
import { csvOf } from "./csv";

test("what would break a line or a column is quoted", () => {
  const rows = [
    ["Ulm", 'a "b"'],
    ["Bad Ems, Lahn", "two\nlines"],
    ["", null],
  ];
  expect(csvOf(["town", "note"], rows)).toBe('town,note\r\nUlm,"a ""b"""\r\n"Bad Ems, Lahn","two\nlines"\r\n,\r\n');
});

test("what has an inside is told as JSON, numbers and truth as they are", () => {
  expect(csvOf(["a"], [[{ b: [1] }], [1.5], [true], [undefined]])).toBe('a\r\n"{""b"":[1]}"\r\n1.5\r\ntrue\r\n\r\n');
});

test("no text is a formula for a spreadsheet, and a number stays one", () => {
  const evil = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", " =1", "＝1"];
  for (const text of evil) expect(csvOf([text], [])).toBe(`'${text}\r\n`);
  expect(csvOf(["=a,b"], [])).toBe('"\'=a,b"\r\n');
  expect(csvOf(["n"], [[-5], ["-5"], ["+1.5"], ["-3,4"], ["1e-9"]])).toBe(
    'n\r\n-5\r\n-5\r\n+1.5\r\n"-3,4"\r\n1e-9\r\n',
  );
});
