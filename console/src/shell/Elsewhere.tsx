import { Link } from "@tanstack/react-router";
import { Button, buttonLook } from "../parts/Button";
import { EmptyState } from "../parts/EmptyState";
import { useTexts } from "../texts";

export function NotFound() {
  const { shell } = useTexts();
  return (
    <EmptyState icon="alert" title={shell.notFound}>
      <p>{shell.notFoundWhy}</p>
      <Link to="/" className={buttonLook("plain")}>
        {shell.toStart}
      </Link>
    </EmptyState>
  );
}

/** A bug of ours, or a page of a build that is gone since an update; then loading again helps. */
export function Broken({ error }: { error: unknown }) {
  const { shell } = useTexts();
  return (
    <EmptyState icon="alert" title={shell.crashed}>
      <p className="font-mono text-sm break-all">{error instanceof Error ? error.message : String(error)}</p>
      <Button onClick={() => location.reload()}>{shell.reload}</Button>
    </EmptyState>
  );
}
