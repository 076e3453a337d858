import { hasHidden, piecesOf } from "./hidden";

/** A text as it is sent: nothing in it is unseen, and nothing in it turns round what stands beside it. */
export function Exact({ text }: { text: string }) {
  if (!hasHidden(text)) return <bdi>{text}</bdi>;
  return (
    <bdi>
      {piecesOf(text).map(({ text: piece, isHidden }, index) =>
        isHidden ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces are values, and hold no state
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
