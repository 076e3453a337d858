// Generates the envelope types from the server's published JSON Schema.
import { readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const SCHEMA = new URL("../../../docs/reference/envelope.schema.json", import.meta.url);
const TYPES = new URL("../src/envelope.gen.ts", import.meta.url);
const BANNER = "// Made by `npm run generate` from docs/reference/envelope.schema.json. Do not edit.";

// Names that would shadow globals.
const RESULTS = { Table: "TableResult", Text: "TextResult", FileRef: "FileResult", Json: "JsonResult" };
const RENAMED = { ...RESULTS, Problem: "Trouble" };

// Fields of all envelopes, including those that readers get in addition to the stored form.
const FIELDS = `/** What every payload may say of itself: what was made harmless in it, and that its content was removed. */
export interface Noted {
  _sanitized?: string[];
  redacted?: boolean;
}

/** One event of a session. */
export interface EnvelopeOf<Type extends string, Payload> {
  /** The position in the session's log, and the only cursor. */
  position: number;
  /** \`replay\`: it was committed before you connected. */
  origin: "replay" | "live";
  session_id: string;
  type: Type;
  ts: number;
  trace_id?: string;
  run_id?: string;
  parent_id: string | null;
  call_id: string;
  seq: number;
  agent?: string;
  payload: Payload;
}
`;
const NOTED = ["_sanitized", "redacted"];
const COMMON = ["type", "ts", "trace_id", "run_id", "parent_id", "call_id", "seq", "agent", "payload"];

export async function generated() {
  const schema = JSON.parse(await readFile(SCHEMA, "utf8"));
  const types = Object.entries(schema.discriminator.mapping).map(([type, ref]) => [type, last(ref)]);
  const envelopes = new Set(types.map(([, name]) => name));
  const others = Object.entries(schema.$defs).filter(([name]) => !envelopes.has(name));
  const noted = others.filter(([, def]) => NOTED.every((key) => key in def.properties)).map(([name]) => nameOf(name));
  const payloads = await compile(
    {
      title: "Payload",
      anyOf: others.map(([name]) => ({ $ref: `#/$defs/${nameOf(name)}` })),
      $defs: Object.fromEntries(
        others.map(([name, def]) => [nameOf(name), { ...definition(def), title: nameOf(name) }]),
      ),
    },
    "Payload",
    { additionalProperties: false, bannerComment: "", style: { printWidth: 120 } },
  );
  const aliases = types.map(
    ([type, name]) => `export type ${name}Envelope = EnvelopeOf<"${type}", ${payloadOf(schema, name)}>;\n`,
  );
  const union = `export type Envelope =\n${types.map(([, name]) => `  | ${name}Envelope`).join("\n")};\n`;
  return [BANNER, "", FIELDS, tidied(payloads, noted), aliases.join(""), union].join("\n");
}

/** Drops the union that only made the compiler reach all types. */
function tidied(text, noted) {
  const kept = text.slice(text.indexOf(";", text.indexOf("export type Payload")) + 1).trimStart();
  return kept
    .replace(/\/\*\*\n \* (.*)\n \*\//g, "/** $1 */")
    .replace(/export interface (\w+) \{/g, (line, name) =>
      noted.includes(name) ? line.replace("{", "extends Noted {") : line,
    );
}

function payloadOf(schema, name) {
  const { properties } = schema.$defs[name];
  const unknown = Object.keys(properties).filter((key) => !COMMON.includes(key));
  if (unknown.length > 0) throw new Error(`${name} has fields that EnvelopeOf does not have: ${unknown}`);
  return nameOf(last(properties.payload.$ref));
}

function nameOf(name) {
  return RENAMED[name] ?? name;
}

function last(ref) {
  return ref.split("/").at(-1);
}

function definition(def) {
  const required = new Set(def.required ?? []);
  const properties = Object.entries(def.properties ?? {})
    .filter(([key]) => !NOTED.includes(key))
    .map(([key, value]) => {
      const type = plain(value);
      return [key, required.has(key) ? type : withoutNull(type)];
    });
  return {
    type: "object",
    ...(def.description ? { description: def.description } : {}),
    properties: Object.fromEntries(properties),
    required: [...required],
    additionalProperties: false,
  };
}

// Titles would become type names; a reader assumes the defaults anyway.
function plain(value) {
  if (Array.isArray(value)) return value.map((item) => plain(item));
  if (typeof value !== "object" || value === null) return value;
  const { title, default: _, discriminator, $ref, ...rest } = value;
  if ($ref) return { $ref: `#/$defs/${nameOf(last($ref))}` };
  if (rest.type === "object" && !rest.properties) return { tsType: "Record<string, unknown>" };
  if (rest.type === "array" && !rest.items) return { tsType: "unknown[]" };
  const type = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, plain(inner)]));
  return Object.keys(type).every((key) => key === "description") ? { ...type, tsType: "unknown" } : type;
}

// Optional fields are absent from the stored form, never null.
function withoutNull(type) {
  const kinds = type.anyOf?.filter((kind) => kind.type !== "null");
  if (!kinds) return type;
  return kinds.length === 1 ? kinds[0] : { ...type, anyOf: kinds };
}

if (process.argv[1] === new URL(import.meta.url).pathname) await writeFile(TYPES, await generated());
