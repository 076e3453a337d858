import { hasHidden } from "../invisible";

export type Schema = Readonly<Record<string, unknown>>;

/** The kind of an input. `json`: for schemas without a form. */
export type Shape =
  | { readonly kind: "text"; readonly isLong: boolean; readonly type: "text" | "email" | "url" | "date" | "password" }
  | { readonly kind: "number"; readonly isInteger: boolean }
  | { readonly kind: "boolean" }
  | { readonly kind: "choice" | "several"; readonly options: readonly unknown[] }
  | { readonly kind: "object"; readonly fields: readonly FormField[] }
  | { readonly kind: "list"; readonly item: FormField }
  | { readonly kind: "json" };

export interface FormField {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly isNeeded: boolean;
  readonly shape: Shape;
  readonly initial?: unknown;
}

const DEEPEST = 4;
const FORMATS = { email: "email", uri: "url", date: "date", password: "password" } as const;

/** The form for a JSON Schema. */
export function fieldOf(schema: unknown, initial?: unknown): FormField {
  const root = isSchema(schema) ? schema : {};
  return made(root, "", true, initial, root, 0);
}

function made(raw: Schema, name: string, isNeeded: boolean, given: unknown, root: Schema, depth: number): FormField {
  const schema = resolved(raw, root);
  const known = given === undefined ? schema.default : given;
  const initial = known === null && schema.default === null ? undefined : known;
  const shape = shapeOf(schema, initial, root, depth);
  return {
    name,
    label: labelOf(text(schema.title), name),
    ...(text(schema.description) ? { hint: text(schema.description) } : {}),
    isNeeded,
    shape: initial === undefined || holds(shape, initial) ? shape : { kind: "json" },
    ...(initial === undefined ? {} : { initial }),
  };
}

/** The title, unless it is the name of a class: two fields of one class would have the same label. */
function labelOf(title: string | undefined, name: string): string {
  if (title === undefined) return name;
  const isClass = /^[A-Z]\w*$/.test(title) && title.toLowerCase() !== name.toLowerCase();
  return isClass && name ? name : title;
}

function shapeOf(schema: Schema, initial: unknown, root: Schema, depth: number): Shape {
  if (Array.isArray(schema.enum)) return { kind: "choice", options: schema.enum };
  if ("const" in schema) return { kind: "choice", options: [schema.const] };
  switch (schema.type) {
    case "string":
      return textShape(schema, initial);
    case "number":
    case "integer":
      return { kind: "number", isInteger: schema.type === "integer" };
    case "boolean":
      return { kind: "boolean" };
    case "array":
      return arrayShape(schema, root, depth);
    case "object":
      return objectShape(schema, initial, root, depth);
    default:
      return { kind: "json" };
  }
}

/** Whether a field can show the value unchanged; if not, editing another field would lose it. */
function holds(shape: Shape, value: unknown): boolean {
  switch (shape.kind) {
    case "text":
      return typeof value === "string" && !hasHidden(value);
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    case "choice":
      return optionOf(shape.options, value) >= 0;
    case "several":
      return Array.isArray(value) && value.every((one) => optionOf(shape.options, one) >= 0);
    case "object":
      return isSchema(value);
    case "list":
      return Array.isArray(value) && value.every((one) => fits(shape.item, one));
    case "json":
      return true;
  }
}

/** Whether a field and all fields inside it can show the value unchanged. */
export function fits({ shape }: FormField, value: unknown): boolean {
  if (!holds(shape, value)) return false;
  if (shape.kind !== "object") return true;
  const fields = new Map(shape.fields.map((field) => [field.name, field]));
  return Object.entries(value as Schema).every(([name, one]) => {
    const field = fields.get(name);
    return field !== undefined && (one === undefined || fits(field, one));
  });
}

/** The same field with another initial value, which must fit. */
export function withInitial(field: FormField, initial: unknown): FormField {
  const { initial: _, shape, ...rest } = field;
  const known = isSchema(initial) ? initial : {};
  const inside: Shape =
    shape.kind === "object"
      ? { kind: "object", fields: shape.fields.map((one) => withInitial(one, known[one.name])) }
      : shape;
  return { ...rest, shape: inside, ...(initial === undefined ? {} : { initial }) };
}

/** The index of the option with this value; -1 if none. */
export function optionOf(options: readonly unknown[], value: unknown): number {
  return options.findIndex((option) => JSON.stringify(option) === JSON.stringify(value));
}

function textShape(schema: Schema, initial: unknown): Shape {
  const format = String(schema.format ?? "");
  const type = format in FORMATS ? FORMATS[format as keyof typeof FORMATS] : "text";
  const given = typeof initial === "string" ? initial : "";
  const length = Math.max(Number(schema.maxLength ?? 0), given.length);
  return { kind: "text", isLong: given.includes("\n") || (type === "text" && length > 120), type };
}

function arrayShape(schema: Schema, root: Schema, depth: number): Shape {
  if (!isSchema(schema.items) || Array.isArray(schema.prefixItems) || depth >= DEEPEST) return { kind: "json" };
  const items = resolved(schema.items, root);
  if (Array.isArray(items.enum)) return { kind: "several", options: items.enum };
  const item = made(schema.items, "", true, undefined, root, depth + 1);
  return item.shape.kind === "json" ? { kind: "json" } : { kind: "list", item };
}

function objectShape(schema: Schema, initial: unknown, root: Schema, depth: number): Shape {
  if (!isSchema(schema.properties) || depth >= DEEPEST) return { kind: "json" };
  const needed = new Set(Array.isArray(schema.required) ? schema.required : []);
  const known = isSchema(initial) ? initial : {};
  if (Object.keys(known).some((name) => !(name in (schema.properties as Schema)))) return { kind: "json" };
  const fields = Object.entries(schema.properties).map(([name, inner]) =>
    made(isSchema(inner) ? inner : {}, name, needed.has(name), known[name], root, depth + 1),
  );
  return { kind: "object", fields };
}

/** Resolves references, and removes the "or null" of an optional field. */
function resolved(schema: Schema, root: Schema, steps = 0): Schema {
  if (steps > DEEPEST) return {};
  if (typeof schema.$ref === "string") {
    const { $ref, ...rest } = schema;
    return { ...resolved(lookedUp($ref as string, root), root, steps + 1), ...rest };
  }
  const forms = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isSchema) : [];
  const others = forms.filter((form) => form.type !== "null");
  const { anyOf: _, ...rest } = schema;
  if (forms.length && others.length === 1 && others[0]) return { ...resolved(others[0], root, steps + 1), ...rest };
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return types.length === 1 ? { ...schema, type: types[0] } : { ...schema, type: undefined };
  }
  return schema;
}

function lookedUp(reference: string, root: Schema): Schema {
  let found: unknown = root;
  for (const step of reference.replace(/^#\/?/, "").split("/")) found = isSchema(found) ? found[step] : undefined;
  return isSchema(found) ? found : {};
}

/** A schema for values like this one, where there is none: every field of an object is required. */
export function schemaLike(value: unknown): Schema {
  if (isSchema(value)) {
    const properties = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, schemaLike(one)]));
    return { type: "object", properties, required: Object.keys(value) };
  }
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string"))
    return { type: "array", items: { type: "string" } };
  const kind = typeof value;
  return kind === "string" || kind === "number" || kind === "boolean" ? { type: kind } : {};
}

/** The schema of a tool's arguments, found inside the schema of its decisions. */
export function argumentsSchema(schema: unknown): Schema {
  if (!isSchema(schema)) return {};
  const mapping = isSchema(schema.discriminator) ? schema.discriminator.mapping : undefined;
  const edit = isSchema(mapping) && typeof mapping.edit === "string" ? lookedUp(mapping.edit, schema) : schema;
  const action = inside(edit, "edited_action", schema);
  return { ...inside(action, "args", schema), $defs: schema.$defs };
}

function inside(schema: Schema, name: string, root: Schema): Schema {
  const found = isSchema(schema.properties) ? schema.properties[name] : undefined;
  return isSchema(found) ? resolved(found, root) : {};
}

export function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const text = (value: unknown) => (typeof value === "string" && value ? value : undefined);
