import type { RunParameters } from "@stellwerk/client";
import { JsonTree } from "../../parts/JsonTree";
import { entriesOf } from "../../parts/json";
import { useTexts } from "../../texts";

/** The parameters that went with a message: its input in full, context and config folded. */
export function SentParameters({ of: { input, context, config } }: { of: RunParameters }) {
  const { chat } = useTexts();
  return (
    <span className="mt-2 block whitespace-normal first:mt-0">
      {input !== undefined &&
        (Array.isArray(input) || entriesOf(input) === null ? (
          <JsonTree value={input} name={chat.parts.input} depth={2} />
        ) : (
          entriesOf(input)?.map(([name, value]) => <JsonTree key={name} name={name} value={value} depth={2} />)
        ))}
      {context && <JsonTree value={context} name={chat.parts.context} depth={0} />}
      {config && <JsonTree value={config} name={chat.parts.config} depth={0} />}
    </span>
  );
}
