import type { NewAnswer, Question } from "@stellwerk/client";
import { useRef } from "react";
import { Badge, type Tone } from "../../../parts/Badge";
import { classes } from "../../../parts/classes";
import { Exact } from "../../../parts/Exact";
import { words } from "../../../parts/form/FormFields";
import { isSchema } from "../../../parts/form/schema";
import { Icon } from "../../../parts/Icon";
import { hasHidden, spelled } from "../../../parts/invisible";
import { JsonTree } from "../../../parts/JsonTree";
import { Markdown } from "../../../parts/Markdown";
import { useScope } from "../../../state/scopes";
import { useTexts } from "../../../texts";
import type { Texts } from "../../../texts/types";
import { ApprovalForm, Arguments } from "./ApprovalForm";
import { QuestionForm } from "./QuestionForm";
import { type Reply, useReply } from "./useReply";

interface Props {
  sid: string;
  question: Question;
  /** In replay, or not answerable now. */
  isPast: boolean;
}

/** A question in the conversation: a form while it is open, then its answer. */
export function QuestionCard({ sid, question, isPast }: Props) {
  const texts = useTexts();
  const { questions, chat } = texts;
  const isOpen = question.state === "open";
  const isApproval = question.kind === "approval";
  const mayAnswer = useScope("run");
  const card = useRef<HTMLElement>(null);
  const reply = fromHere(useReply(sid, question.askId), () => card.current?.focus({ preventScroll: true }));
  const asks = questions.asks(question.agent ?? chat.assistant);
  const title = isApproval ? questions.mayRun(spelled(question.toolName ?? "?")) : asks;
  const [tone, state] = stateOf(question, texts);
  return (
    <section
      ref={card}
      tabIndex={-1}
      aria-label={title}
      className={classes(
        "overflow-hidden rounded-xl border bg-surface shadow-card",
        isOpen ? "border-warn" : "border-line",
      )}
    >
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 pt-3">
        <span className={isOpen ? "text-warn" : "text-muted"}>
          <Icon name="question" />
        </span>
        <div className="min-w-0 flex-1 text-sm break-words">
          <h3 className="font-semibold">{title}</h3>
          {isApproval && <p className="text-muted">{asks}</p>}
        </div>
        <Badge tone={tone}>{state}</Badge>
      </header>
      <div className="space-y-4 px-4 pt-2 pb-4 break-words">
        {isApproval ? <Why question={question.question} /> : <Markdown text={question.question} />}
        {isOpen && !isPast && mayAnswer ? (
          isApproval ? (
            <ApprovalForm question={question} reply={reply} />
          ) : (
            <QuestionForm question={question} reply={reply} />
          )
        ) : (
          <>
            {isOpen && !isApproval && <Options of={question.options ?? []} />}
            <Answered question={question} />
          </>
        )}
        {!isOpen && !isPast && reply.refused && <Lost question={question} answer={reply.refused} />}
      </div>
    </section>
  );
}

/** The pressed button disappears with the answer; the focus moves to the card. */
function fromHere(reply: Reply, stay: () => void): Reply {
  return {
    ...reply,
    answer: (answer) => {
      stay();
      reply.answer(answer);
    },
  };
}

/** The options, for readers who may not answer. */
function Options({ of }: { of: readonly unknown[] }) {
  if (!of.length) return null;
  return (
    <ul className="flex flex-wrap gap-2 text-sm">
      {of.map((option) => (
        <li
          key={JSON.stringify(option)}
          dir="auto"
          className="max-w-full rounded-lg bg-sunken px-3.5 py-1.5 break-words"
        >
          {words(option)}
        </li>
      ))}
    </ul>
  );
}

type Decided = Pick<Question, "state" | "kind"> & { readonly answer?: NewAnswer };

/** LangChain's default text for a rejection without a reason. */
const NO_REASON = "Tool execution requires approval";

/** The reason for an approval; the tool and its arguments are shown separately. */
function Why({ question }: { question: string }) {
  const reason = question.split("\n\nTool: ")[0];
  if (!reason || reason === NO_REASON) return null;
  if (!hasHidden(reason)) return <Markdown text={reason} />;
  return (
    <p className="whitespace-pre-wrap">
      <Exact text={reason} />
    </p>
  );
}

function Answered({ question }: { question: Question }) {
  const { answer, kind, args } = question;
  const data = answer?.data;
  const edited = isSchema(data) && isSchema(data.edited_action) ? data.edited_action.args : undefined;
  const message = messageIn(question);
  return (
    <>
      {kind === "approval" && <Arguments args={edited ?? args} />}
      {answer?.text && <Given>{answer.text}</Given>}
      {kind !== "approval" && data !== undefined && <Data value={data} />}
      {message && <Given>{message}</Given>}
    </>
  );
}

/** The question was answered elsewhere first. */
function Lost({ question, answer }: { question: Question; answer: NewAnswer }) {
  const texts = useTexts();
  const { questions } = texts;
  const isRefused = answer.refused === true;
  const [, decision] = stateOf({ ...question, state: isRefused ? "refused" : "answered", answer }, texts);
  const said = answer.text ?? messageIn({ ...question, answer });
  return (
    <div role="alert" className="flex gap-2.5 rounded-lg bg-warn-soft px-3 py-2 text-sm text-warn">
      <span className="mt-0.5">
        <Icon name="alert" size={16} />
      </span>
      <p className="min-w-0 break-words whitespace-pre-wrap">
        {question.state === "closed" ? questions.late : questions.lost}
        {(isRefused || question.kind === "approval") && ` ${questions.decided(decision)}`}
        {said && ` ${questions.yours(said)}`}
      </p>
    </div>
  );
}

function Data({ value }: { value: unknown }) {
  return typeof value === "object" && value !== null ? (
    <JsonTree value={value} depth={2} />
  ) : (
    <Given>{words(value)}</Given>
  );
}

/** In the colours of the user's messages. */
function Given({ children }: { children: string }) {
  return (
    <p
      dir="auto"
      className="w-fit max-w-full rounded-2xl rounded-bl-md bg-accent-soft px-4 py-2 break-words whitespace-pre-wrap"
    >
      {children}
    </p>
  );
}

/** The answer given instead of a tool result. */
function messageIn({ kind, answer }: Decided): string | undefined {
  const data = kind === "approval" ? answer?.data : undefined;
  return isSchema(data) && typeof data.message === "string" ? data.message : undefined;
}

function stateOf({ state, kind, answer }: Decided, { questions }: Texts): [Tone, string] {
  if (state === "open") return ["warn", questions.open];
  if (state === "closed") return ["neutral", questions.closed];
  if (state === "refused") return ["bad", kind === "approval" ? questions.rejected : questions.declined];
  if (kind !== "approval") return ["good", questions.answered];
  const type = isSchema(answer?.data) ? answer.data.type : (answer?.data ?? answer?.text);
  const outcomes = { approve: questions.approved, edit: questions.edited, respond: questions.responded };
  if (type === "reject") return ["bad", questions.rejected];
  return ["good", outcomes[type as keyof typeof outcomes] ?? questions.answered];
}
