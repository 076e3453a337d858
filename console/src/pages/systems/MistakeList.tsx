import type { SpecProblem as Mistake } from "@stellwerk/client";
import { useTexts } from "../../texts";

interface Props {
  title: string;
  mistakes: readonly Mistake[];
  tone?: "bad" | "warn";
  /** Makes each line number a link to that line. */
  onGo?: (line: number) => void;
}

const TONES = { bad: "bg-bad-soft text-bad", warn: "bg-warn-soft text-warn" };

export function MistakeList({ title, mistakes, tone = "bad", onGo }: Props) {
  return (
    <div className={`rounded-xl px-5 py-4 ${TONES[tone]}`}>
      <p className="text-sm font-semibold">{title}</p>
      <ul className="mt-1.5 space-y-1.5 text-sm">
        {mistakes.map((mistake) => (
          <li key={`${mistake.line} ${mistake.field} ${mistake.message}`} className="flex flex-wrap gap-x-3">
            <Where mistake={mistake} onGo={onGo} />
            <span className="min-w-0 flex-1 basis-64 break-words">
              {mistake.field && <code className="mr-1.5 font-mono text-xs font-semibold">{mistake.field}</code>}
              {mistake.message}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Where({ mistake: { line }, onGo }: { mistake: Mistake; onGo?: Props["onGo"] }) {
  const { systems: words } = useTexts();
  if (line === null) return null;
  if (!onGo) return <span className="tabular-nums">{words.line(line)}</span>;
  return (
    <button type="button" className="tabular-nums underline underline-offset-2" onClick={() => onGo(line)}>
      {words.line(line)}
    </button>
  );
}
