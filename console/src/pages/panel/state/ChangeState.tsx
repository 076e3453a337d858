import { Problem } from "@stellwerk/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useContext, useId, useMemo, useState } from "react";
import { Button } from "../../../parts/Button";
import { Dialog } from "../../../parts/Dialog";
import { errorText } from "../../../parts/ErrorNote";
import { FormFields } from "../../../parts/form/FormFields";
import { initialOf, type Typed } from "../../../parts/form/formValues";
import { NOT_REFUSED, useFormValue } from "../../../parts/form/useForm";
import { Icon } from "../../../parts/Icon";
import { useToast } from "../../../parts/Toast";
import { freshKey } from "../../../server/conversation";
import { changeState } from "../../../server/queries";
import type { Agent, GraphValues, NewState } from "../../../server/types";
import { useTexts } from "../../../texts";
import { Updates } from "../updates";
import { changeableKeys, changeField } from "./changeFields";

interface Props {
  sid: string;
  graph: Agent;
  /** The state that is shown. */
  state: GraphValues;
  /** The earlier checkpoint to go back to; null for the latest. */
  checkpoint: string | null;
  isOpen: boolean;
  onClose: () => void;
  onDone: () => void;
}

/** Changes the state of a graph, as if a node had returned the values. */
export function ChangeState({ isOpen, onClose, ...props }: Props) {
  const { panel } = useTexts();
  return (
    <Dialog open={isOpen} onClose={onClose} title={panel.change.title} place="right">
      <ChangeForm {...props} onClose={onClose} />
    </Dialog>
  );
}

const SELECT = "h-9 w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink";

function ChangeForm({ sid, graph, state, checkpoint, onClose, onDone }: Omit<Props, "isOpen">) {
  const { panel, questions } = useTexts();
  const { change: words } = panel;
  const [keys, setKeys] = useState<readonly string[]>([]);
  const [typed, setTyped] = useState<{ readonly [key: string]: Typed }>({});
  const [node, setNode] = useState("");
  const [isTried, setTried] = useState(false);
  const action = useChange(sid, onDone);
  const field = useMemo(() => changeField(graph, state, keys), [graph, state, keys]);
  const form = useFormValue(field, typed, action.refused, "values");
  const id = useId();
  const left = changeableKeys(graph, state).filter((key) => !keys.includes(key));
  const blank = blankTexts(field, typed);
  const wrong = Object.keys(form.objections).filter((path) => !(path in blank));
  const own = Object.fromEntries(wrong.map((path) => [path, form.own[path] ?? questions.needed]));
  const send = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (wrong.length || !keys.length) return;
    const values = { ...(form.value as object), ...blank };
    action.send({
      values,
      ...(node ? { as_node: node } : {}),
      ...(checkpoint === null ? {} : { checkpoint_id: checkpoint }),
    });
  };
  const remove = (key: string) => {
    setKeys(keys.filter((one) => one !== key));
    const { [key]: _, ...rest } = typed;
    setTyped(rest);
  };
  const errors = isTried ? { ...form.theirs, ...own } : form.theirs;
  const rest = form.isPlaced ? null : action.refused.error;
  const fields = field.shape.kind === "object" ? field.shape.fields : [];
  return (
    <form noValidate className="space-y-5 px-6 pt-1 pb-6" onSubmit={send}>
      <p className="text-sm text-muted">{words.lead}</p>
      {checkpoint !== null && (
        <p className="flex gap-2.5 rounded-lg bg-warn-soft px-3 py-2 text-sm text-warn">
          <span className="mt-0.5">
            <Icon name="alert" size={16} />
          </span>
          {words.goesBack}
        </p>
      )}
      {fields.map((one) => (
        <div key={one.name} className="flex items-start gap-2">
          <div className="min-w-0 flex-1">
            <FormFields
              field={{ ...one, name: "", ...(graph.reducers?.includes(one.name) ? { hint: words.reduced } : {}) }}
              typed={typed[one.name] ?? initialOf(one)}
              onChange={(value) => setTyped({ ...typed, [one.name]: value })}
              errors={errors}
              path={one.name}
              isRoomy
            />
          </div>
          <Button look="quiet" square aria-label={words.leaveOut(one.name)} onClick={() => remove(one.name)}>
            <Icon name="close" size={16} />
          </Button>
        </div>
      ))}
      {left.length > 0 && (
        <div>
          <label htmlFor={`${id}-key`} className="mb-1.5 block text-sm font-medium">
            {keys.length ? words.another : words.key}
          </label>
          <select
            id={`${id}-key`}
            data-autofocus
            value=""
            className={SELECT}
            aria-invalid={isTried && !keys.length ? true : undefined}
            onChange={(event) => event.target.value && setKeys([...keys, event.target.value])}
          >
            <option value="">{words.choose}</option>
            {left.map((key) => (
              <option key={key} value={key}>
                {key}
              </option>
            ))}
          </select>
          {isTried && !keys.length && <p className="mt-1 text-sm text-bad">{words.noKey}</p>}
        </div>
      )}
      <div>
        <label htmlFor={`${id}-node`} className="mb-1.5 block text-sm font-medium">
          {words.node}
        </label>
        <select id={`${id}-node`} value={node} className={SELECT} onChange={(event) => setNode(event.target.value)}>
          <option value="">{words.lastNode}</option>
          {(graph.nodes ?? []).map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <p className="mt-1 text-sm text-muted">{words.nodeWhy}</p>
      </div>
      {rest && (
        <p role="alert" className="text-sm break-words text-bad">
          {rest}
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" look="primary" disabled={action.isPending}>
          {words.send}
        </Button>
        <Button onClick={onClose}>{words.cancel}</Button>
      </div>
    </form>
  );
}

/** Texts that are to be empty: a form would omit them. */
function blankTexts(field: ReturnType<typeof changeField>, typed: { readonly [key: string]: Typed }) {
  const fields = field.shape.kind === "object" ? field.shape.fields : [];
  const blank = fields.filter((one) => one.shape.kind === "text" && (typed[one.name] ?? initialOf(one)) === "");
  return Object.fromEntries(blank.map(({ name }) => [name, ""]));
}

interface Sent {
  change: NewState;
  once: string;
}

/** Sends a change; a lost connection is retried with the same key, so that it is made once. */
function useChange(sid: string, onDone: () => void) {
  const texts = useTexts();
  const say = useToast();
  const queries = useQueryClient();
  const updates = useContext(Updates);
  const { mutate, isPending, error } = useMutation({
    mutationFn: ({ change, once }: Sent) => changeState(sid, change, once),
    retry: (count, problem) => problem instanceof Problem && problem.status === 0 && count < 5,
    onSuccess: async ({ position }) => {
      say(texts.panel.change.done);
      updates?.want(position);
      onDone();
      await queries.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[0]).startsWith("graph-") });
    },
  });
  const problem = error instanceof Problem ? error : null;
  const blamed = problem?.status === 422 ? (problem.field ?? "") : null;
  const detail = problem?.message.replace(`${blamed}: `, "") ?? "";
  const refused = error
    ? { blamed, error: errorText(problem ? new Problem(problem.status, { code: problem.code, detail }) : error, texts) }
    : NOT_REFUSED;
  return { send: (change: NewState) => !isPending && mutate({ change, once: freshKey() }), isPending, refused };
}
