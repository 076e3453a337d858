import type { UpdateEnvelope } from "@stellwerk/client";
import { memo } from "react";
import { Disclosure } from "../../../parts/Disclosure";
import { EventLink } from "../../../parts/EventLink";
import { JsonTree } from "../../../parts/JsonTree";
import { useTexts } from "../../../texts";

/** A change of the state by a client, between two rounds. */
export const StateChange = memo(function StateChange({ sid, change }: { sid: string; change: UpdateEnvelope }) {
  const { panel } = useTexts();
  const { node, delta } = change.payload;
  return (
    <div className="flex items-start gap-1 border-b border-line bg-accent-soft pr-3 pl-1">
      <Disclosure
        className="min-w-0 flex-1 text-sm"
        memory={`change ${sid} ${change.position}`}
        summary={
          <>
            <span className="font-semibold whitespace-nowrap">{panel.stateChanged}</span>
            <span className="truncate text-xs text-muted">{panel.asNode(node)}</span>
          </>
        }
      >
        <div className="pb-2 pl-7">
          <JsonTree value={delta} depth={2} />
        </div>
      </Disclosure>
      <span className="py-1">
        <EventLink sid={sid} position={change.position} of={panel.stateChanged} />
      </span>
    </div>
  );
});
