import { expect, test } from "vitest";
import { initialOf, jsonMistake, placeOf, restored, typedFor, typedValue } from "./formValues";
import { argumentsSchema, fieldOf, schemaLike } from "./schema";

const ORDER = {
  type: "object",
  required: ["name", "size"],
  properties: {
    name: { type: "string", title: "Your name" },
    size: { enum: ["small", "large"], default: "large" },
    count: { type: "integer" },
    gift: { type: "boolean", default: true },
    note: { anyOf: [{ type: "string" }, { type: "null" }] },
    toppings: { type: "array", items: { enum: ["a", "b"] } },
    address: { $ref: "#/$defs/Address" },
    odd: { oneOf: [{ type: "string" }, { type: "number" }] },
  },
  $defs: { Address: { type: "object", required: ["city"], properties: { city: { type: "string" } } } },
};

test("a schema becomes a form with its defaults", () => {
  const form = fieldOf(ORDER);
  expect(form.shape.kind === "object" && form.shape.fields.map(({ label, shape }) => [label, shape.kind])).toEqual([
    ["Your name", "text"],
    ["size", "choice"],
    ["count", "number"],
    ["gift", "boolean"],
    ["note", "text"],
    ["toppings", "several"],
    ["address", "object"],
    ["odd", "json"],
  ]);
  expect(initialOf(form)).toMatchObject({ size: "1", gift: true, address: { city: "" } });
});

test("input becomes data, or an error at its field", () => {
  const form = fieldOf(ORDER);
  const typed = { name: "Ada", size: "0", count: "3", gift: false, toppings: [false, true], address: { city: "Ulm" } };
  expect(typedValue(form, { ...typed, note: "", odd: "" })).toEqual({
    value: { name: "Ada", size: "small", count: 3, gift: false, toppings: ["b"], address: { city: "Ulm" } },
    objections: {},
  });
  const wrong = { ...typed, name: "", count: "1.5", odd: "{", address: { city: " " } };
  expect(typedValue(form, wrong).objections).toEqual({
    name: "needed",
    count: "integer",
    odd: "json",
    "address.city": "needed",
  });
});

test("an ambiguous number is an error", () => {
  const form = fieldOf({ type: "object", properties: { count: { type: "integer" }, rate: { type: "number" } } });
  const rates = (mark: string | null, typed: readonly string[]) =>
    typed.map((rate) => {
      const { value, objections } = typedValue(form, { count: "", rate }, mark);
      return objections.rate ?? (value as { rate: number }).rate;
    });
  for (const count of ["1e400", "12345678901234567890", "0x10", "10,000", "10.000"])
    expect(Object.keys(typedValue(form, { count, rate: "" }, ".").objections)).toEqual(["count"]);
  const typed = ["10.000", "10,000", "1,234,567", "1.234.567", "1,2,3", "."];
  const never = ["ambiguous", "ambiguous", "number", "number"];
  expect(rates(".", typed)).toEqual([10, "ambiguous", ...never]);
  expect(rates(",", typed)).toEqual(["ambiguous", 10, ...never]);
  expect(rates(null, typed)).toEqual(["ambiguous", "ambiguous", ...never]);
  for (const mark of [".", ",", null])
    expect(rates(mark, ["0,5", "10.5", "0.125", "1234.567", "-10,00"])).toEqual([0.5, 10.5, 0.125, 1234.567, -10]);
  const known = fieldOf({ type: "number" }, 10.125);
  expect(typedValue(known, initialOf(known))).toEqual({ value: 10.125, objections: {} });
});

test("a value that its field cannot show stays as JSON", () => {
  const properties = { n: { type: "integer" }, s: { type: "string" }, e: { enum: ["a"] }, z: { type: "boolean" } };
  const given = { n: "7", s: 5, e: "b", z: null };
  const form = fieldOf({ type: "object", properties }, given);
  expect(typedValue(form, initialOf(form))).toEqual({ value: given, objections: {} });
});

test("a text keeps its line breaks and invisible characters", () => {
  const properties = { a: { type: "string" }, b: { type: "string", format: "uri" }, c: { type: "string" } };
  const given = { a: "one\n\ntwo", b: "https://a\n.example", c: "invoice_\u202Egnp.exe\r\n" };
  const form = fieldOf({ type: "object", properties }, given);
  const typed = initialOf(form);
  expect(form.shape.kind === "object" && form.shape.fields.map(({ shape }) => shape)).toMatchObject([
    { kind: "text", isLong: true },
    { kind: "text", isLong: true },
    { kind: "json" },
  ]);
  expect(typed).toEqual({ a: given.a, b: given.b, c: '"invoice_\\u202Egnp.exe\\r\\n"' });
  expect(typedValue(form, typed)).toEqual({ value: given, objections: {} });
});

test("an optional field that was not touched is omitted", () => {
  const form = fieldOf({ ...ORDER, required: [], properties: { ...ORDER.properties, now: { type: "boolean" } } });
  expect(typedValue(form, initialOf(form))).toEqual({ value: { size: "large", gift: true }, objections: {} });
});

test("the arguments of an approval are found inside the schema of its decisions", () => {
  const schema = {
    $defs: {
      Edit: { properties: { edited_action: { $ref: "#/$defs/Action" } } },
      Action: { properties: { args: { $ref: "#/$defs/Pay" } } },
      Pay: { type: "object", properties: { to: { type: "string" } } },
    },
    discriminator: { mapping: { edit: "#/$defs/Edit" }, propertyName: "type" },
  };
  expect(fieldOf(argumentsSchema(schema), { to: "Bob" }).shape.kind).toBe("object");
  expect(fieldOf(argumentsSchema(schema), { to: "Bob", more: 1 }).shape.kind).toBe("json");
  expect(fieldOf(argumentsSchema(undefined), { to: "Bob" }).shape.kind).toBe("json");
});

const TRIP = {
  type: "object",
  required: ["days"],
  properties: {
    days: { type: "integer" },
    tags: { type: "array", items: { type: "string" } },
    travellers: { type: "array", items: { $ref: "#/$defs/Traveller" } },
    home: { $ref: "#/$defs/Address" },
    work: { anyOf: [{ $ref: "#/$defs/Address" }, { type: "null" }], default: null },
    pair: { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }] },
    rest: { type: "object" },
  },
  $defs: {
    Traveller: {
      type: "object",
      title: "Traveller",
      required: ["name"],
      properties: { name: { type: "string", title: "Name" }, age: { type: "integer" } },
    },
    Address: { type: "object", title: "Address", properties: { city: { type: "string" } } },
  },
};

test("lists of texts and of objects have fields for their items", () => {
  const form = fieldOf(TRIP);
  const kinds = form.shape.kind === "object" && form.shape.fields.map(({ label, shape }) => [label, shape.kind]);
  expect(kinds).toEqual([
    ["days", "number"],
    ["tags", "list"],
    ["travellers", "list"],
    ["home", "object"],
    ["work", "object"],
    ["pair", "json"],
    ["rest", "json"],
  ]);
  const typed = { ...(initialOf(form) as object), days: "2", tags: ["a", "b"], travellers: [{ name: "Ada", age: "" }] };
  expect(typedValue(form, typed)).toEqual({
    value: { days: 2, tags: ["a", "b"], travellers: [{ name: "Ada" }] },
    objections: {},
  });
  const wrong = { ...typed, tags: [""], travellers: [{ name: "", age: "x" }] };
  expect(typedValue(form, wrong).objections).toEqual({
    "tags.0": "needed",
    "travellers.0.name": "needed",
    "travellers.0.age": "number",
  });
});

test("a list begins with its values, or is JSON if an item has no form", () => {
  const value = { days: 1, travellers: [{ name: "Ada", age: 36 }] };
  const form = fieldOf(TRIP, value);
  expect(typedValue(form, initialOf(form))).toEqual({ value, objections: {} });
  const odd = { days: 1, travellers: [{ name: "Ada", email: "a@b.example" }], tags: ["a", 1] };
  const other = fieldOf(TRIP, odd);
  const kinds = other.shape.kind === "object" && other.shape.fields.map(({ shape }) => shape.kind);
  expect(kinds).toEqual(["number", "json", "json", "object", "object", "json", "json"]);
  expect(typedValue(other, initialOf(other))).toEqual({ value: odd, objections: {} });
});

test("an error of the server is placed at the innermost field that has its path", () => {
  const form = fieldOf(TRIP);
  expect(placeOf(form, "days")).toBe("days");
  expect(placeOf(form, "travellers.0.age")).toBe("travellers.0.age");
  expect(placeOf(form, "home.city")).toBe("home.city");
  expect(placeOf(form, "rest.deep.inside")).toBe("rest");
  expect(placeOf(form, "unknown")).toBeNull();
  expect(placeOf(form, "")).toBeNull();
  expect(placeOf(fieldOf({ type: "integer" }), "")).toBe("");
});

test("a form shows a value that was sent before, and keeps what was typed if the schema changes", () => {
  const form = fieldOf(TRIP);
  const value = { days: 3, tags: ["a"], home: { city: "Ulm" } };
  expect(typedValue(form, typedFor(form, value))).toEqual({ value, objections: {} });
  expect(typedFor(form, { days: "three" })).toEqual(initialOf(form));
  expect(typedFor(form, undefined)).toEqual(initialOf(form));
  const kept = { days: "3", tags: "not a list", travellers: [{ name: "Ada" }, 7], home: null, gone: "x" };
  const content = restored(form, kept);
  expect(content).toMatchObject({ days: "3", tags: [], travellers: [{ name: "Ada", age: "" }, { name: "" }] });
  expect(restored(form, null)).toEqual(initialOf(form));
  expect(restored(fieldOf({ type: "array", items: { enum: ["a", "b"] } }), [true])).toEqual([false, false]);
});

test("a text that was blank stays as it was", () => {
  const value = { cc: "", to: "Ann", seats: 4, from: { day: "Monday" }, tags: ["a"], none: null };
  const form = fieldOf(schemaLike(value), value);
  const kinds = form.shape.kind === "object" && form.shape.fields.map(({ shape }) => shape.kind);
  expect(kinds).toEqual(["text", "text", "number", "object", "list", "json"]);
  expect(typedValue(form, initialOf(form))).toEqual({ value, objections: {} });
  const cleared = { ...(initialOf(form) as object), to: "" };
  expect(typedValue(form, cleared).objections).toEqual({ to: "needed" });
});

test("JSON is checked as it is typed", () => {
  expect(jsonMistake('{"a": [1, 2]}')).toBeNull();
  expect(jsonMistake('{"a": [1, 2}')).toContain("JSON");
});
