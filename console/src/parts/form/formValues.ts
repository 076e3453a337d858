import { spelledJson } from "../invisible";
import { type FormField, fits, isSchema, optionOf, withInitial } from "./schema";

/** The content of a form: texts as typed, ticks, the index of an option, the items of a list. */
export type Typed = string | boolean | readonly Typed[] | { readonly [name: string]: Typed };
type Objection = "needed" | "number" | "integer" | "ambiguous" | "json";
/** By the path of the field, such as `address.city`; the root has the empty path. */
type Objections = Readonly<Record<string, Objection>>;

export const inner = (path: string, name: string): string => (path ? `${path}.${name}` : name);

export function initialOf({ shape, initial }: FormField): Typed {
  switch (shape.kind) {
    case "text":
    case "number":
      return initial === undefined ? "" : String(initial);
    case "boolean":
      return initial === true;
    case "choice":
      return chosen(shape.options, shape.options.length === 1 ? shape.options[0] : initial);
    case "several":
      return shape.options.map((option) => Array.isArray(initial) && optionOf(initial, option) >= 0);
    case "object":
      return Object.fromEntries(shape.fields.map((field) => [field.name, initialOf(field)]));
    case "list":
      return Array.isArray(initial) ? initial.map((one) => initialOf(withInitial(shape.item, one))) : [];
    case "json":
      return initial === undefined ? "" : spelledJson(JSON.stringify(initial, null, 2));
  }
}

/** The content of a form that shows this value; the initial one if it has no place for it. */
export function typedFor(field: FormField, value: unknown): Typed {
  return initialOf(value !== undefined && fits(field, value) ? withInitial(field, value) : field);
}

/** Content that was kept for a form, as far as the form still has the same fields. */
export function restored(field: FormField, kept: unknown): Typed {
  const { shape } = field;
  switch (shape.kind) {
    case "boolean":
      return typeof kept === "boolean" ? kept : initialOf(field);
    case "several": {
      const isSame = Array.isArray(kept) && kept.length === shape.options.length;
      return isSame ? kept.map((one) => one === true) : initialOf(field);
    }
    case "list":
      return Array.isArray(kept) ? kept.map((one) => restored(shape.item, one)) : initialOf(field);
    case "object": {
      const known = isSchema(kept) ? kept : {};
      return Object.fromEntries(shape.fields.map((one) => [one.name, restored(one, known[one.name])]));
    }
    default:
      return typeof kept === "string" ? kept : initialOf(field);
  }
}

function chosen(options: readonly unknown[], wanted: unknown): string {
  const found = optionOf(options, wanted);
  return found < 0 ? "" : String(found);
}

/**
 * The typed value and its errors. Undefined: omitted. `mark` is the user's decimal separator;
 * null if it is not certain.
 */
export function typedValue(
  field: FormField,
  typed: Typed,
  mark: string | null = null,
): { value: unknown; objections: Objections } {
  const reading: Reading = { mark, objections: {} };
  return { value: read(field, typed, "", reading), objections: reading.objections };
}

interface Reading {
  readonly mark: string | null;
  readonly objections: Record<string, Objection>;
}

function read(field: FormField, typed: Typed, path: string, reading: Reading): unknown {
  const { shape, isNeeded } = field;
  if (isLeftOut(field, typed)) return undefined;
  if (shape.kind === "boolean") return typed === true;
  if (shape.kind === "several") return shape.options.filter((_, index) => (typed as readonly Typed[])[index]);
  if (shape.kind === "object") return readObject(shape.fields, typed, path, reading);
  if (shape.kind === "list")
    return (typed as readonly Typed[]).map((one, index) => read(shape.item, one, inner(path, String(index)), reading));
  const text = String(typed);
  if (shape.kind === "text" && text === field.initial) return text;
  if (text.trim() === "") {
    if (isNeeded) reading.objections[path] = "needed";
    return undefined;
  }
  if (shape.kind === "choice") return shape.options[Number(text)];
  if (shape.kind === "text") return text;
  if (shape.kind !== "number") return readJson(text, path, reading);
  return text === String(field.initial) ? field.initial : readNumber(text, shape.isInteger, path, reading);
}

/** An optional field that was absent and not touched is omitted: an unticked box cannot express that. */
function isLeftOut(field: FormField, typed: Typed): boolean {
  const isUntouched = () => JSON.stringify(typed) === JSON.stringify(initialOf(field));
  return !field.isNeeded && field.initial === undefined && isUntouched();
}

function readObject(fields: readonly FormField[], typed: Typed, path: string, reading: Reading) {
  const known = typed as { readonly [name: string]: Typed };
  const read_ = fields.map((field) => {
    const typedIn = known[field.name] ?? initialOf(field);
    return [field.name, read(field, typedIn, inner(path, field.name), reading)] as const;
  });
  return Object.fromEntries(read_.filter(([, value]) => value !== undefined));
}

const NUMBER = /^[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?$/i;
/** A thousand in some languages, a decimal fraction in others. */
const AMBIGUOUS = /^[+-]?[1-9]\d{0,2}([.,]\d{3})+$/;

function readNumber(typed: string, isInteger: boolean, path: string, { mark, objections }: Reading) {
  const text = typed.trim();
  const number = Number(text.replace(",", "."));
  if (AMBIGUOUS.test(text) && (isInteger || text.replace(/[^.,]/g, "") !== mark)) objections[path] = "ambiguous";
  else if (!NUMBER.test(text) || !Number.isFinite(number)) objections[path] = "number";
  else if (isInteger && (/[.,]/.test(text) || !Number.isSafeInteger(number))) objections[path] = "integer";
  return number;
}

/** What the browser says is wrong with a JSON text; null if nothing is. */
export function jsonMistake(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The path of the innermost field for a path of the value; null if the form has none. */
export function placeOf(field: FormField, path: string): string | null {
  const steps = path === "" ? [] : path.split(".");
  let [found, place] = [field, ""];
  for (const step of steps) {
    const { shape } = found;
    if (shape.kind === "list") found = shape.item;
    else if (shape.kind === "object") {
      const next = shape.fields.find(({ name }) => name === step);
      if (next === undefined) return null;
      found = next;
    } else break;
    place = inner(place, step);
  }
  return place === "" && field.shape.kind === "object" ? null : place;
}

function readJson(text: string, path: string, { objections }: Reading): unknown {
  if (jsonMistake(text) === null) return JSON.parse(text);
  objections[path] = "json";
  return undefined;
}
