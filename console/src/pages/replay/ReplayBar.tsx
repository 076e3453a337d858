import type { Session } from "@stellwerk/client";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { Button } from "../../parts/Button";
import { Icon } from "../../parts/Icon";
import { patient } from "../../server/lazyChunks";
import { useTexts } from "../../texts";

const Replay = lazy(patient(() => import("./Replay").then((loaded) => ({ default: loaded.Replay }))));

interface Props {
  sid: string;
  live: Session;
  onShow: (session: Session | null) => void;
}

/** Moves the whole page to any position of the log; `onShow(null)` returns to now. */
export function ReplayBar({ sid, live, onShow }: Props) {
  const { replay } = useTexts();
  const { at } = useSearch({ from: "/chat/$sid" });
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  const wasOpen = useRef(false);
  wasOpen.current ||= open;
  useEffect(() => {
    if (at !== undefined) setOpen(true);
  }, [at]);
  if (!open)
    return (
      <div className="-mb-2 flex justify-end px-4 sm:px-6">
        <Button
          look="quiet"
          aria-expanded={false}
          title={replay.lead}
          ref={(button) => {
            if (wasOpen.current) button?.focus();
            wasOpen.current = false;
          }}
          onClick={() => setOpen(true)}
        >
          <Icon name="replay" /> {replay.title}
        </Button>
      </div>
    );
  const close = () => {
    setOpen(false);
    void navigate({ to: "/chat/$sid", params: { sid }, search: {}, replace: true });
  };
  return (
    <Suspense>
      <Replay key={sid} sid={sid} live={live} at={at} onShow={onShow} onClose={close} />
    </Suspense>
  );
}
