import type { FormField } from "./schema";

/** What stands in a form: texts as they are typed, ticks, the number of an option. */
export type Typed = string | boolean | readonly boolean[] | { readonly [name: string]: Typed };
export type Objection = "needed" | "number" | "integer" | "json";
/** By the path of the field, `address.city`; the whole has the empty one. */
export type Objections = Readonly<Record<string, Objection>>;

export const inner = (path: string, name: string): string => (path ? `${path}.${name}` : name);

export function initialOf({ shape, initial }: FormField): Typed {
  switch (shape.kind) {
    case "text":
      return typeof initial === "string" ? initial : "";
    case "number":
      return typeof initial === "number" ? String(initial) : "";
    case "boolean":
      return initial === true;
    case "choice":
      return indexOf(shape.options, shape.options.length === 1 ? shape.options[0] : initial);
    case "several":
      return shape.options.map((option) => Array.isArray(initial) && indexOf(initial, option) !== "");
    case "object":
      return Object.fromEntries(shape.fields.map((field) => [field.name, initialOf(field)]));
    case "json":
      return initial === undefined ? "" : JSON.stringify(initial, null, 2);
  }
}

function indexOf(options: readonly unknown[], wanted: unknown): string {
  const found = options.findIndex((option) => JSON.stringify(option) === JSON.stringify(wanted));
  return found < 0 ? "" : String(found);
}

/** The value that was typed, and what is wrong with it. Undefined: it was left out. */
export function typedValue(field: FormField, typed: Typed): { value: unknown; objections: Objections } {
  const objections: Record<string, Objection> = {};
  return { value: read(field, typed, "", objections), objections };
}

function read(field: FormField, typed: Typed, path: string, objections: Record<string, Objection>): unknown {
  const { shape, isNeeded } = field;
  if (shape.kind === "boolean") return typed === true;
  if (shape.kind === "several") return shape.options.filter((_, index) => (typed as readonly boolean[])[index]);
  if (shape.kind === "object") return readObject(shape.fields, typed, path, objections);
  const text = String(typed);
  if (text.trim() === "") {
    if (isNeeded) objections[path] = "needed";
    return undefined;
  }
  if (shape.kind === "choice") return shape.options[Number(text)];
  if (shape.kind === "text") return text;
  return shape.kind === "number"
    ? readNumber(text, shape.isInteger, path, objections)
    : readJson(text, path, objections);
}

function readObject(fields: readonly FormField[], typed: Typed, path: string, objections: Record<string, Objection>) {
  const known = typed as { readonly [name: string]: Typed };
  const read_ = fields.map((field) => {
    const typedIn = known[field.name] ?? initialOf(field);
    return [field.name, read(field, typedIn, inner(path, field.name), objections)] as const;
  });
  return Object.fromEntries(read_.filter(([, value]) => value !== undefined));
}

function readNumber(text: string, isInteger: boolean, path: string, objections: Record<string, Objection>) {
  const number = Number(text.trim().replace(",", "."));
  if (!Number.isFinite(number)) objections[path] = "number";
  else if (isInteger && !Number.isInteger(number)) objections[path] = "integer";
  return number;
}

function readJson(text: string, path: string, objections: Record<string, Objection>): unknown {
  try {
    return JSON.parse(text);
  } catch {
    objections[path] = "json";
    return undefined;
  }
}
