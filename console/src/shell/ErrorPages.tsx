import { Problem } from "@stellwerk/client";
import { Link, useRouter } from "@tanstack/react-router";
import { useEffect } from "react";
import { Button, buttonLook } from "../parts/Button";
import { EmptyState } from "../parts/EmptyState";
import { useToast } from "../parts/Toast";
import { isThere, Outdated } from "../server/lazyChunks";
import { useTexts } from "../texts";

export function NotFound() {
  const { shell } = useTexts();
  return (
    <EmptyState icon="alert" title={shell.notFound} isPage>
      <p>{shell.notFoundWhy}</p>
      <Link to="/" className={buttonLook("plain")}>
        {shell.toStart}
      </Link>
    </EmptyState>
  );
}

export function Broken({ error }: { error: unknown }) {
  if (error instanceof Problem && error.status === 0) return <Away />;
  if (error instanceof Outdated && !error.isTried) return <LoadedAgain error={error} />;
  return <Crashed error={error} />;
}

function LoadedAgain({ error }: { error: Outdated }) {
  useEffect(() => error.loadAgain(), [error]);
  return null;
}

/** Shown when a page could not be loaded; the frame stays usable. */
function Away() {
  const { shell, parts, problems } = useTexts();
  const router = useRouter();
  return (
    <EmptyState icon="alert" title={shell.notLoaded} isPage>
      <p role="alert">{problems.unreachable}</p>
      <Button onClick={() => void router.invalidate()}>{parts.retry}</Button>
    </EmptyState>
  );
}

/** Shown after a bug, or when a chunk of the console is missing. */
function Crashed({ error }: { error: unknown }) {
  const { shell, problems } = useTexts();
  const say = useToast();
  // Without a server the browser would replace our page with its own error page.
  const reload = async () => ((await isThere()) ? location.reload() : say(problems.unreachable, true));
  return (
    <EmptyState icon="alert" title={shell.crashed} isPage>
      <p className="font-mono text-sm break-all">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={reload}>{shell.reload}</Button>
    </EmptyState>
  );
}
