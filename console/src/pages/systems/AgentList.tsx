import { Badge } from "../../parts/Badge";
import { Disclosure } from "../../parts/Disclosure";
import { JsonTree } from "../../parts/JsonTree";
import type { Agent, System } from "../../server/types";
import { useTexts } from "../../texts";

/** The agents as a list: the diagram in words, plus their settings. */
export function AgentList({ system }: { system: System }) {
  const first = ({ id }: Agent) => Number(id !== system.orchestrator);
  return (
    <ul className="divide-y divide-line">
      {system.agents
        .toSorted((one, other) => first(one) - first(other))
        .map((agent) => (
          <li key={agent.id} className="px-3 py-1.5">
            <Disclosure summary={<Summary agent={agent} first={agent.id === system.orchestrator} />}>
              <Details agent={agent} />
            </Disclosure>
          </li>
        ))}
    </ul>
  );
}

function Summary({ agent, first }: { agent: Agent; first: boolean }) {
  const { systems: words } = useTexts();
  return (
    <span className="flex min-w-0 flex-1 flex-wrap items-center gap-2">
      <span className="font-medium">{agent.id}</span>
      <Badge tone={first ? "accent" : "neutral"}>{first ? words.orchestrator : words.subAgent}</Badge>
      <span className="text-sm text-muted">
        {agent.model ? `${agent.model.provider}:${agent.model.model}` : words.graph(agent.graph ?? agent.id)}
      </span>
    </span>
  );
}

/** What a graph wants and gives. */
function GraphDetails({ agent }: { agent: Agent }) {
  const { systems: words } = useTexts();
  const { input_schema, output_schema, context_schema, state_schema, nodes = [] } = agent;
  const schemas = { input: input_schema, output: output_schema, context: context_schema, state: state_schema };
  const known = Object.entries(schemas).filter(([, schema]) => schema !== undefined);
  return (
    <div className="space-y-4 py-3 pl-8">
      {agent.description && <p>{agent.description}</p>}
      {nodes.length > 0 && (
        <div>
          <h3 className="mb-1.5 text-xs font-medium text-muted">{words.nodes}</h3>
          <p className="flex flex-wrap gap-1.5">
            {nodes.map((name) => (
              <Badge key={name} mono>
                {name}
              </Badge>
            ))}
          </p>
        </div>
      )}
      {known.length > 0 && (
        <div>
          <h3 className="mb-1.5 text-xs font-medium text-muted">{words.schemas}</h3>
          {known.map(([name, schema]) => (
            <JsonTree key={name} name={name} value={schema} depth={0} />
          ))}
        </div>
      )}
    </div>
  );
}

function Details({ agent }: { agent: Agent }) {
  const { systems: words } = useTexts();
  if (agent.kind === "graph") return <GraphDetails agent={agent} />;
  const uses = [...(agent.agents ?? []).map(({ id }) => id), ...(agent.tools ?? [])];
  return (
    <div className="space-y-4 py-3 pl-8">
      {agent.description && <p>{agent.description}</p>}
      <div>
        <h3 className="mb-1.5 text-xs font-medium text-muted">{words.mayUse}</h3>
        <p className="flex flex-wrap gap-1.5">
          {uses.length
            ? uses.map((name) => (
                <Badge key={name} mono>
                  {name}
                </Badge>
              ))
            : words.nothing}
        </p>
      </div>
      <div>
        <h3 className="mb-1.5 text-xs font-medium text-muted">{words.settings}</h3>
        <JsonTree value={{ ...(agent.model && { model: agent.model }), ...agent.config }} />
      </div>
    </div>
  );
}
