import type { ModelUsage, SessionUsage } from "@stellwerk/client";
import { EventLink } from "../../parts/EventLink";
import { type Column, Table } from "../../parts/Table";
import { useTexts } from "../../texts";
import { duration, number } from "../../texts/figures";

type ModelRow = ModelUsage & { readonly model: string };

/** The usage of the session so far. */
export function Usage({ sid, usage }: { sid: string; usage: SessionUsage }) {
  const { panel, language } = useTexts();
  const rows = Object.entries(usage.models).map(([model, used]) => ({ model, ...used }));
  const sum = (of: (row: ModelRow) => number) => rows.reduce((total, row) => total + of(row), 0);
  const formatted = (value: number) => number(value, language);
  const columns: Column<ModelRow>[] = [
    { id: "model", title: panel.model, cell: (row) => <span className="break-all">{row.model}</span> },
    { id: "input", title: panel.inputTokens, numeric: true, cell: (row) => formatted(row.inputTokens) },
    { id: "output", title: panel.outputTokens, numeric: true, cell: (row) => formatted(row.outputTokens) },
    { id: "calls", title: panel.counted, numeric: true, cell: (row) => formatted(row.calls) },
  ];
  const facts = [
    [panel.inputTokens, formatted(sum((row) => row.inputTokens))],
    [panel.outputTokens, formatted(sum((row) => row.outputTokens))],
    [panel.modelCalls, formatted(usage.modelCalls)],
    [panel.toolCalls, formatted(usage.toolCalls)],
    [panel.rounds, formatted(usage.runs)],
    [panel.seconds, duration(usage.seconds, language)],
  ];
  return (
    <div className="relative space-y-5 py-4">
      <div className="absolute top-3 right-4">
        <EventLink sid={sid} type="llm_end,run_end" of={panel.tabs.usage} />
      </div>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 px-4">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt className="text-xs text-muted">{name}</dt>
            <dd className="text-lg font-semibold tabular-nums">{value}</dd>
          </div>
        ))}
      </dl>
      {rows.length > 0 && <Table label={panel.model} columns={columns} rows={rows} keyOf={(row) => row.model} />}
    </div>
  );
}
