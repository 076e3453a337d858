import { hasHidden, piecesOf } from "./invisible";

/** A text exactly as it is sent: invisible characters are named, and direction marks have no effect. */
export function Exact({ text }: { text: string }) {
  if (!hasHidden(text)) return <bdi>{text}</bdi>;
  return (
    <bdi>
      {piecesOf(text).map(({ text: piece, isHidden }, index) =>
        isHidden ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no state
          <span key={index} className="mx-0.5 rounded bg-warn-soft px-1 font-mono text-xs text-warn">
            {piece}
          </span>
        ) : (
          piece
        ),
      )}
    </bdi>
  );
}
