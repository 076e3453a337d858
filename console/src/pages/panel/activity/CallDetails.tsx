import type { Call, Failure, ToolCall } from "@stellwerk/client";
import { memo } from "react";
import { classes } from "../../../parts/classes";
import { JsonTree } from "../../../parts/JsonTree";
import { LongText } from "../../../parts/LongText";
import { Markdown } from "../../../parts/Markdown";
import { ResultView } from "../../../parts/ResultView";
import { useTexts } from "../../../texts";
import { indent } from "./appearance";
import { GraphResult } from "./GraphResult";
import { ModelDetails } from "./ModelDetails";
import { Section } from "./Section";
import { Stripes } from "./Stripes";
import type { State } from "./states";
import type { ToldRow } from "./tree";
import { Values } from "./Values";

interface Props {
  call: Call;
  state: State;
  depth: number;
  stripes: string;
  part: ToldRow["part"];
}

/** The input and the result of an open call. */
export const CallDetails = memo(function CallDetails({ call, state, depth, stripes, part }: Props) {
  return (
    <div className="relative pr-3" style={{ paddingLeft: indent(depth) }}>
      <Stripes of={stripes} />
      <div className="space-y-3 py-2 pl-5 text-sm">
        {call.kind === "model" ? (
          <ModelDetails call={call} />
        ) : (
          <>
            {part !== "gave" && <Given call={call} />}
            {part !== "given" && <Gave call={call} rejected={state === "rejected"} />}
          </>
        )}
      </div>
    </div>
  );
});

function Given({ call }: { call: ToolCall }) {
  const { panel } = useTexts();
  const given = Object.keys(call.args).length > 0;
  return (
    <>
      {call.retryOf && <p className="text-xs text-warn">{panel.repeated}</p>}
      {given && (
        <Section title={panel.arguments}>
          <Values of={call.args} />
        </Section>
      )}
      {!given && call.input !== undefined && (
        <Section title={panel.input}>
          <JsonTree value={call.input} depth={1} />
        </Section>
      )}
      {!given && call.input === undefined && <p className="text-xs text-muted">{panel.noArguments}</p>}
    </>
  );
}

function Gave({ call, rejected }: { call: ToolCall; rejected: boolean }) {
  const { panel } = useTexts();
  const { state, output, data, result, error, outcome } = call;
  const files = Object.keys(outcome?.files ?? {});
  return (
    <>
      {state === "running" && output && (
        <Section title={panel.output}>
          <LongText text={output} />
        </Section>
      )}
      {state === "running" && data !== undefined && (
        <Section title={panel.output}>
          <JsonTree value={data} />
        </Section>
      )}
      {error && <Failed error={error} rejected={rejected} />}
      {result && !rejected && (
        <Section title={panel.result}>
          {call.kind !== "tool" && result.kind === "text" ? (
            <Markdown text={result.text} />
          ) : (
            <ResultView result={result} name={call.name} />
          )}
        </Section>
      )}
      {files.length > 0 && (
        <Section title={panel.files}>
          <p className="text-sm break-words">{files.join(", ")}</p>
        </Section>
      )}
      {call.kind === "graph" && <GraphResult call={call} />}
      {call.kind !== "graph" && state === "ok" && !result && <p className="text-xs text-muted">{panel.noResult}</p>}
    </>
  );
}

/** The reason of a rejected call, as its agent received it. */
function Failed({ error: { message, code, class: kind }, rejected }: { error: Failure; rejected: boolean }) {
  const { panel } = useTexts();
  return (
    <div className={classes("rounded-lg px-3 py-2", rejected ? "bg-warn-soft text-warn" : "bg-bad-soft text-bad")}>
      <p className="text-xs font-semibold">{rejected ? panel.rejected : panel.error}</p>
      <p className="break-words whitespace-pre-wrap">{message}</p>
      {!rejected && <p className="font-mono text-xs">{[code, kind].filter(Boolean).join(" · ")}</p>}
    </div>
  );
}
