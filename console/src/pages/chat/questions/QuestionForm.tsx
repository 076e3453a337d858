import type { NewAnswer, Question } from "@stellwerk/client";
import { type FormEvent, useMemo } from "react";
import { Button } from "../../../parts/Button";
import { FormFields, words } from "../../../parts/form/FormFields";
import { type FormField, fieldOf, isSchema } from "../../../parts/form/schema";
import { useForm } from "../../../parts/form/useForm";
import { useTexts } from "../../../texts";
import type { Reply } from "./useReply";

const PLAIN = { type: "string" };

/** Text is sent as text, everything else as data. */
function answerOf(value: unknown): NewAnswer {
  return typeof value === "string" ? { text: value } : { data: value };
}

/** The answer to an open question: an option, a form for its schema, or any text. */
export function QuestionForm({ question, reply }: { question: Question; reply: Reply }) {
  const { questions } = useTexts();
  const options = question.options ?? [];
  if (options.length && !isSchema(question.schema))
    return (
      <fieldset disabled={reply.isSent} className="min-w-0">
        <legend className="mb-2 text-sm text-muted">{questions.choose}</legend>
        <div className="flex flex-wrap gap-2">
          {options.map((option) => (
            <Button
              key={JSON.stringify(option)}
              look={option === question.default ? "primary" : "plain"}
              className="h-auto! min-h-9 max-w-full py-1.5"
              onClick={() => reply.answer(answerOf(option))}
            >
              <span dir="auto" className="min-w-0 text-start break-words whitespace-normal">
                {words(option)}
              </span>
            </Button>
          ))}
        </div>
        {reply.error && <p className="mt-2 text-sm text-bad">{reply.error}</p>}
      </fieldset>
    );
  return <SchemaForm question={question} reply={reply} />;
}

function SchemaForm({ question, reply }: { question: Question; reply: Reply }) {
  const { questions } = useTexts();
  const { schema, default: initial, kind } = question;
  const field: FormField = useMemo(() => fieldOf(schema ?? PLAIN, initial), [schema, initial]);
  const form = useForm(field, reply, reply.blamed === "text" ? "text" : "data");
  const send = (event: FormEvent) => {
    event.preventDefault();
    form.submit((value) => reply.answer(answerOf(value)));
  };
  return (
    <form onSubmit={send} noValidate>
      <fieldset disabled={reply.isSent} className="min-w-0 space-y-4">
        <FormFields
          field={field}
          typed={form.typed}
          onChange={form.setTyped}
          errors={form.errors}
          label={field.label || questions.yourAnswer}
        />
        {form.rest && <p className="text-sm text-bad">{form.rest}</p>}
        <div className="flex gap-2">
          <Button type="submit" look="primary">
            {questions.answer}
          </Button>
          {kind === "elicitation" && (
            <Button onClick={() => reply.answer({ refused: true })}>{questions.decline}</Button>
          )}
        </div>
      </fieldset>
    </form>
  );
}
