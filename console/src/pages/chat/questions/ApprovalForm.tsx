import type { Question } from "@stellwerk/client";
import { useMemo, useState } from "react";
import { Button } from "../../../parts/Button";
import { Field } from "../../../parts/Field";
import { FormFields } from "../../../parts/form/FormFields";
import { argumentsSchema, fieldOf, schemaLike } from "../../../parts/form/schema";
import { useForm } from "../../../parts/form/useForm";
import { JsonTree } from "../../../parts/JsonTree";
import { useTexts } from "../../../texts";
import type { Reply } from "./useReply";

const DECISIONS = ["approve", "edit", "reject", "respond"] as const;
type Decision = (typeof DECISIONS)[number];

/** Approves a tool call, with or without edited arguments, or rejects it. All arguments are visible. */
export function ApprovalForm({ question, reply }: { question: Question; reply: Reply }) {
  const { questions } = useTexts();
  const [chosen, setChosen] = useState<Decision | null>(null);
  const open = DECISIONS.filter((one) => !question.options || question.options.includes(one));
  const back = () => setChosen(null);
  return (
    <fieldset disabled={reply.isSent} className="min-w-0 space-y-4">
      {chosen !== "edit" && <Arguments args={question.args} />}
      {chosen === null && (
        <div className="flex flex-wrap gap-2">
          {open.map((one) => (
            <Button
              key={one}
              look={one === "approve" ? "primary" : one === "reject" ? "danger" : "plain"}
              onClick={() => (one === "approve" ? reply.answer({ data: { type: one } }) : setChosen(one))}
            >
              {questions.decisions[one]}
            </Button>
          ))}
        </div>
      )}
      {chosen === "edit" && <Edit question={question} reply={reply} onBack={back} />}
      {chosen === "reject" && (
        <Say
          label={questions.reason}
          send={questions.decisions.reject}
          onBack={back}
          onSend={(text) => reply.answer(text ? { refused: true, text } : { refused: true })}
        />
      )}
      {chosen === "respond" && (
        <Say
          label={questions.reply}
          send={questions.decisions.respond}
          onBack={back}
          onSend={(message) => reply.answer({ data: { type: "respond", message } })}
        />
      )}
      {reply.error && chosen !== "edit" && <p className="text-sm text-bad">{reply.error}</p>}
    </fieldset>
  );
}

export function Arguments({ args }: { args: unknown }) {
  const { questions } = useTexts();
  if (args === undefined) return null;
  return (
    <div className="overflow-x-auto rounded-lg bg-sunken px-3 py-2">
      <JsonTree value={args} name={questions.arguments} depth={Number.POSITIVE_INFINITY} />
    </div>
  );
}

function Edit({ question, reply, onBack }: { question: Question; reply: Reply; onBack: () => void }) {
  const { questions } = useTexts();
  const { schema, args, toolName, options } = question;
  const field = useMemo(() => {
    const known = argumentsSchema(schema);
    return fieldOf(known.properties ? known : schemaLike(args ?? {}), args ?? {});
  }, [schema, args]);
  const form = useForm(field, reply, "data.edited_action.args");
  const isApproved = form.isUntouched && (!options || options.includes("approve"));
  const send = () =>
    form.submit((value) =>
      reply.answer({
        data: isApproved ? { type: "approve" } : { type: "edit", edited_action: { name: toolName, args: value ?? {} } },
      }),
    );
  return (
    <div className="space-y-4">
      <FormFields
        field={field}
        typed={form.typed}
        onChange={form.setTyped}
        errors={form.errors}
        label={questions.arguments}
      />
      {form.rest && <p className="text-sm text-bad">{form.rest}</p>}
      <div className="flex flex-wrap gap-2">
        <Button look="primary" onClick={send}>
          {questions.approveEdited}
        </Button>
        <Button onClick={onBack}>{questions.back}</Button>
      </div>
    </div>
  );
}

interface SayProps {
  label: string;
  send: string;
  onSend: (text: string) => void;
  onBack: () => void;
}

function Say({ label, send, onSend, onBack }: SayProps) {
  const { questions } = useTexts();
  const [text, setText] = useState("");
  return (
    <form
      className="space-y-3"
      onSubmit={(event) => {
        event.preventDefault();
        onSend(text.trim());
      }}
    >
      <Field label={label} value={text} autoComplete="off" onChange={(event) => setText(event.target.value)} />
      <div className="flex gap-2">
        <Button type="submit" look="primary">
          {send}
        </Button>
        <Button onClick={onBack}>{questions.back}</Button>
      </div>
    </form>
  );
}
