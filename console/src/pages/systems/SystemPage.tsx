import { useQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Badge } from "../../parts/Badge";
import { Button } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { ErrorNote } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { JsonTree } from "../../parts/JsonTree";
import { Loaded } from "../../parts/Loaded";
import { LongText } from "../../parts/LongText";
import { NotAllowed } from "../../parts/NotAllowed";
import { Page } from "../../parts/Page";
import { Tabs } from "../../parts/Tabs";
import { system, systems, systemText } from "../../server/queries";
import type { System } from "../../server/types";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { useStartSession } from "../chat/startSession";
import { AgentList } from "./AgentList";
import { MistakeList } from "./MistakeList";
import { SystemEditor } from "./SystemEditor";
import { SystemPicture } from "./SystemPicture";

export function SystemPage() {
  const { id } = useParams({ from: "/systems/$id" });
  const begin = useStartSession();
  const { systems: words } = useTexts();
  const query = useQuery(system(id));
  const mayRun = useScope("run");
  const tryIt = mayRun && query.data && (
    <Button look="primary" disabled={begin.isPending} onClick={() => begin.mutate(id)}>
      <Icon name="chat" size={16} /> {words.tryIt}
    </Button>
  );
  return (
    <Page title={id} lead={query.data && <Facts system={query.data} />} actions={tryIt}>
      {begin.error && <ErrorNote error={begin.error} />}
      <Loaded query={query}>{(found) => <SystemViews system={found} />}</Loaded>
    </Page>
  );
}

function Facts({ system: one }: { system: System }) {
  const { systems: words } = useTexts();
  return (
    <>
      {one.description && <span className="mb-2 block">{one.description}</span>}
      <span className="flex flex-wrap gap-1.5">
        {one.version !== null && <Badge>{words.version(one.version)}</Badge>}
        <Badge>{words.agentCount(one.agents.length)}</Badge>
        <Badge>{words.toolCount(one.tools.length)}</Badge>
        {one.models.map((model) => (
          <Badge key={model} mono>
            {model}
          </Badge>
        ))}
      </span>
    </>
  );
}

function SystemViews({ system: one }: { system: System }) {
  const { systems: words } = useTexts();
  const mayRegister = useScope("register");
  const text = useQuery(systemText(one.id));
  const isUnusable = useQuery({ ...systems, select: (all) => all.find(({ id }) => id === one.id)?.unusable }).data;
  const picture = (
    <div className="space-y-5">
      {one.problems.length > 0 && <MistakeList title={words.broken} mistakes={one.problems} />}
      {isUnusable && <p className="text-sm text-muted">{words.unusableWhy}</p>}
      {one.warnings.length > 0 && <MistakeList title={words.warnings} tone="warn" mistakes={one.warnings} />}
      <Card>
        <SystemPicture system={one} />
      </Card>
      <Card title={words.agents} flush>
        <AgentList system={one} />
      </Card>
    </div>
  );
  const configuration = (
    <Card title={words.resolved}>
      <JsonTree value={one} depth={2} />
    </Card>
  );
  const yaml = (
    <Loaded query={text}>
      {(written) =>
        mayRegister ? (
          <SystemEditor key={one.id} name={one.id} initial={written} />
        ) : (
          <Card title={words.yaml}>
            <div className="space-y-4">
              <NotAllowed scope="register" />
              <LongText text={written} />
            </div>
          </Card>
        )
      }
    </Loaded>
  );
  return (
    <Tabs
      label={words.views}
      tabs={[
        { id: "picture", label: words.picture, content: picture },
        { id: "yaml", label: words.yaml, content: yaml },
        { id: "configuration", label: words.configuration, content: configuration },
      ]}
    />
  );
}
