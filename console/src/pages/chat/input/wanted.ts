import type { RunParameters } from "@stellwerk/client";
import { type FormField, fieldOf, isSchema, type Schema } from "../../../parts/form/schema";
import type { System } from "../../../server/types";

/** The parts of a message beside its text, in the order of the page. */
export const PARTS = ["input", "context", "config"] as const;
export type Part = (typeof PARTS)[number];

/** What a message to a system may have. */
export interface Wanted {
  /** Whether the text of a message has a place in its input. */
  readonly takesText: boolean;
  /** Whether its first message must have one. */
  readonly needsText: boolean;
  /** The forms of its graph; none for agents. */
  readonly forms: Readonly<Partial<Record<Part, FormField>>>;
  /** Parts that are shown at once; the others are below "More". */
  readonly shown: readonly Part[];
}

export const ONLY_TEXT: Wanted = { takesText: true, needsText: true, forms: {}, shown: [] };

/** The config of a run; the schema of `configurable` is that of the context, which has a form of its own. */
const CONFIG: Schema = {
  type: "object",
  properties: {
    configurable: { type: "object", description: "JSON" },
    recursion_limit: { type: "integer" },
    tags: { type: "array", items: { type: "string" } },
    metadata: { type: "object" },
    run_name: { type: "string" },
  },
};
/** Set by the server: the user of the session. */
const USER = "user_id";

/** What the schemas of the system's own graph ask for. Agents take a text. */
export function wantedBy(system: System | undefined): Wanted {
  const agent = system?.agents.find(({ id }) => id === system.orchestrator);
  if (agent?.kind !== "graph") return ONLY_TEXT;
  const takesText = agent.takes_text ?? true;
  const input = preset(without(agent.input_schema ?? {}, takesText ? agent.text_key : undefined), agent.input);
  const settings = { ...(isSchema(agent.config?.configurable) ? agent.config.configurable : {}), ...agent.context };
  const context = agent.context_schema && preset(without(agent.context_schema, USER), settings);
  const isText = takesText && agent.input_schema !== undefined && !isSchema(agent.input_schema.properties);
  const forms = {
    ...(isText || isEmpty(input) ? {} : { input: { ...fieldOf(input), isNeeded: !takesText } }),
    ...(context && !isEmpty(context) ? { context: fieldOf(context) } : {}),
    config: fieldOf(CONFIG),
  };
  const shown = PARTS.filter((part) => {
    const form = part === "config" ? undefined : forms[part];
    return form !== undefined && (hasNeeded(form) || (part === "input" && !takesText));
  });
  const required = Array.isArray(agent.input_schema?.required) ? agent.input_schema.required : [];
  const needsText = takesText && (isText || required.includes(agent.text_key));
  return { takesText, needsText, forms, shown };
}

/** The schema without a property. */
function without(schema: Schema, name: string | undefined): Schema {
  if (name === undefined || !isSchema(schema.properties)) return schema;
  const { [name]: _, ...properties } = schema.properties;
  if (schema.additionalProperties === true && Object.keys(properties).length === 0) return { type: "object" };
  const required = Array.isArray(schema.required) ? schema.required.filter((one) => one !== name) : [];
  return { ...schema, properties, required };
}

/** The schema where the system has values for some properties: they may be left out, and are named below the field. */
function preset(schema: Schema, values: Schema | undefined): Schema {
  if (!values || !isSchema(schema.properties)) return schema;
  const known = Object.entries(schema.properties).map(([name, property]) => {
    if (!(name in values) || !isSchema(property)) return [name, property];
    const { default: _, ...rest } = property; // what is left out is the system's value
    const note = `= ${typeof values[name] === "string" ? values[name] : JSON.stringify(values[name])}`;
    const description = typeof rest.description === "string" ? `${rest.description} (${note})` : note;
    return [name, { ...rest, description }];
  });
  const required = Array.isArray(schema.required) ? schema.required.filter((name) => !(name in values)) : [];
  return { ...schema, properties: Object.fromEntries(known), required };
}

const isEmpty = ({ properties }: Schema): boolean => isSchema(properties) && Object.keys(properties).length === 0;

const hasNeeded = ({ shape }: FormField): boolean =>
  shape.kind === "object" && shape.fields.some(({ isNeeded }) => isNeeded);

/** The parameters of a message, without parts that nothing was typed into. */
export function parametersOf(values: Readonly<Partial<Record<Part, unknown>>>, takesText: boolean): RunParameters {
  const { input, context, config } = values;
  const isSaid = (value: unknown) => value !== undefined && !(isSchema(value) && Object.keys(value).length === 0);
  return {
    ...(isSaid(input) || (input !== undefined && !takesText) ? { input } : {}),
    ...(isSaid(context) ? { context: context as Schema } : {}),
    ...(isSaid(config) ? { config: config as Schema } : {}),
  };
}
