import { type Question as Asked, openQuestions, Problem, type Session } from "@stellwerk/client";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Button, buttonLook } from "../../parts/Button";
import { Card } from "../../parts/Card";
import { ErrorNote } from "../../parts/ErrorNote";
import { Field } from "../../parts/Field";
import { NotAllowed } from "../../parts/NotAllowed";
import { useToast } from "../../parts/Toast";
import { useAction } from "../../server/action";
import { client } from "../../server/client";
import { useScope } from "../../state/scopes";
import { useTexts } from "../../texts";

/** The open question. An answer goes to the first one. */
export function Question({ id, session }: { id: string; session: Session }) {
  const { workflows: words } = useTexts();
  const mayAnswer = useScope("run");
  const [question] = openQuestions(session);
  if (!session.awaitingUserInput || !question) return null;
  return (
    <Card title={words.asks(question.agent ?? "")} className="border-warn">
      {!mayAnswer ? (
        <div className="space-y-4">
          <p>{question.question}</p>
          <NotAllowed scope="run" />
        </div>
      ) : question.kind === "question" ? (
        <AnswerForm key={question.askId} id={id} question={question} />
      ) : (
        <div className="space-y-4">
          <p>{question.question}</p>
          <Link to="/chat/$sid" params={{ sid: id }} className={buttonLook("primary")}>
            {words.answerInChat}
          </Link>
        </div>
      )}
    </Card>
  );
}

function AnswerForm({ id, question }: { id: string; question: Asked }) {
  const { workflows: words, questions } = useTexts();
  const say = useToast();
  const [text, setText] = useState(typeof question.default === "string" ? question.default : "");
  const answer = useAction({
    mutationFn: (said: string) => client.answer(id, { ask_id: question.askId, text: said }),
    // The form is gone or will be: the question was answered elsewhere.
    onError: (error, said) =>
      error instanceof Problem && error.status === 409 && say(`${questions.lost} ${questions.yours(said)}`, "kept"),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) answer.mutate(text);
  };
  const options = question.options?.filter((option) => typeof option === "string") ?? [];
  return (
    <form onSubmit={submit} className="space-y-4">
      {options.length > 0 && (
        <div className="flex flex-wrap gap-2">
          {options.map((option) => (
            <Button key={option} disabled={answer.isPending} onClick={() => answer.mutate(option)}>
              {option}
            </Button>
          ))}
        </div>
      )}
      <Field label={question.question} value={text} onChange={({ target }) => setText(target.value)} />
      <div className="flex justify-end">
        <Button type="submit" look="primary" disabled={answer.isPending || !text.trim()}>
          {words.answer}
        </Button>
      </div>
      {answer.error && <ErrorNote error={answer.error} />}
    </form>
  );
}
