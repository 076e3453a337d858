import { Link, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import { Badge } from "../../parts/Badge";
import { buttonLook } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { ErrorNote } from "../../parts/ErrorNote";
import { Icon } from "../../parts/Icon";
import { Page } from "../../parts/Page";
import { StatusBadge } from "../../parts/StatusBadge";
import { useKey } from "../../server/key";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";
import { DeleteButton, StopButton } from "./actions";
import { madeIn } from "./documents";
import { Figures } from "./Figures";
import { LogList } from "./LogList";
import { nameOf } from "./listing";
import { MessageList } from "./MessageList";
import { NextRound } from "./NextRound";
import { Question } from "./Question";
import { Results } from "./Results";
import { StatusLine } from "./StatusLine";
import { TaskList } from "./TaskList";
import { countFailed, tasksOf } from "./tasks";
import { useWorkflow } from "./useWorkflow";

export function WorkflowPage() {
  const { id } = useParams({ from: "/workflows/$id" });
  return <Watched key={`${id} ${useKey()}`} id={id} />;
}

/** On a narrow page both columns are one, with results before messages. */
const COLUMN = "max-lg:contents lg:space-y-5";

/** One workflow, from its plan to its results. */
function Watched({ id }: { id: string }) {
  const { workflows: words } = useTexts();
  const { session, connection, error, messages: said, logs = [] } = useWorkflow(id);
  const mayRun = useScope("run");
  const messages = said ?? [];
  const request = messages[0]?.content;
  const tasks = useMemo(() => tasksOf(session), [session]);
  const failed = countFailed(tasks);
  const isKnown = session.round > 0;
  if (error && !messages.length)
    return (
      <Page title={words.title}>
        <ErrorNote error={error} />
      </Page>
    );
  const lead = (
    <span className="flex flex-wrap items-center gap-2">
      {isKnown && <StatusBadge status={session.status} awaiting={session.awaitingUserInput} />}
      {failed > 0 && <Badge tone="bad">{words.failedTasks(failed)}</Badge>}
      {isKnown && <span>{words.inRound(session.round)}</span>}
      {connection === "waiting" && <span className="text-warn">{words.connectionLost}</span>}
    </span>
  );
  const actions = (
    <>
      <Link to="/chat/$sid" params={{ sid: id }} className={buttonLook("plain")}>
        <Icon name="chat" size={16} /> {words.asChat}
      </Link>
      <Link to="/events/$sid" params={{ sid: id }} className={buttonLook("plain")}>
        <Icon name="events" size={16} /> {words.events}
      </Link>
      {mayRun &&
        isKnown &&
        (session.status === "running" ? <StopButton id={id} session={session} /> : <DeleteButton id={id} />)}
    </>
  );
  return (
    <Page title={request ? nameOf(request) : said ? words.title : "…"} lead={lead} actions={actions}>
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
        <div className={COLUMN}>
          {isKnown && <StatusLine session={session} tasks={tasks} logs={logs} />}
          <Question id={id} session={session} />
          <TaskList session={session} tasks={tasks} />
          <div className="space-y-5 max-lg:order-1">
            <Card title={words.messages}>
              <MessageList messages={messages} />
            </Card>
            {mayRun && isKnown && session.status !== "running" && <NextRound id={id} />}
          </div>
        </div>
        <div className={COLUMN}>
          <Results made={madeIn(messages)} working={said === undefined || session.status === "running"} />
          <div className="space-y-5 max-lg:order-2">
            <Figures session={session} messages={messages} />
            <LogList logs={logs} />
          </div>
        </div>
      </div>
    </Page>
  );
}
