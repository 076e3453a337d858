export interface Argument {
  name: string;
  kind: string;
  required: boolean;
  description: string;
}

interface Schema {
  type?: string | string[];
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  description?: string;
  $ref?: string;
}

/** The arguments of a tool, from its JSON Schema. */
export function argumentsOf(schema: Schema): Argument[] {
  return Object.entries(schema.properties ?? {}).map(([name, inner]) => ({
    name,
    kind: kindOf(inner),
    required: schema.required?.includes(name) ?? false,
    description: inner.description ?? "",
  }));
}

/** The type of a value in a few characters. */
export function kindOf(schema: Schema): string {
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" | ");
  if (schema.type === "array") return schema.items ? `${kindOf(schema.items)}[]` : "array";
  if (Array.isArray(schema.type)) return schema.type.join(" | ");
  return schema.type ?? schema.$ref?.split("/").at(-1) ?? "any";
}
