import { Icon } from "../../parts/Icon";
import { useTexts } from "../../texts";

/** A warning that part of the message is not used, with the remedy. */
export function WarningNote({ message }: { message: string }) {
  const { panel } = useTexts();
  return (
    <div className="flex gap-3 rounded-xl bg-warn-soft px-4 py-3 text-sm text-warn">
      <span className="mt-0.5">
        <Icon name="alert" size={16} />
      </span>
      <p className="min-w-0 break-words">
        <strong className="font-semibold">{panel.levels.warning}: </strong>
        {message}
      </p>
    </div>
  );
}
