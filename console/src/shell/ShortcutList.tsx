import { useTexts } from "../texts";
import { PLACES } from "./places";

export function ShortcutList() {
  const { shell, systems, replay } = useTexts();
  const rows: [keys: string[], what: string][] = [
    ...PLACES.map(({ key, name }): [string[], string] => [["g", key], shell.goTo(shell[name])]),
    [["n"], shell.newSession],
    [[systems.storeKeys], systems.register],
    [["k"], replay.playKey],
    [[",", "."], replay.stepKeys],
    [["?"], shell.shortcuts],
  ];
  return (
    <dl className="divide-y divide-line text-sm">
      {rows.map(([keys, what]) => (
        <div key={what} className="flex items-center justify-between py-2">
          <dt>{what}</dt>
          <dd className="flex gap-1">
            {keys.map((key) => (
              <kbd key={key} className="rounded-md border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs">
                {key}
              </kbd>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}
