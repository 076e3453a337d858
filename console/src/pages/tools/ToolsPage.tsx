import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Badge } from "../../parts/Badge";
import { Card } from "../../parts/Card";
import { Disclosure } from "../../parts/Disclosure";
import { EmptyState } from "../../parts/EmptyState";
import { Field } from "../../parts/Field";
import { Loaded } from "../../parts/Loaded";
import { Page } from "../../parts/Page";
import { tools } from "../../server/queries";
import type { Tool } from "../../server/types";
import { useTexts } from "../../texts";
import { matching } from "./matching";
import { ToolDetails } from "./ToolDetails";

export function ToolsPage() {
  const { tools: words } = useTexts();
  const [filter, setFilter] = useState("");
  return (
    <Page title={words.title} lead={words.lead}>
      <Field
        label={words.filter}
        labelHidden
        type="search"
        placeholder={words.filter}
        value={filter}
        onChange={(event) => setFilter(event.target.value)}
        className="mb-5 max-w-md"
      />
      <Loaded query={useQuery(tools)}>{(found) => <ToolList tools={matching(found, filter)} />}</Loaded>
    </Page>
  );
}

function ToolList({ tools: found }: { tools: readonly Tool[] }) {
  const { tools: words } = useTexts();
  if (!found.length) return <EmptyState icon="tools" title={words.none} />;
  return (
    <Card title={<span role="status">{words.found(found.length)}</span>} flush>
      <ul className="divide-y divide-line">
        {found.map((tool) => (
          <li key={tool.name} className="px-3 py-1.5">
            <Disclosure summary={<Summary tool={tool} />}>
              <ToolDetails tool={tool} />
            </Disclosure>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Summary({ tool }: { tool: Tool }) {
  const { tools: words } = useTexts();
  const effects = words.effects[tool.effects as keyof typeof words.effects] ?? tool.effects;
  return (
    <span className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3 gap-y-0.5 sm:flex-nowrap">
      <span className="font-mono text-sm font-medium">{tool.name}</span>
      <span className="order-last w-full truncate text-sm text-muted sm:order-none sm:w-auto sm:flex-1">
        {tool.description.split("\n")[0]}
      </span>
      <Badge tone={tool.effects === "read" ? "neutral" : "warn"}>{effects}</Badge>
    </span>
  );
}
