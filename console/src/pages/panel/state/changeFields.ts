import { type FormField, fieldOf, fits, isSchema, type Schema } from "../../../parts/form/schema";
import type { Agent, GraphValues } from "../../../server/types";
import { entriesOfState } from "./checkpoints";

/** The keys of a graph's state that can be changed: those of its schema, else those that it has now. */
export function changeableKeys({ state_schema }: Agent, { values }: GraphValues): readonly string[] {
  const properties = isSchema(state_schema?.properties) ? state_schema.properties : {};
  const known = entriesOfState(values).map(([key]) => key);
  return [...new Set([...Object.keys(properties), ...known])].filter(Boolean);
}

/**
 * The form for some keys. It begins with their values, except for a key with a reducer: the graph adds what is sent to
 * what is there. A value that was changed to be shown as JSON is not offered either.
 */
export function changeField(graph: Agent, { values, sanitized }: GraphValues, keys: readonly string[]): FormField {
  const whole: Schema = graph.state_schema ?? {};
  const properties = isSchema(whole.properties) ? whole.properties : {};
  const now = Object.fromEntries(entriesOfState(values));
  const reduced = new Set(graph.reducers);
  const fields = keys.map((key): FormField => {
    const schema = { ...(isSchema(properties[key]) ? properties[key] : {}), $defs: whole.$defs };
    const value = reduced.has(key) || sanitized?.length ? undefined : now[key];
    const plain = fieldOf(schema);
    const field =
      value === undefined || value === null || fits(plain, value) ? fieldOf(schema, value) : fieldOf({}, value);
    return { ...field, name: key, label: key, isNeeded: true };
  });
  return { name: "", label: "", isNeeded: true, shape: { kind: "object", fields } };
}
