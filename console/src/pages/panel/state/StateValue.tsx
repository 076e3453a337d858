import { Disclosure } from "../../../parts/Disclosure";
import { JsonTree } from "../../../parts/JsonTree";
import { LongText } from "../../../parts/LongText";
import { Values } from "../activity/Values";
import { filesOf, todosOf } from "../named";
import { TaskBadge } from "../TaskBadge";

/** The value of a state: to-do lists and files as such, the rest as a tree. */
export function StateValue({ value }: { value: unknown }) {
  const todos = todosOf(value);
  if (todos)
    return (
      <ol className="space-y-2">
        {todos.map(({ content, status }, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: equal lines differ only in their index
          <li key={place} className="flex items-start justify-between gap-3 text-sm">
            <span className="min-w-0 break-words">{content}</span>
            <TaskBadge status={status} />
          </li>
        ))}
      </ol>
    );
  const files = filesOf(value);
  if (files)
    return files.map(([path, text]) => (
      <Disclosure key={path} summary={<span className="truncate font-mono text-[0.8125rem]">{path}</span>}>
        <div className="max-h-96 overflow-y-auto rounded-lg bg-sunken p-3">
          <LongText text={text} />
        </div>
      </Disclosure>
    ));
  if (typeof value === "object" && value !== null) return <Values of={value} depth={2} />;
  return <JsonTree value={value} />;
}
