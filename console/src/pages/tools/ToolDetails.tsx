import { Badge } from "../../parts/Badge";
import { Disclosure } from "../../parts/Disclosure";
import { JsonTree } from "../../parts/JsonTree";
import { type Column, Table } from "../../parts/Table";
import type { Tool } from "../../server/types";
import { useTexts } from "../../texts";
import { type Argument, argumentsOf } from "./schema";

export function ToolDetails({ tool }: { tool: Tool }) {
  const { tools: words } = useTexts();
  const taken = argumentsOf(tool.input_schema);
  return (
    <div className="space-y-4 py-3 pl-8">
      <p className="whitespace-pre-line">{tool.description}</p>
      <p className="flex flex-wrap gap-1.5">
        {tool.idempotent && <Badge>{words.idempotent}</Badge>}
        {tool.untrusted && <Badge tone="warn">{words.untrusted}</Badge>}
        {tool.timeout !== null && <Badge>{words.timeout(tool.timeout)}</Badge>}
        {tool.output && <Badge>{words.output(tool.output)}</Badge>}
      </p>
      {tool.untrusted && <p className="text-sm text-muted">{words.untrustedWhy}</p>}
      {tool.aliases.length > 0 && (
        <p className="text-sm text-muted">
          {words.aliases} <code className="font-mono">{tool.aliases.join(", ")}</code>
        </p>
      )}
      <div>
        <h3 className="mb-1 text-sm font-semibold">{words.arguments}</h3>
        {taken.length ? <Arguments taken={taken} /> : <p className="text-sm text-muted">{words.noArguments}</p>}
      </div>
      <Disclosure summary={<span className="text-sm">{words.schema}</span>} className="-ml-2">
        <div className="pl-6">
          <JsonTree value={tool.input_schema} depth={3} />
        </div>
      </Disclosure>
    </div>
  );
}

function Arguments({ taken }: { taken: readonly Argument[] }) {
  const { tools: words } = useTexts();
  const columns: Column<Argument>[] = [
    { id: "name", title: words.name, cell: ({ name }) => <code className="font-mono">{name}</code> },
    { id: "kind", title: words.kind, cell: ({ kind }) => <span className="text-muted">{kind}</span> },
    { id: "required", title: words.required, cell: ({ required }) => (required ? "✓" : "") },
    { id: "description", title: words.description, cell: ({ description }) => description },
  ];
  return <Table label={words.arguments} columns={columns} rows={taken} keyOf={(row) => row.name} />;
}
