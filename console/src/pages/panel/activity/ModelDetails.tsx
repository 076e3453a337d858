import type { ModelCall } from "@stellwerk/client";
import { Disclosure } from "../../../parts/Disclosure";
import { LongText } from "../../../parts/LongText";
import { useTexts } from "../../../texts";
import { number } from "../../../texts/figures";
import { Section } from "./Section";
import { Values } from "./Values";

/** Reasoning, text, tool calls and usage of a model call. */
export function ModelDetails({ call }: { call: ModelCall }) {
  const { panel, language } = useTexts();
  const { usage, finishReason, node, reasoning, text } = call;
  const formatted = (value = 0) => number(value, language);
  const facts = [
    usage && panel.used(formatted(usage.input_tokens), formatted(usage.output_tokens)),
    finishReason && panel.finish(finishReason),
    node,
  ].filter(Boolean);
  return (
    <>
      {reasoning && (
        <Disclosure
          memory={`thoughts ${call.id}`}
          summary={<span className="text-xs font-semibold text-muted">{panel.thought}</span>}
        >
          <LongText text={reasoning} tone="text-muted" />
        </Disclosure>
      )}
      {text && (
        <Section title={panel.wrote}>
          <LongText text={text} />
        </Section>
      )}
      <Written call={call} />
      {facts.length > 0 && <p className="text-xs text-muted">{facts.join(" · ")}</p>}
    </>
  );
}

/** The tool calls of the model; incomplete ones as far as they are written. */
function Written({ call }: { call: ModelCall }) {
  const { panel } = useTexts();
  const made = call.toolCalls?.map((one) => ({ id: one.tool_call_id, name: one.name, args: one.args, text: "" }));
  const writing = Object.entries(call.writing).map(([id, { name, args }]) => ({
    id,
    name,
    args: undefined,
    text: args,
  }));
  const calls = made ?? writing;
  if (calls.length === 0) return null;
  return (
    <Section title={panel.calls}>
      {calls.map(({ id, name, args, text }) => (
        <div key={id} className="mb-1.5">
          <p className="text-sm font-medium">{name}</p>
          {args ? <Values of={args} /> : <LongText text={text} tone="text-muted" />}
        </div>
      ))}
    </Section>
  );
}
